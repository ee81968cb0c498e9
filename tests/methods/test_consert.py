"""ConSERT against consert.md and semisupervised.md."""

import math
from collections.abc import Callable
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
from tests.methods.references import KitFor, first_batches, first_losses

Watch = Callable[[nn.Module], Any]


@pytest.fixture
def small(kit_for: KitFor, pairs: Path) -> KitFor:
    def make(**values: Any) -> Kit:
        return kit_for("consert", **{"pairs": str(pairs), "auxiliary_batch_size": 5, **values})

    return make


def build(kit: Kit) -> Any:
    torch.manual_seed(0)
    method = kit.build()
    if kit.config.setting != "unsup":
        nn.init.normal_(method.classifier.linear.weight)  # so that its output is far from uniform
        nn.init.normal_(method.classifier.linear.bias)
    return method.train()


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().double().numpy()


def pooled(states: Tensor, mask: Tensor) -> np.ndarray:
    """The mean over real tokens, row by row."""
    return np.array(
        [
            array(row)[:length].mean(axis=0)
            for row, length in zip(states, mask.sum(dim=1), strict=True)
        ]
    )


def contrastive(first: np.ndarray, second: np.ndarray, temperature: float = 0.1) -> float:
    """loss_a + loss_b, each the mean over rows of the cross entropy over 2N - 1 logits.

    The logits are the N of the other view, then the N - 1 others of the same view.
    """
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


def classification(method: Any, pairs: list[tuple[np.ndarray, np.ndarray, int]]) -> float:
    """Mean cross entropy on [u, v, |u - v|, max(u, v)^2]."""
    weight, bias = array(method.classifier.linear.weight), array(method.classifier.linear.bias)
    total = 0.0
    for one, other, label in pairs:
        logits = (
            weight @ np.concatenate([one, other, np.abs(one - other), np.maximum(one, other) ** 2])
            + bias
        )
        total += math.log(np.exp(logits).sum()) - float(logits[label])
    return total / len(pairs)


# Losses


@pytest.mark.parametrize("family", ["tiny_encoder", "tiny_roberta"])
@pytest.mark.parametrize(
    "views", [("feature-cutoff", "shuffle"), ("none", "token-cutoff"), ("dropout", "dropout")]
)
def test_both_directions_are_summed(
    small: KitFor, watch: Watch, family: str, views: tuple[str, str], request: pytest.FixtureRequest
) -> None:
    kit = small(
        encoder=str(request.getfixturevalue(family)), first_view=views[0], second_view=views[1]
    )
    method = build(kit)
    encoder = watch(method.encoder)
    found = first_losses(kit, method)
    mask = encoder.given[0][0][0].attention_mask
    assert (mask == 0).any(), "padding must be there to be left out"
    first, second = (pooled(states, mask) for states in encoder.results)
    assert not np.allclose(first, second, atol=1e-3)
    assert set(found) == {"contrastive"}
    assert found["contrastive"].item() == pytest.approx(contrastive(first, second), rel=1e-4)


@FAMILIES
def test_supervised_losses_of_its_own_joint_training(small: KitFor, watch: Watch) -> None:
    """CE of three labels in the clean pass, + 0.15 * (L_con of premises and of hypotheses)."""
    kit = small(setting="sup", encoder_dropout=0)
    method = build(kit)
    encoder = watch(method.encoder)
    texts = first_batches(kit, method)["labelled"]
    (stage,) = method.stages(kit.config)
    found = method.losses({"labelled": texts}, stage)
    # View 1 is the pass of the classification.
    clean, second = (pooled(states, texts.attention_mask) for states in encoder.results)
    expected = contrastive(clean[0::2], second[0::2]) + contrastive(clean[1::2], second[1::2])
    assert found["contrastive"].item() == pytest.approx(expected, rel=1e-4)
    assert texts.labels is not None
    labelled = list(zip(clean[0::2], clean[1::2], texts.labels.tolist(), strict=True))
    assert found["classification"].item() == pytest.approx(
        classification(method, labelled), rel=1e-4
    )
    assert dict(stage.losses) == {"contrastive": 0.15, "classification": 1.0}
    assert method.classifier.linear.weight.shape == (3, 4 * 32)


