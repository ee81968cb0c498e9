"""Ranks draw the dropout of their rows independently of one another, shown by its statistics.

Equal masks in two ranks would make the rows of a batch more alike than those of one process, which
no test of losses without dropout can see.
"""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from harness.ranks import rank_count, seed_own
from harness.training.feeding import made, stage_streams
from harness.training.seeds import seed_everything
from tests.ranks.rank import Computed, by_ranks, kit_of

RANKS, STEPS, SENTENCES = 3, 12, 12
RATE = 0.1
"""Share of the numbers that dropout leaves out, as in the papers"""
SIGMAS = 5
"""Standard deviations by which a statistic may be off; chance passes them once in 2 million"""


def masks(name: str, values: dict[str, Any]) -> Computed:
    """`dropped`: what each rank drops in each step, (ranks, steps, numbers) bool; `shared`: numbers
    that they draw together behind it, (ranks, steps)."""
    kit = kit_of(name, values)
    seed_everything(0)
    method = kit.build().train()
    stage = kit.declared.stages[0]
    batch = next(made(method, stage, stage_streams(method, kit, stage, seed=0), 0))
    dropped: list[list[Tensor]] = []

    def keep(_: nn.Module, given: tuple[Tensor], output: Tensor) -> None:
        dropped[-1].append((output == 0).flatten() & (given[0] != 0).flatten())

    for module in method.modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(keep)
    shared = []
    for step in range(STEPS):
        dropped.append([])
        seed_own(0, 0, step)
        method.losses(batch, stage)
        shared.append(torch.rand(()))
    own = {
        "dropped": torch.stack([torch.cat(each) for each in dropped]).byte(),
        "shared": torch.stack(shared),
    }
    of_all = {}
    for part, value in own.items():
        parts = [torch.empty_like(value) for _ in range(rank_count())]
        dist.all_gather(parts, value)
        of_all[part] = torch.stack(parts)
    return of_all


@pytest.mark.slow
@pytest.mark.process
def test_masks_of_ranks_are_independent(tmp_path: Path) -> None:
    """Two ranks of a step and two steps of a rank differ; the share dropped is the rate."""
    # Sentences of one length, so that the same places of two ranks are comparable.
    corpus = tmp_path / "sentences.txt"
    corpus.write_text("".join(f"the dog sees {number % 10}\n" for number in range(SENTENCES)))
    values = {
        "encoder": "tiny-bert", "suite": "graded", "sentences": str(corpus),
        "batch_size": SENTENCES, "engine": "ddp", "workers": RANKS,
    }  # fmt: skip
    run = {"ddp": {"simcse": ("simcse", values)}}
    drawn = by_ranks("tests.ranks.test_dropout:masks", run, RANKS, tmp_path)["ddp"]["simcse"]
    shared = drawn["shared"]
    assert (shared == shared[0]).all(), "what the ranks draw together is not the same"
    assert len({*shared[0].tolist()}) == STEPS
    dropped = drawn["dropped"].double()
    count = dropped.shape[-1]
    assert count > 20_000
    deviation = (RATE * (1 - RATE) / count) ** 0.5
    assert ((dropped.mean(-1) - RATE).abs() < SIGMAS * deviation).all()
    masks = ((dropped - RATE) / (RATE * (1 - RATE)) ** 0.5).flatten(0, 1)  # (ranks x steps, count)
    correlations = masks @ masks.T / count
    for one, other in combinations(range(RANKS * STEPS), 2):
        assert abs(correlations[one, other]) < SIGMAS / count**0.5, divmod(one, STEPS)
