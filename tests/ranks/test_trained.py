"""All engines train alike: the weights after several steps are those of one process."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from harness.errors import TrialFailure, UserError
from harness.ranks import joined
from harness.training.engines import stage_optimiser
from harness.training.feeding import made, stage_streams
from harness.training.progress import Outcome
from harness.training.steps import Steps
from tests.kits import KitFor
from tests.method_cases import without_dropout
from tests.ranks.computed import computed
from tests.ranks.rank import Computed, by_ranks, kit_of
from tests.ranks.test_equal import ENGINES
from tests.ranks.trained import trained, trained_in_plain_torch
from tests.sweeping import TRAINED

SETTINGS: dict[str, dict[str, Any]] = {
    "accumulation": {"accumulation": 3, "batch_size": 6},
    "chunks": {"chunk_size": 2},
    "clipping": {"gradient_clipping": 0.1},
    "uneven last batch": {"batch_size": 19},
    "together": {
        "accumulation": 2, "chunk_size": 4, "gradient_clipping": 0.1, "batch_size": 5,
        "weight_decay": 10.0,
    },
    "a loss over nothing": {
        "setting": "unsup", "masked_language_weight": 0.1, "masking_ratio": 0.005,
        "accumulation": 2, "batch_size": 4,
    },
}  # fmt: skip
"""The last of two batches of 19 has one row, so that the second rank has none of its own. The
strong decay makes the weights of `together` smaller by a quarter of a per cent"""
TWO = [engine for engine, fields in ENGINES.items() if fields["workers"] == 2]
HARD = ("uneven last batch", "together", "a loss over nothing")
RUNS = [
    *(("ddp-2", setting) for setting in SETTINGS),
    *((engine, setting) for engine in ("zero-2", "zero-3", "fsdp") for setting in HARD),
    *((engine, "together") for engine in TWO if engine.startswith("zero-") and len(engine) > 6),
    ("zero-1", "together"),
]
"""Accumulation, chunks and clipping are all in `together`, and stages of DeepSpeed and what it
offloads are the same code (test_equal.py)"""
TRAVELS = {"zero_optimization": {"stage3_param_persistence_threshold": 1}}
"""Small parameters stay whole on every worker by default"""
SHARDED = {"zero-3": ENGINES["zero-3"] | {"deepspeed": TRAVELS}, "fsdp": ENGINES["fsdp"]}
KEPT_ROUNDED = {
    **{engine: ENGINES[engine] for engine in ("zero-1", "zero-2")},
    "zero-1-offload": ENGINES["zero-2-offload"] | {"zero": 1},
    "zero-2-offload": ENGINES["zero-2-offload"] | {"accumulation": 1},
}
LEARNING_RATE = 1e-4
LARGEST = 0.35 * LEARNING_RATE
"""Most that a weight may differ by after four steps, whose rates add up to 2.5 times the peak"""
MEAN = 0.002 * LEARNING_RATE
"""Most that the root mean square of all differences may be"""


Cases = dict[str, tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def cases(triplets: Path, sentences: Path) -> Cases:
    """Setting -> method and all its values."""
    values = {
        "encoder": "tiny-bert", "suite": "graded", "setting": "sup", "precision": "fp32",
        "triplets": str(triplets), "sentences": str(sentences), "batch_size": 8,
        "learning_rate": LEARNING_RATE, "gradient_clipping": 1e9,
    }  # fmt: skip
    # With weight decay, DeepSpeed has four groups of parameters.
    settings = SETTINGS | {"bf16": {"precision": "bf16", "weight_decay": 10.0, "accumulation": 2}}
    return {name: ("simcse", values | given) for name, given in settings.items()}


@pytest.fixture(scope="module")
def alone(cases: Cases) -> dict[str, Computed]:
    return {setting: trained_in_plain_torch(*cases[setting]) for setting in SETTINGS}


Together = dict[str, dict[str, Computed]]


@pytest.fixture
def joined_alone(tmp_path: Path) -> Iterator[None]:
    """This process is the only rank of a trial."""
    with joined(0, 1, f"file://{tmp_path / 'meeting'}"):
        yield


@pytest.fixture(scope="module")
def together(cases: Cases, tmp_path_factory: pytest.TempPathFactory) -> Together:
    """Engine -> setting -> what two ranks train; the same two processes for all of them."""
    runs: dict[str, Any] = {engine: {} for engine in TWO}
    for engine, setting in RUNS:
        name, values = cases[setting]
        runs[engine][setting] = name, values | ENGINES[engine]
    folder = tmp_path_factory.mktemp("trained")
    return by_ranks("tests.ranks.trained:trained", runs, 2, folder)


TINY = {
    "encoder": "tiny-bert", "suite": "graded", "sentences": "graded-sentences",
    "precision": "fp32", "max_steps": 4,
}  # fmt: skip


def changed(folder: Path, lines: dict[str, str]) -> str:
    """A file with the plugin `TRAINED` and with other lines in it. lines: old -> new ones."""
    source = TRAINED
    for old, new in lines.items():
        assert old in source
        source = source.replace(old, new)
    path = folder / "changed.py"
    path.write_text(f"PAUSE = 0\n{source}", encoding="utf-8")
    return str(path)


def differences(result: Computed, expected: Computed) -> torch.Tensor:
    """The differences of all weights that float32 decides, (weights,)."""
    names = [name for name in expected if name not in ("undecided", "norms")]
    assert result.keys() - {"undecided"} == {*names, "norms"}
    each = [(result[name] - expected[name]).abs().flatten() for name in names]
    return torch.cat(each)[~expected["undecided"]]


# More than 20 s: the first case trains all of them, in the same two processes.
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(("engine", "setting"), RUNS)
def test_weights_after_four_steps(
    together: Together, alone: dict[str, Computed], engine: str, setting: str
) -> None:
    found, expected = together[engine][setting], alone[setting]
    torch.testing.assert_close(found["norms"], expected["norms"], rtol=1e-5, atol=0)
    different = differences(found, expected)
    assert different.max() < LARGEST
    assert different.square().mean().sqrt() < MEAN


@pytest.mark.slow
@pytest.mark.process
def test_weights_that_products_round_travel_rounded(cases: Cases, tmp_path: Path) -> None:
    """Linear layers travel as bf16: fewer bytes give the same bits, and those of one process.

    ZeRO 1 and 2 keep them rounded between steps, too, and step on float32 values of their shares. A
    checkpoint has the float32 values of all.
    """
    name, values = cases["bf16"]
    engines = SHARDED | KEPT_ROUNDED
    runs = {engine: {"bf16": (name, values | fields)} for engine, fields in engines.items()}
    together = by_ranks("tests.ranks.trained:trained_in_three_ways", runs, 2, tmp_path / "ranks")
    alone = {
        accumulation: trained_in_plain_torch(name, values | {"accumulation": accumulation})
        for accumulation in (1, 2)
    }
    for engine, fields in engines.items():
        ways: dict[str, Computed] = {}
        for part, value in together[engine]["bf16"].items():
            way, _, what = part.partition(" ")
            ways.setdefault(way, {})[what] = value
        exact, rounded, stopped = (ways[way] for way in ("exact", "rounded", "stopped"))
        assert rounded.pop("gathered") < 0.9 * exact.pop("gathered")
        stopped.pop("gathered")
        norms, exact_norms = rounded.pop("norms"), exact.pop("norms")
        assert torch.equal(stopped.pop("norms"), norms)
        torch.testing.assert_close(rounded, exact, rtol=0, atol=0)
        torch.testing.assert_close(stopped, rounded, rtol=0, atol=0)
        # DeepSpeed sums the squares of gradients group by group, and rounded weights are their own.
        last_digit = 1e-6 if engine in KEPT_ROUNDED else 0
        torch.testing.assert_close(norms, exact_norms, rtol=last_digit, atol=0)
        expected = alone[fields.get("accumulation", 2)]["norms"]
        torch.testing.assert_close(norms, expected, rtol=2**-6, atol=0)


@pytest.mark.slow
@pytest.mark.process
def test_clipping_clips(alone: dict[str, Computed]) -> None:
    """And the settings train something else than one another."""
    assert alone["clipping"]["norms"].min() > SETTINGS["clipping"]["gradient_clipping"]
    assert differences(alone["clipping"], alone["chunks"]).max() > LARGEST


@pytest.mark.slow
@pytest.mark.process  # DeepSpeed asks the machine for numactl
@pytest.mark.usefixtures("joined_alone")
@pytest.mark.parametrize("zero", [2, 3])
def test_deepspeed_refuses_batches_that_reach_other_parameters(tmp_path: Path, zero: int) -> None:
    """DeepSpeed would take the gradient of an earlier batch for that of one that gives none."""
    lines = {
        "        self.words = ": "        self.rare = nn.Linear(2, 2)\n        self.words = ",
        '        vectors = self.embed(batch["contrastive"])\n': (
            '        vectors = self.embed(batch["contrastive"])\n'
            "        self.batches = getattr(self, 'batches', 0) + 1\n"
            "        if self.batches != 2:\n"
            "            vectors = vectors + self.rare.weight.sum()\n"
        ),
        "            max_steps": "            accumulation=2,\n                max_steps",
    }
    values = {"engine": "deepspeed", "zero": zero, "batch_size": 4}
    with pytest.raises(TrialFailure, match=r"only some give rare.weight one; set engine=ddp"):
        trained(changed(tmp_path, lines), TINY | values)


@pytest.mark.slow
@pytest.mark.usefixtures("joined_alone")
@pytest.mark.parametrize(
    ("setting", "searches"), [("clipping", False), ("a loss over nothing", True)]
)
def test_ddp_searches_for_what_a_step_leaves_out_where_steps_may_differ(
    cases: Cases, setting: str, *, searches: bool
) -> None:
    name, values = cases[setting]
    kit = kit_of(name, values | {"engine": "ddp"})
    [stage] = kit.declared.stages
    method = without_dropout(kit).train()
    optimiser = stage_optimiser(stage, method, kit.config, 2, None)
    batches = made(method, stage, stage_streams(method, kit, stage, seed=0), 0)
    steps = Steps(kit, seed=0)
    for step in range(2):
        assert isinstance(optimiser.losses, DistributedDataParallel)
        assert optimiser.losses.find_unused_parameters is (searches or step == 0)
        steps.run(Outcome(), optimiser, batches, step)


@pytest.mark.slow
@pytest.mark.process  # DeepSpeed asks the machine for numactl
@pytest.mark.usefixtures("joined_alone")
@pytest.mark.parametrize(
    ("engine", "parameter"),
    [("zero-2", "words"), *((engine, name) for engine in SHARDED for name in ("words", "slow"))],
)
def test_engines_with_shares_refuse_a_method_that_changes_parameters(
    tmp_path: Path, engine: str, parameter: str
) -> None:
    """The change would be lost, because a rank changes a copy. `slow` does not train."""
    begin = "    def losses(self, batch, stage):\n"
    changes = f"        with torch.no_grad():\n            self.{parameter}.weight.mul_(2)\n"
    lines = {
        begin: begin + changes,
        '"*": ': '"words.*": ',
        "self.words = ": "self.slow = nn.Linear(2, 2)\n        self.words = ",
    }
    with pytest.raises(TrialFailure, match=f"changes {parameter}.weight by itself .* engine=ddp"):
        trained(changed(tmp_path, lines), TINY | ENGINES[engine] | {"workers": 1})


@pytest.mark.slow
@pytest.mark.process  # DeepSpeed asks the machine for numactl
@pytest.mark.parametrize("zero", [2, 3])
def test_deepspeed_computes_in_the_precision_that_is_asked_for(
    cases: Cases, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, zero: int
) -> None:
    """On a GPU it switches off, around its own pass, the rounding that a caller has asked for.

    It asks whether products on a GPU are rounded, so here it is told of those on the CPU.
    """
    asked = torch.is_autocast_enabled
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device="cpu": asked(device))
    name, values = cases["clipping"]
    bf16, fp32 = (
        computed(name, values | {"precision": precision}) for precision in ("bf16", "fp32")
    )
    before = os.environ.get("LOCAL_RANK")
    with joined(0, 1, f"file://{tmp_path / 'meeting'}"):
        losses = computed(name, values | {"precision": "bf16", "engine": "deepspeed", "zero": zero})
    # A variable that stays would let accelerate look for other ranks in the next trial.
    assert os.environ.get("LOCAL_RANK") == before
    for loss in ("contrastive 0 contrastive", "contrastive 1 contrastive"):
        # The linear layers of ZeRO 3 round once more, before they add the bias.
        last_digit = 2e-3 if zero == 3 else 1e-6
        torch.testing.assert_close(losses[loss], bf16[loss], rtol=last_digit, atol=0)
        assert abs(losses[loss] / fp32[loss] - 1) > 1e-4


@pytest.mark.slow
def test_chunks_of_sharded_weights_have_no_checkpoints_inside(kit_for: KitFor) -> None:
    """The ranks would ask one another for weights in different orders."""
    both = {"chunk_size": 4, "gradient_checkpointing": True, "engine": "deepspeed"}
    kit_for("simcse", **both, zero=2)
    with pytest.raises(UserError, match="leave out gradient_checkpointing"):
        kit_for("simcse", **both, zero=3)