def joint_loss(method: Any, texts: TextBatch, second_view: str) -> Tensor:
    """The released joint loss written out: one clean pass, one changed, a loop for the rest.

    Random numbers are drawn in the order of the method, so that the dropout is the same.
    """
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
        noise = gradient / (gradient.norm(dim=2, keepdim=True) + 1e-10)
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
    kit = small(setting="sup", second_view=second_view, second_rate=0.3, encoder_dropout=0.1)
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
    ("first", "second", "passes"),
    [
        ("none", "shuffle", 2),
        ("shuffle", "none", 2),
        ("none", "none", 2),
        ("shuffle", "token-cutoff", 3),
        ("adversarial", "none", 2),
    ],
)
def test_a_clean_view_shares_the_pass_of_the_labels(
    small: KitFor, watch: Watch, first: str, second: str, passes: int
) -> None:
    kit = small(setting="sup", first_view=first, second_view=second, encoder_dropout=0.1)
    method = build(kit)
    encoder = watch(method.encoder)
    first_losses(kit, method)
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
def test_labels_alone(small: KitFor, watch: Watch) -> None:
    """This is the repository's `sup` run. It has no contrastive pass."""
    kit = small(setting="sup", contrastive_weight=0)
    method = build(kit)
    encoder = watch(method.encoder)
    assert set(first_losses(kit, method)) == {"classification"}
    assert len(encoder.results) == 1


@FAMILIES
def test_diffaug_joint_is_sentences_and_binary_triplets(
    small: KitFor, watch: Watch, sentences: Path, triplets: Path
) -> None:
    kit = small(setting="semisup", auxiliary_weight=0.01)
    method = build(kit)
    assert method.corpora(kit.config) == {"contrastive": str(sentences), "labelled": str(triplets)}
    encoder = watch(method.encoder)
    given = first_batches(kit, method)
    (stage,) = method.stages(kit.config)
    found = method.losses(given, stage)
    labelled, first, second = encoder.results
    vectors = pooled(labelled, given["labelled"].attention_mask)
    pairs = [(one, other, 1) for one, other in zip(vectors[0::3], vectors[1::3], strict=True)]
    pairs += [(one, other, 0) for one, other in zip(vectors[0::3], vectors[2::3], strict=True)]
    assert found["classification"].item() == pytest.approx(classification(method, pairs), rel=1e-4)
    mask = given["contrastive"].attention_mask
    expected = contrastive(pooled(first, mask), pooled(second, mask))
    assert found["contrastive"].item() == pytest.approx(expected, rel=1e-4)
    assert dict(stage.losses) == {"contrastive": 0.15, "classification": 0.01}
    assert list(stage.streams.items()) == [("contrastive", 8), ("labelled", 5)]
    assert method.classifier.linear.weight.shape == (2, 4 * 32)


# Views


