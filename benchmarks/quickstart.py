"""The quickstart as a newcomer runs it: writes its table and its time into the README.

.venv/bin/python benchmarks/quickstart.py           # writes them; the machine should be idle
.venv/bin/python benchmarks/quickstart.py --print   # prints them and the load, writes nothing
"""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import torch

README = Path(__file__).resolve().parents[1] / "README.md"
TABLE = re.compile(r"^ {4}#  (?:.+\n)+", re.MULTILINE)
"""The indented table in the README"""
TOOK = re.compile(r"^It took \d+ s (?:.+\n)+", re.MULTILINE)
"""The paragraph in the README about the run that made the table"""


def main() -> None:
    """Run the quickstart, and write what it printed."""
    before = os.getloadavg()[0]
    printed, seconds = run()
    table = textwrap.indent("\n".join(table_of(printed)), "    ") + "\n"
    about = textwrap.fill(
        f"It took {seconds:.0f} s without the installation, on {os.cpu_count()} cores "
        f"({processor()}). The last digits depend on the processor; "
        "`benchmarks/quickstart.py` writes these numbers anew.",
        width=100,
    )
    if "--print" in sys.argv:
        print(f"{table}{about}\nload before it {before:.1f}, after it {os.getloadavg()[0]:.1f}")
        return
    text = README.read_text(encoding="utf-8")
    for pattern, new in ((TABLE, table), (TOOK, about + "\n")):
        [old] = pattern.findall(text)
        text = text.replace(old, new)
    README.write_text(text, encoding="utf-8")


def run() -> tuple[str, float]:
    """Output of the quickstart, and its seconds, with an empty store and an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HARNESS_", "OMP_", "RAY_"))
        }
        environment["HARNESS_CACHE"] = f"{folder}/cache"
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "harness", "sweep", "quickstart"],
            cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        return done.stdout, time.perf_counter() - began


def table_of(printed: str) -> list[str]:
    """The lines of the table that a sweep has printed, without the notes below it."""
    lines = printed.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("#  "))
    return lines[first : lines.index("", first)]


def processor() -> str:
    """The name of the processor, and the instructions that torch uses."""
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = found[1] if found else "unknown processor"
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


if __name__ == "__main__":
    main()
