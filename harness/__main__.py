"""The command `python -m harness`, which does the same as `harness`."""

from harness.cli import main

main()