@FAMILIES
def test_each_view_has_its_augmentation_and_its_rate(small: KitFor, watch: Watch) -> None:
    kit = small(
        first_view="token-cutoff", first_rate=0.5, second_view="feature-cutoff", second_rate=0.25
    )
    method = build(kit)
    encoder = watch(method.encoder)
    first_losses(kit, method)
    mask = encoder.given[0][0][0].attention_mask
    ones = torch.ones(*mask.shape, 32)
    tokens, features = (encoder.keyword(call, "edit")(ones) for call in (0, 1))
    assert torch.equal((tokens == 0).all(dim=2).sum(dim=1), mask.sum(dim=1) // 2)
    assert ((features == 0).all(dim=1).sum(dim=1) == 8).all()


@FAMILIES
def test_shuffling_reaches_the_positions(small: KitFor, watch: Watch) -> None:
    kit = small()
    method = build(kit)
    encoder = watch(method.encoder)
    first_losses(kit, method)
    assert encoder.keyword(0, "positions") is None
    positions, mask = encoder.keyword(1, "positions"), encoder.given[1][0][0].attention_mask
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        assert sorted(positions[row, :length].tolist()) == list(range(length))
    assert not torch.equal(positions.sort(dim=1).values, positions)


@FAMILIES
@pytest.mark.parametrize("norm", [1.0, 0.2])
def test_adversarial_noise_is_the_classification_gradient(
    small: KitFor, watch: Watch, norm: float
) -> None:
    kit = small(setting="sup", encoder_dropout=0, second_view="adversarial", noise_norm=norm)
    method = build(kit)
    encoder = watch(method.encoder)
    texts = first_batches(kit, method)["labelled"]
    method.losses({"labelled": texts}, method.stages(kit.config)[0])
    # Each family numbers the positions of its tokens in its own way.
    output = method.encoder.model.embeddings(input_ids=texts.input_ids).detach()
    output.requires_grad_()
    states = method.encoder(texts, edit=lambda _: output)
    mask = texts.attention_mask[..., None]
    vectors = (states * mask).sum(dim=1) / mask.sum(dim=1)
    loss = nn.functional.cross_entropy(
        method.classifier(vectors[0::2], vectors[1::2]), texts.labels
    )
    (gradient,) = torch.autograd.grad(loss, output)
    noised = encoder.keyword(1, "edit")(torch.zeros_like(output))
    noise = ((noised - output) * mask).detach()  # what an edit gives at padding is not read
    assert torch.allclose(noise, norm * nn.functional.normalize(gradient, dim=2), atol=1e-4)
    lengths = noise.norm(dim=2)
    assert torch.allclose(lengths[texts.attention_mask.bool()], torch.tensor(norm), rtol=1e-3)
    assert not torch.allclose(encoder.results[1], encoder.results[0], atol=1e-3)


def test_pairs_without_labels_are_refused(small: KitFor, triplets: Path) -> None:
    kit = small(setting="sup", pairs=str(triplets))
    with pytest.raises(UserError, match="premise, hypothesis and label"):
        first_losses(kit, build(kit))


# Dropout


@pytest.mark.parametrize(("setting", "rate"), [("unsup", 0.0), ("semisup", 0.0), ("sup", 0.1)])
def test_unsupervised_base_has_no_dropout(small: KitFor, setting: str, rate: float) -> None:
    method = build(small(setting=setting))
    assert {module.p for module in method.encoder.modules() if isinstance(module, nn.Dropout)} == {
        rate
    }


@FAMILIES
def test_without_dropout_clean_views_are_one(small: KitFor, watch: Watch) -> None:
    """There is no dropout in attention, either."""
    same = []
    for rate in (0.0, 0.1):
        views = {"first_view": "none", "second_view": "dropout", "second_rate": 0.0}
        kit = small(**views, encoder_dropout=rate)
        method = build(kit)
        encoder = watch(method.encoder)
        first_losses(kit, method)
        same.append(torch.equal(*encoder.results))
    assert same == [True, False]


# Test time


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


# What trains


def test_optimiser_in_every_phase(small: KitFor) -> None:
    for values in ({}, {"setting": "sup"}, {"setting": "semisup", "schedule": "sup-joint"}):
        kit = small(**values)
        assert {stage.optimisation.optimiser for stage in kit.declared.stages} == {
            "adamw-uncorrected"
        }


@pytest.mark.parametrize("schedule", ["joint", "sup-unsup", "sup-joint"])
def test_schedules_run(small: KitFor, schedule: str) -> None:
    kit = small(setting="semisup", schedule=schedule, max_steps=2, classification_max_steps=2,
                classification_batch_size=4)  # fmt: skip
    outcome = Trainer(build(kit), kit, 0, lambda: 1.0, lambda _: None).run()
    assert outcome.steps == (2 if schedule == "joint" else 4)


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
