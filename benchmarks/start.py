"""How long `harness --help` and `harness list methods` take, as whole processes, beside a bare Python.

python benchmarks/start.py [--rounds 15]
"""

import argparse
import subprocess
import sys
import time
from statistics import median


def seconds(*command: str) -> float:
    """One run of a command."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Print medians and ratios to a bare Python, from interleaved runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    commands = {
        "python -c pass": (sys.executable, "-c", "pass"),
        "harness --help": (sys.executable, "-m", "harness", "--help"),
        "harness list methods": (sys.executable, "-m", "harness", "list", "methods"),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(seconds(*command))
    bare = median(times["python -c pass"])
    for name, found in times.items():
        print(
            f"{name}: median {median(found):.3f} s, {median(found) / bare:.1f} times a bare Python"
        )


if __name__ == "__main__":
    main()
