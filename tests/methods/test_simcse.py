"""SimCSE against baselines.md, section 2."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness import registry
from harness.data.batching import Stream, TextBatch
from harness.errors import UserError
from harness.kit import Kit
from harness.training.parameters import trained_names
from harness.trial import resolve

KitFor = Callable[..., Kit]


@pytest.fixture(scope="module")
def without_dropout(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without-dropout") / "model"
    shutil.copytree(tiny_encoder, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def build(kit: Kit) -> Any:
    torch.manual_seed(0)
    method = kit.plugin.method(kit.config, kit)
    torch.nn.init.normal_(method.head.linear.bias)  # zero at the start: a forgotten bias would not show
    torch.nn.init.normal_(method.head.linear.weight, std=0.3)  # off tanh's linear part
    return method.train()


def one_batch(kit: Kit, method: Any) -> TextBatch:
    corpus = kit.plugin.method.data(kit.config)["contrastive"]
    endless = Stream(kit.tokens(corpus), method.template, 30, 6, seed=0)
    return next(batch for batch in endless if len(batch.items) == 6)


def contrastive(kit: Kit, method: Any, batch: TextBatch) -> float:
    found = method.losses({"contrastive": batch}, method.stages(kit.config)[0])
    assert set(found) == {"contrastive"}
    return found["contrastive"].item()


def head_outputs(method: Any, ids: torch.Tensor, mask: torch.Tensor) -> np.ndarray:
    """tanh(W h + b) of the last [CLS] state by plain transformers calls, row by row, in float64."""
    weight, bias = (part.detach().double().numpy() for part in (method.head.linear.weight, method.head.linear.bias))
    rows = []
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        state = method.encoder.model(input_ids=ids[row : row + 1, :length]).last_hidden_state[0, 0]
        rows.append(np.tanh(weight @ state.detach().double().numpy() + bias))
    return np.array(rows)


def closed_form(anchors: np.ndarray, candidates: np.ndarray, temperature: float) -> float:
    total = 0.0
    for row, anchor in enumerate(anchors):
        scores = [
            float(anchor @ other) / np.linalg.norm(anchor) / np.linalg.norm(other) / temperature for other in candidates
        ]
        total += math.log(sum(math.exp(score) for score in scores)) - scores[row]
    return float(total / len(anchors))


def test_without_dropout_the_views_are_one(kit_for: KitFor, without_dropout: Path) -> None:
    kit = kit_for("simcse", encoder=str(without_dropout), temperature=0.1)
    method = build(kit)
    batch = one_batch(kit, method)
    vectors = head_outputs(method, batch.input_ids, batch.attention_mask)
    assert contrastive(kit, method, batch) == pytest.approx(closed_form(vectors, vectors, 0.1), rel=1e-4)


def test_dropout_makes_the_second_view(kit_for: KitFor, watch: Callable[[torch.nn.Module], Any]) -> None:
    kit = kit_for("simcse")
    method = build(kit)
    batch = one_batch(kit, method)
    encoder, head = watch(method.encoder), watch(method.head)
    contrastive(kit, method, batch)
    ids, vectors = encoder.given[0][0][0].input_ids, head.results[0]
    assert torch.equal(ids[0::2], batch.input_ids)
    assert torch.equal(ids[1::2], batch.input_ids)
    assert ((vectors[0::2] - vectors[1::2]).abs().amax(dim=1) > 1e-3).all()


def test_supervised_candidates_are_entailments_and_contradictions(kit_for: KitFor, without_dropout: Path) -> None:
    kit = kit_for("simcse", setting="sup", encoder=str(without_dropout), temperature=0.1)
    method = build(kit)
    batch = one_batch(kit, method)
    assert batch.views == 3
    premises, entailments, contradictions = (
        head_outputs(method, batch.input_ids[view::3], batch.attention_mask[view::3]) for view in range(3)
    )
    expected = closed_form(premises, np.concatenate([entailments, contradictions]), 0.1)
    assert contrastive(kit, method, batch) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("setting", ["unsup", "sup"])
def test_head_at_test_time_only_when_supervised(kit_for: KitFor, setting: str) -> None:
    kit = kit_for("simcse", setting=setting)
    method = build(kit).eval()
    batch = one_batch(kit, method)
    states = method.encoder.model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).last_hidden_state
    expected = states[:, 0].detach().numpy()
    if setting == "sup":
        expected = head_outputs(method, batch.input_ids, batch.attention_mask)
    assert np.abs(method.embed(batch).detach().numpy() - expected).max() < 1e-5


def test_everything_trains_and_the_pretrained_pooler_is_not_there(kit_for: KitFor) -> None:
    kit = kit_for("simcse")
    method = build(kit)
    names = {name for name, _ in method.named_parameters()}
    assert set(trained_names(method, method.stages(kit.config)[0])) == names
    assert {"head.linear.weight", "head.linear.bias"} < names
    assert not any("pooler" in name for name in names)
    contrastive_loss = method.losses({"contrastive": one_batch(kit, method)}, method.stages(kit.config)[0])
    contrastive_loss["contrastive"].backward()
    unused = {name for name, parameter in method.named_parameters() if parameter.grad is None}
    assert unused == set()


@pytest.mark.parametrize(
    ("setting", "encoder", "batch", "rate", "epochs"),
    [
        ("unsup", "bert-base-uncased", 64, 3e-5, 1),
        ("unsup", "bert-large-uncased", 64, 1e-5, 1),
        ("unsup", "roberta-base", 512, 1e-5, 1),
        ("unsup", "roberta-large", 512, 3e-5, 1),
        ("sup", "bert-base-uncased", 512, 5e-5, 3),
        ("sup", "bert-large-uncased", 512, 1e-5, 3),
        ("sup", "roberta-base", 512, 5e-5, 3),
        ("sup", "roberta-large", 512, 1e-5, 3),
    ],
)
def test_published_values(setting: str, encoder: str, batch: int, rate: float, epochs: int) -> None:
    config = resolve(registry.load("simcse"), {"setting": setting, "encoder": encoder})
    assert (config.batch_size, config.learning_rate, config.epochs) == (batch, rate, epochs)
    assert (config.temperature, config.max_length, config.evaluation_interval) == (0.05, 32, 125)
    assert (config.weight_decay, config.warmup_ratio, config.gradient_clipping) == (0, 0, 1.0)
    assert config.sentences == "wiki1m"
    assert config.triplets == "nli-triplets"


def test_a_given_value_beats_the_published_one() -> None:
    plugin = registry.load("simcse")
    config = resolve(plugin, {"setting": "sup", "encoder": "roberta-large", "learning_rate": "2e-5"})
    assert (config.learning_rate, config.batch_size) == (2e-5, 512)
    assert resolve(plugin, {"setting": "sup", "epochs": 1}).epochs == 1


def test_unknown_hyperparameter_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r'no hyperparameter "temprature"; did you mean "temperature"\?'):
        resolve(registry.load("simcse"), {"temprature": 0.1})


@pytest.mark.parametrize("given", [{"setting": "semisup"}, {"batch_size": 1}, {"learning_rate": float("nan")}])
def test_a_value_out_of_range_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(given))):
        resolve(registry.load("simcse"), given)
