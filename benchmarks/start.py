"""Seconds of `harness --help` and `harness list methods`, as whole processes.

Beside them stands a Python that does nothing. The commands take turns.

    python benchmarks/start.py [--rounds 15]

A short try: `python benchmarks/start.py --rounds 1`.
"""

import argparse
import subprocess
import sys
import time
from statistics import median


def seconds(*command: str) -> float:
    """Run a command, and return its wall seconds."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Print the medians, and their ratios to a Python that does nothing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    commands = {
        "python -c pass": (sys.executable, "-c", "pass"),
        "harness --help": (sys.executable, "-m", "harness", "--help"),
        "harness list methods": (sys.executable, "-m", "harness", "list", "methods"),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    # In turn, so that a busy moment of the machine meets all of them.
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(seconds(*command))
    bare = median(times["python -c pass"])
    for name, found in times.items():
        ratio = median(found) / bare
        print(f"{name}: median {median(found):.3f} s, {ratio:.1f} times a bare Python")


if __name__ == "__main__":
    main()
