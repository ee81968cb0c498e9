"""CLSR against clsr.md.

The traps are those of clsr.md, section 7. Trap 6 is about a corpus and trap 7 about a table, so
they are tested elsewhere.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from harness.data.batching import TextBatch
from harness.errors import UserError
from harness.plugin.kit import Kit
from harness.training.loop import Trainer
from harness.training.parameters import count, trainable
from harness.training.progress import Outcome
from tests.families import FAMILIES
from tests.methods.references import KitFor, first_texts, watched


@pytest.fixture
def kit(kit_for: KitFor, triplets: Path) -> Kit:
    return kit_for("clsr", pairs=str(triplets), batch_size=8, epochs=2)


def build(kit: Kit) -> Any:
    torch.manual_seed(0)
    return kit.build()


def items(*numbers: int) -> dict[str, TextBatch]:
    nothing = torch.zeros(3 * len(numbers), 0, dtype=torch.long)
    return {"pairs": TextBatch(nothing, nothing, torch.tensor(numbers), 3)}


def trained(method: Any, kit: Kit, scores: tuple[float, ...] = ()) -> Outcome:
    endless = iter((*scores, *[0.0] * 1000))
    return Trainer(method, kit, 0, lambda: next(endless), lambda _: None).run()


@FAMILIES
@torch.no_grad()
def test_trap_1_the_vectors_are_the_frozen_encoders_without_dropout(kit: Kit) -> None:
    """The mean over all tokens of the last layer, in training and in the test."""
    method = build(kit).eval()
    batch = first_texts(kit, method, kit.config.pairs)
    states = method.encoder.model(
        input_ids=batch.input_ids, attention_mask=batch.attention_mask
    ).last_hidden_state
    mask = batch.attention_mask[:, :, None]
    expected = (states * mask).sum(dim=1) / mask.sum(dim=1)
    cached = method.vectors(batch.items).flatten(0, 1)
    assert (cached - expected).abs().max() < 1e-5
    assert (method.base(batch) - expected).abs().max() < 1e-5


@FAMILIES
def test_trap_2_the_head_is_dropped(kit: Kit) -> None:
    method = build(kit).eval()
    batch = first_texts(kit, method, kit.config.pairs)
    (head,) = watched(method, "head")
    vectors = method.embed(batch)
    assert not head.given
    assert vectors.shape == (len(batch.input_ids), 768)
    assert vectors.equal(method.mlp(method.base(batch)))
    method.losses(items(0, 1), method.stages(kit.config)[0])
    assert len(head.given) == 1


@FAMILIES
@pytest.mark.parametrize("relu", ["both", "hidden", "output"])
def test_trap_3_and_4_loss_written_out(kit_for: KitFor, triplets: Path, relu: str) -> None:
    """2m vectors at the temperature 0.1. The third column of the corpus is not used."""
    kit = kit_for("clsr", pairs=str(triplets), relu=relu)
    method = build(kit)
    chosen = [3, 11, 0, 7]
    state = {
        name: value.double().numpy()
        for name, value in method.state_dict().items()
        if "encoder" not in name
    }
    linear = [key.removesuffix(".weight") for key in state if key.endswith(".weight")]
    assert len(linear) == 3
    vectors = np.concatenate(
        [kit.artefact("vectors")["vectors"][chosen, side] for side in (0, 1)]
    ).astype(np.float64)
    hidden = vectors @ state[f"{linear[0]}.weight"].T + state[f"{linear[0]}.bias"]
    hidden = hidden if relu == "output" else np.maximum(hidden, 0)
    outputs = hidden @ state[f"{linear[1]}.weight"].T + state[f"{linear[1]}.bias"]
    outputs = outputs if relu == "hidden" else np.maximum(outputs, 0)
    assert (outputs.min() < 0) == (relu == "hidden")
    projected = outputs @ state["head.weight"].T + state["head.bias"]
    projected /= np.linalg.norm(projected, axis=1, keepdims=True)
    scores = np.exp(projected @ projected.T / 0.1)
    partner = [(row + 4) % 8 for row in range(8)]
    expected = np.mean(
        [-np.log(scores[a, b] / (scores[a].sum() - scores[a, a])) for a, b in enumerate(partner)]
    )
    found = method.losses(items(*chosen), method.stages(kit.config)[0])
    assert found.keys() == {"contrastive"}
    assert found["contrastive"].item() == pytest.approx(expected, rel=1e-4)


def test_trap_5_lars_with_warm_up_and_cosine(kit: Kit) -> None:
    """The numbers of both are tested with the optimisers."""
    (stage,) = kit.declared.stages
    assert (stage.optimisation.optimiser, stage.optimisation.schedule) == ("lars", "cosine")
    assert stage.optimisation.decays == "matrices"


def test_batches_are_full(kit_for: KitFor, triplets: Path) -> None:
    """20 pairs in batches of 8 are two steps an epoch. The other four pairs wait."""
    kit = kit_for("clsr", pairs=str(triplets), batch_size=8, epochs=3)
    method = build(kit)
    (head,) = watched(method, "head")
    assert trained(method, kit).steps == 6
    assert {given[0].shape for given, _ in head.given} == {(8, 2, 768)}
    with pytest.raises(UserError, match="20 items are too few"):
        trained(method, kit_for("clsr", pairs=str(triplets), batch_size=21))


@pytest.mark.parametrize(("checkpoint", "kept", "score"), [("best", 2, 5.0), ("last", 4, 3.0)])
def test_checkpoint_that_counts(
    kit_for: KitFor, triplets: Path, checkpoint: str, kept: int, score: float
) -> None:
    given = {"pairs": str(triplets), "batch_size": 8, "epochs": 2, "evaluation_interval": 1}
    kit = kit_for("clsr", checkpoint=checkpoint, **given)
    method = build(kit)
    states: list[torch.Tensor] = []

    def evaluate() -> float:
        states.append(method.head.weight.detach().clone())
        return (1.0, 5.0, 5.0, 3.0)[len(states) - 1]

    outcome = Trainer(method, kit, 0, evaluate, lambda _: None).run()
    assert (outcome.best_step, outcome.best_dev) == (kept, score)
    assert method.head.weight.equal(states[kept - 1])
    assert not states[1].equal(states[3])


def test_pairs_of_two_columns(kit_for: KitFor, tmp_path: Path) -> None:
    table = pa.table(
        {"premise": ["a dog", "the cat"] * 4, "hypothesis": ["the cat"] * 8, "label": [0] * 8}
    )
    pq.write_table(table, tmp_path / "pairs.parquet")
    kit = kit_for("clsr", pairs=str(tmp_path / "pairs.parquet"), batch_size=4, epochs=1)
    assert kit.artefact("vectors")["vectors"].shape == (8, 2, 32)
    assert trained(build(kit), kit).steps == 2


@torch.no_grad()
@FAMILIES
def test_cls_pooling(kit_for: KitFor, triplets: Path) -> None:
    kit = kit_for("clsr", pairs=str(triplets), pooling="cls")
    method = build(kit).eval()
    batch = first_texts(kit, method, kit.config.pairs)
    expected = method.encoder(batch)[:, 0]
    assert (method.vectors(batch.items).flatten(0, 1) - expected).abs().max() < 1e-5
    assert (method.base(batch) - expected).abs().max() < 1e-5


def test_parameters(kit: Kit) -> None:
    """The MLP maps to 768 numbers, and so does the head behind it."""

    def mlp(width: int) -> int:
        return width * 768 + 768 + 768 * 768 + 768

    method = build(kit)
    trainable(method, method.stages(kit.config)[0])
    assert count(method.mlp, trained=True) == mlp(32)
    assert count(method.head, trained=True) == 590_592
    assert count(method, trained=True) == mlp(32) + 590_592
    assert (mlp(768), mlp(1024)) == (1_181_184, 1_377_792)
