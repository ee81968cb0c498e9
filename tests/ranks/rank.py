"""One rank of a test, and how tests start several.

`python -m tests.ranks.rank FILE` is one rank: FILE has what it computes, its rank and the file in
which rank 0 leaves what was computed.
"""

import gc
import json
import os
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.trials.workers import RankSpec
from tests.programs import started

LIMIT = 900
"""Seconds for all runs on a busy machine"""
Computed = dict[str, Tensor]
"""Name -> what was computed"""


def kit_of(name: str, values: dict[str, Any]) -> Kit:
    """A kit on the CPU."""
    plugin = registry.load(name)
    return Kit(plugin.declare(resolve(plugin, values)), torch.device("cpu"))


def by_ranks(
    function: str, runs: dict[str, Any], count: int, folder: Path
) -> dict[str, dict[str, Computed]]:
    """Results that so many ranks compute together, run after run.

    `function`: `module:name`, which takes a method and its values. `runs`: run -> case -> these.
    """
    folder.mkdir(exist_ok=True)
    results = folder / "results.pt"
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    with ExitStack() as ranks:
        processes = []
        for number in range(count):
            told = folder / f"{number}.json"
            rank = {"number": number, "count": count, "threads": 1}
            everything = {"function": function, "runs": runs, "rank": rank}
            everything |= {"folder": str(folder), "results": str(results)}
            told.write_text(json.dumps(everything), encoding="utf-8")
            process = started("tests.ranks.rank", str(told), environment=environment)
            processes.append(ranks.enter_context(process))
        assert [process.wait(LIMIT) for process in processes] == [0] * count
    found: dict[str, dict[str, Computed]] = torch.load(results, weights_only=True)
    return found


def main() -> None:
    """Be one rank."""
    told = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    module, _, name = told["function"].partition(":")
    compute = getattr(import_module(module), name)
    everything: dict[str, dict[str, Computed]] = {}
    for run, cases in told["runs"].items():
        meeting = f"file://{told['folder']}/{run}"
        everything[run] = {}
        with RankSpec(**told["rank"], address=meeting).active():
            for case, given in cases.items():
                everything[run][case] = compute(*given)
                gc.freeze()  # DeepSpeed collects garbage at every start, and its engines remain
    if told["rank"]["number"] == 0:
        torch.save(everything, told["results"])


if __name__ == "__main__":
    main()
