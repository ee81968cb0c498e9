"""Processor seconds of verbs that train nothing, and of refusals, as whole processes.

A store with the trials of `sweep pooling quickstart` is made first. With `--before`, the commands
of another checkout, which has an environment in `.venv` too, take turns with those of this one.

    python benchmarks/start.py [--rounds 5] [--before CHECKOUT]

A short try: `python benchmarks/start.py --rounds 1`.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

SWEEP = "sweep pooling quickstart --store STORE"
COMMANDS = {
    "0.4: refusals": [
        "--help",
        "--version",
        "swep",
        "table --papr diffaug",
        "run simcs",
        "run simcse --set learning_rat=1",
        "run simcse --encoder bert-bas",
        "sweep simcs unsup",
        "sweep simcse unsu",
        "sweep simcse unsup --set learning_rat=1",
        "plan d2cse unsup --set learning_rat=1",
        "table --paper diffau",
        "table --paper diffaug --table 99 --store STORE",
        "show learning_rat",
        "show 0123456789ab --store STORE",
        "compare bert-bas simcs --store STORE",
    ],
    "1.0: what is printed": [
        "list methods",
        "list trials --store STORE",
        "show simcse",
        "table --store STORE",
        "table --paper diffaug --store STORE",
        SWEEP,
    ],
    "2.0: plans": [
        "plan d2cse unsup --store STORE",
        "plan unsup --store STORE",
        "sweep --paper diffaug --table 1 --dry-run --store STORE",
    ],
}
"""Processor seconds to reach on two cores with AVX2, and what for -> commands"""


def seconds(python: str, command: str, store: Path) -> float:
    """Run a verb, and return the processor seconds of its process and the ones that it starts."""
    words = [word.replace("STORE", str(store)) for word in shlex.split(command)]
    before = os.times()
    subprocess.run([python, "-P", "-m", "harness", *words], capture_output=True, check=False)
    after = os.times()
    spent = [times.children_user + times.children_system for times in (before, after)]
    return spent[1] - spent[0]


def main() -> None:
    """Print the medians of every command, of the other checkout first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path)
    options = parser.parse_args()
    pythons = [sys.executable]
    if options.before:
        pythons.insert(0, str(options.before.resolve() / ".venv" / "bin" / "python"))
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "trials")
        seconds(sys.executable, SWEEP, store)
        for title, commands in COMMANDS.items():
            print(f"To reach {title}")
            for command in commands:
                # In turn, so that a busy moment of the machine meets both.
                rounds = [
                    [seconds(python, command, store) for python in pythons]
                    for _ in range(options.rounds)
                ]
                medians = "  ".join(f"{median(times):.2f}" for times in zip(*rounds, strict=True))
                print(f"  {medians}  harness {command}", flush=True)


if __name__ == "__main__":
    main()
