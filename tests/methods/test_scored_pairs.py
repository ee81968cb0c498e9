"""Training on scored pairs: recipe, scale of the scores, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from harness.data.corpora import source
from harness.errors import TrialFailure, UserError
from harness.plugin import registry
from harness.plugin.resolution import resolve
from tests.families import FAMILIES
from tests.methods.references import KitFor, first_texts

SCORES = [0.0, 1.25, 2.5, 3.75, 5.0, 5.0]
TEXTS = ["a red bird", "the old dog", "a small cat sees", "the horse", "a farmer", "the house"]


@pytest.fixture
def scored(tmp_path: Path) -> str:
    """A corpus of six scored pairs."""
    rows = zip(TEXTS, TEXTS[1:] + TEXTS[:1], SCORES, strict=True)
    lines = [",".join(map(str, row)) for row in rows]
    (tmp_path / "pairs.csv").write_text("\n".join(["sentence1,sentence2,score", *lines]))
    return str(tmp_path / "pairs.csv")


@FAMILIES
@pytest.mark.parametrize("objective", ["cosine-mse", "cosent"])
def test_the_loss_of_a_batch(kit_for: KitFor, scored: str, objective: str) -> None:
    kit = kit_for("scored_pairs", scored_pairs=scored, objective=objective)
    method = kit.build().eval()
    texts = first_texts(kit, method, scored)
    vectors = method.embed(texts).detach().double().numpy()
    cosines = [
        float(u @ v) / float(np.sqrt((u @ u) * (v @ v)))
        for u, v in zip(vectors[0::2], vectors[1::2], strict=True)
    ]
    gold = [SCORES[item] for item in texts.items.tolist()]
    if objective == "cosine-mse":
        expected = float(np.mean([(c - s / 5) ** 2 for c, s in zip(cosines, gold, strict=True)]))
    else:
        pairs = [(i, j) for i in range(6) for j in range(6) if gold[i] > gold[j]]
        expected = float(np.log(1 + sum(np.exp(20 * (cosines[j] - cosines[i])) for i, j in pairs)))
    (stage,) = method.stages(kit.config)
    losses = method.losses(method.prepared({"pairs": texts}, stage), stage)
    assert losses.keys() == {objective} == stage.losses.keys()
    assert losses[objective].item() == pytest.approx(expected, rel=1e-5)


def test_scores_outside_of_the_range_are_refused(kit_for: KitFor, scored: str) -> None:
    kit = kit_for("scored_pairs", scored_pairs=scored, highest_score=4.0)
    method = kit.build()
    with pytest.raises(TrialFailure, match="scores from 0 to 5; set lowest_score and highest_scor"):
        method.prepared({"pairs": first_texts(kit, method, scored)}, method.stages(kit.config)[0])


@pytest.mark.parametrize("method", ["scored_pairs", "angle"])
def test_pairs_without_scores_are_refused(method: str, pairs: Path) -> None:
    plugin = registry.load(method)
    declared = plugin.declare(resolve(plugin, {"scored_pairs": str(pairs)}))
    with pytest.raises(UserError, match=r"scored_pairs asks for scored pairs, .* has labelled pai"):
        declared.check()


@pytest.mark.usefixtures("hub")
def test_the_training_pairs_of_sts_b_have_their_published_number() -> None:
    found = source("stsb-train")
    corpus = found.corpus(found.paths())
    assert len(corpus) == found.items == 5_749
    assert corpus.labels is not None
    assert (corpus.labels.min(), corpus.labels.max()) == (0, 5)
