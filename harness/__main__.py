"""The command `python -m harness`, which does the same as `harness`."""

import sys

# Python looks for every module in the working folder first, whose files are the user's.
if not sys.flags.safe_path:
    del sys.path[0]

from harness.cli import main

main()
