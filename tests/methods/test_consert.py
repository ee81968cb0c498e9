"""ConSERT against consert.md and semisupervised.md."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from harness.data.batching import TextBatch
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.training.loop import Trainer
from tests.families import FAMILIES
from tests.methods import references
from tests.methods.references import (
    KitFor,
    array,
    first_batches,
    first_losses,
    labelled,
    nli_loss,
    watched,
)

build = partial(references.build, enlarged="classifier", std=1.0)


@pytest.fixture
def small(kit_for: KitFor, pairs: Path) -> KitFor:
    def make(**values: Any) -> Kit:
        return kit_for("consert", **{"pairs": str(pairs), "auxiliary_batch_size": 5, **values})

    return make


def pooled(states: Tensor, mask: Tensor) -> np.ndarray:
    """The mean over real tokens, row by row."""
    return np.array(
        [
            array(row)[:length].mean(axis=0)
            for row, length in zip(states, mask.sum(dim=1), strict=True)
        ]
    )


def contrastive(first: np.ndarray, second: np.ndarray, temperature: float = 0.1) -> float:
    """loss_a + loss_b: mean cross entropies over the N of the other view and N - 1 of the same."""
    total = 0.0
    for own, other in ((first, second), (second, first)):
        for row, anchor in enumerate(own):
            candidates = [*other, *(vector for index, vector in enumerate(own) if index != row)]
            assert len(candidates) == 2 * len(own) - 1
            scores = [
                float(anchor @ one) / np.linalg.norm(anchor) / np.linalg.norm(one) / temperature
                for one in candidates
            ]
            total += (math.log(sum(math.exp(score) for score in scores)) - scores[row]) / len(own)
    return total


@FAMILIES
@pytest.mark.parametrize(
    "views", [("feature-cutoff", "shuffle"), ("none", "token-cutoff"), ("dropout", "dropout")]
)
def test_both_directions_are_summed(small: KitFor, views: tuple[str, str]) -> None:
    kit = small(first_view=views[0], second_view=views[1])
    method = build(kit)
    (encoder,) = watched(method, "encoder")
    losses = first_losses(kit, method)
    mask = encoder.given[0][0][0].attention_mask
    assert (mask == 0).any(), "padding must be there to be left out"
    first, second = (pooled(states, mask) for states in encoder.results)
    assert not np.allclose(first, second, atol=1e-3)
    assert set(losses) == {"contrastive"}
    assert losses["contrastive"].item() == pytest.approx(contrastive(first, second), rel=1e-4)


def joint_loss(method: Any, texts: TextBatch, second_view: str) -> Tensor:
    """The released joint loss written out; random numbers are drawn in the method's order."""
    mask = texts.attention_mask
    real = mask.sum(dim=1)
    outputs: list[Tensor] = []

    def mean(change: Callable[[Tensor], Tensor]) -> Tensor:
        def edit(output: Tensor) -> Tensor:
            outputs.append(change(output))
            return outputs[-1]

        states = method.encoder(texts, edit=edit)
        return torch.stack(
            [row[:length].mean(dim=0) for row, length in zip(states, real, strict=True)]
        )

    clean = mean(lambda output: output)
    one, other = clean[0::2], clean[1::2]
    features = torch.cat([one, other, (one - other).abs(), torch.maximum(one, other) ** 2], dim=1)
    labelled = nn.functional.cross_entropy(method.classifier.linear(features), texts.labels)
    if second_view == "adversarial":
        (gradient,) = torch.autograd.grad(labelled, outputs[0], retain_graph=True)
        noise = method.config.noise_norm * gradient / (gradient.norm(dim=2, keepdim=True) + 1e-10)
        changed = mean(lambda _: outputs[0] + noise)
    else:
        keys = torch.rand(mask.shape).masked_fill(mask == 0, 2.0)
        cut = torch.zeros(mask.shape, dtype=torch.bool)
        for row, length in enumerate(real.tolist()):
            cut[row, keys[row].argsort()[: 3 * length // 10]] = True
        changed = mean(lambda output: output * ~cut[..., None])
    loss = labelled
    for side in (0, 1):
        views = [nn.functional.normalize(view[side::2], dim=1) for view in (clean, changed)]
        for own, facing in (views, views[::-1]):
            for row, anchor in enumerate(own):
                others = torch.cat([own[:row], own[row + 1 :]])
                logits = torch.cat([facing @ anchor, others @ anchor]) / 0.1
                loss = loss + 0.15 * (logits.logsumexp(0) - logits[row]) / len(own)
    return loss


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize("second_view", ["token-cutoff", "adversarial"])
def test_joint_training_is_the_released_one_step_by_step(small: KitFor, second_view: str) -> None:
    """Loss and gradients in float64, with dropout: two passes, of which two losses share one."""
    views = {"second_view": second_view, "second_rate": 0.3, "noise_norm": 0.5}
    kit = small(setting="sup", encoder_dropout=0.1, **views)
    method = build(kit).double()
    (stage,) = method.stages(kit.config)
    texts = first_batches(kit, method)["labelled"]
    for step in range(3):
        torch.manual_seed(step)
        found = method.losses({"labelled": texts}, stage)
        loss = found["classification"] + 0.15 * found["contrastive"]
        names, parameters = zip(*method.named_parameters(), strict=True)
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        torch.manual_seed(step)
        expected = joint_loss(method, texts, second_view)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
        again = torch.autograd.grad(expected, parameters, allow_unused=True)
        for name, parameter, one, other in zip(names, parameters, gradients, again, strict=True):
            assert (one is None) == (other is None), name
            if one is not None and other is not None:
                # The losses round to float32.
                assert (one - other).abs().max() <= 1e-4 * other.abs().max() + 1e-7, name
                parameter.data.sub_(0.05 * one)


@pytest.mark.parametrize(
    ("first", "second", "weight", "passes"),
    [
        ("none", "shuffle", 0.15, 2),
        ("shuffle", "none", 0.15, 2),
        ("none", "none", 0.15, 2),
        ("shuffle", "token-cutoff", 0.15, 3),
        ("adversarial", "none", 0.15, 2),
        ("none", "shuffle", 0, 1),  # the repository's `sup` run: labels alone
    ],
)
def test_a_clean_view_shares_the_pass_of_the_labels(
    small: KitFor, first: str, second: str, weight: float, passes: int
) -> None:
    views = {"first_view": first, "second_view": second, "contrastive_weight": weight}
    kit = small(setting="sup", encoder_dropout=0.1, **views)
    method = build(kit)
    (encoder,) = watched(method, "encoder")
    losses = {"classification", "contrastive"} if weight else {"classification"}
    assert set(first_losses(kit, method)) == losses
    assert len(encoder.results) == passes


def test_dev_is_scored_at_the_end_of_each_epoch(small: KitFor) -> None:
    """And the steps to the next evaluation are counted anew there."""
    kit = small(epochs=2.5, evaluation_interval=2, patience=None)
    method = build(kit)
    epoch = kit.declared.stages[0].steps_in_epoch(len(kit.tokens(kit.config.sentences)))
    assert epoch % 2, "or both counts would be the same"
    outcome = Trainer(method, kit, 0, lambda: 1.0, lambda _: None).run()
    within = [*range(2, epoch, 2), epoch]
    expected = [*within, *(epoch + step for step in within)]
    expected += [2 * epoch + step for step in within if 2 * epoch + step < outcome.steps]
    found = [each["step"] for each in outcome.history if each["metric"] == "dev"]
    assert found == [*expected, outcome.steps]


@FAMILIES
def test_diffaug_joint_is_sentences_and_binary_triplets(
    small: KitFor, sentences: Path, triplets: Path
) -> None:
    kit = small(setting="semisup", auxiliary_weight=0.01)
    method = build(kit)
    assert method.corpora(kit.config) == {"contrastive": str(sentences), "labelled": str(triplets)}
    (encoder,) = watched(method, "encoder")
    batches = first_batches(kit, method)
    (stage,) = method.stages(kit.config)
    losses = method.losses(batches, stage)
    classified, first, second = encoder.results
    vectors = pooled(classified, batches["labelled"].attention_mask)
    expected = nli_loss(method.classifier, labelled(vectors))
    assert losses["classification"].item() == pytest.approx(expected, rel=1e-4)
    mask = batches["contrastive"].attention_mask
    expected = contrastive(pooled(first, mask), pooled(second, mask))
    assert losses["contrastive"].item() == pytest.approx(expected, rel=1e-4)
    assert dict(stage.losses) == {"contrastive": 0.15, "classification": 0.01}
    assert list(stage.streams.items()) == [("contrastive", 8), ("labelled", 5)]
    assert method.classifier.linear.weight.shape == (2, 4 * 32)


@FAMILIES
def test_each_view_has_its_augmentation_and_its_rate(small: KitFor) -> None:
    kit = small(
        first_view="token-cutoff", first_rate=0.5, second_view="feature-cutoff", second_rate=0.25
    )
    method = build(kit)
    (encoder,) = watched(method, "encoder")
    first_losses(kit, method)
    mask = encoder.given[0][0][0].attention_mask
    ones = torch.ones(*mask.shape, 32)
    tokens, features = (encoder.keyword(call, "edit")(ones) for call in (0, 1))
    assert torch.equal((tokens == 0).all(dim=2).sum(dim=1), mask.sum(dim=1) // 2)
    assert ((features == 0).all(dim=1).sum(dim=1) == 8).all()


@FAMILIES
def test_shuffling_reaches_the_positions(small: KitFor) -> None:
    kit = small()
    method = build(kit)
    (encoder,) = watched(method, "encoder")
    first_losses(kit, method)
    assert encoder.keyword(0, "positions") is None
    positions, mask = encoder.keyword(1, "positions"), encoder.given[1][0][0].attention_mask
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        assert sorted(positions[row, :length].tolist()) == list(range(length))
    assert not torch.equal(positions.sort(dim=1).values, positions)


def test_pairs_without_labels_are_refused(small: KitFor, triplets: Path) -> None:
    kit = small(setting="sup", pairs=str(triplets))
    with pytest.raises(UserError, match="premise, hypothesis and label"):
        first_losses(kit, build(kit))


@FAMILIES
def test_without_dropout_clean_views_are_one(small: KitFor) -> None:
    """There is no dropout in attention, either."""
    same = []
    for rate in (0.0, 0.1):
        views = {"first_view": "none", "second_view": "dropout", "second_rate": 0.0}
        kit = small(**views, encoder_dropout=rate)
        method = build(kit)
        (encoder,) = watched(method, "encoder")
        first_losses(kit, method)
        same.append(torch.equal(*encoder.results))
    assert same == [True, False]


@FAMILIES
@pytest.mark.parametrize("setting", ["unsup", "semisup", "sup"])
def test_last_layer_on_dev_and_last_two_at_the_final_test(small: KitFor, setting: str) -> None:
    kit = small(setting=setting)
    method = build(kit).eval()
    texts = next(iter(first_batches(kit, method).values()))
    output = method.encoder.model(
        input_ids=texts.input_ids, attention_mask=texts.attention_mask, output_hidden_states=True
    )
    last, before = (pooled(output.hidden_states[layer], texts.attention_mask) for layer in (-1, -2))
    assert np.abs(array(method.embed_dev(texts)) - last).max() < 1e-5
    assert np.abs(array(method.embed(texts)) - (last + before) / 2).max() < 1e-5


def test_test_pooling_is_a_field(small: KitFor) -> None:
    kit = small(test_pooling="mean")
    method = build(kit).eval()
    texts = first_batches(kit, method)["contrastive"]
    assert torch.equal(method.embed(texts), method.embed_dev(texts))


def test_optimiser_in_every_phase(small: KitFor) -> None:
    for values in ({}, {"setting": "sup"}, {"setting": "semisup", "schedule": "sup-joint"}):
        kit = small(**values)
        assert {stage.optimisation.optimiser for stage in kit.declared.stages} == {
            "adamw-uncorrected"
        }


@pytest.mark.parametrize("setting", ["unsup", "semisup", "sup"])
def test_unsupervised_and_second_stages_stop_early(setting: str) -> None:
    """The phase on labels alone does not."""
    plugin = registry.load("consert")
    config = resolve(plugin, {"setting": setting})
    last = None if setting == "sup" else 10
    assert [stage.selection.patience for stage in plugin.method.stages(config)] == [last]
    two = plugin.method.stages(config.model_copy(update={"schedule": "sup-joint"}))
    expected = [None, last] if setting == "semisup" else [last]
    assert [stage.selection.patience for stage in two] == expected
