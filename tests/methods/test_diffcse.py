"""DiffCSE and its ablations against diffcse.md."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel

from harness.data.batching import TextBatch
from harness.encoders.masked_lm import VocabularyHead
from harness.errors import UserError
from harness.modules.heads import BatchNormHead, TanhHead
from harness.plugin.kit import Kit
from harness.plugin.sentence_editor import StaticCorruption
from harness.training.loop import Trainer
from harness.training.parameters import trained_names
from harness.views.edits import Edited
from methods.diffcse.ablations import CorrectiveHead, corrective_loss
from tests.families import FAMILIES
from tests.method_cases import grouped
from tests.methods.references import KitFor, build, first_batch, first_losses, info_nce

Watch = Callable[[nn.Module], Any]  # tests.conftest.Calls
Array = np.ndarray


@pytest.fixture
def unsup(kit_for: KitFor) -> Kit:
    return kit_for("diffcse")


@pytest.fixture(scope="module")
def running_text(tmp_path_factory: pytest.TempPathFactory, sentences: Path) -> Path:
    """The small corpus as if it were two documents."""
    lines = sentences.read_text().splitlines()
    path = tmp_path_factory.mktemp("running") / "text.txt"
    path.write_text("\n".join([*lines[:25], "", *lines[25:]]) + "\n")
    return path


# References in float64


def array(value: torch.Tensor) -> Array:
    return value.detach().double().numpy()


def cross_entropies(logits: Array, labels: Array) -> Array:
    """Logits (..., classes) and labels (...) -> cross entropies (...)."""
    own = np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return np.asarray(np.log(np.exp(logits).sum(axis=-1)) - own)


def replaced(original: Array, real: Array, best: Array) -> Array:
    """The labels of diffcse.md, section 1.2, step 5."""
    labels = np.zeros(original.shape, int)
    for row, position in np.ndindex(original.shape):
        labels[row, position] = (
            position > 0 and real[row, position] and best[row, position] != original[row, position]
        )
    return labels


# The objective


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize(("setting", "views"), [("unsup", 2), ("sup", 3)])
@pytest.mark.parametrize("reduction", ["mean_all", "mean_nonpad", "sum"])
def test_losses_against_formulas(
    kit_for: KitFor, setting: str, views: int, reduction: str, watch: Watch
) -> None:
    kit = kit_for("diffcse", setting=setting, rtd_reduction=reduction)
    method = build(kit)
    head, generator, detector = (
        watch(method.head),
        watch(method.editor.generator),
        watch(method.detector),
    )
    batch = first_batch(kit, method)
    found = method.losses({"contrastive": batch}, method.stages(kit.config)[0])

    assert len(head.results) == 1, "BatchNorm's statistics are of all rows together"
    vectors = array(head.results[0])
    assert len(vectors) == 6 * views
    parts = [vectors[view::views] for view in range(views)]
    assert found["contrastive"].item() == pytest.approx(
        info_nce(parts[0], np.concatenate(parts[1:]), 0.05), rel=1e-4
    )

    copies = 2 if setting == "unsup" else 1
    original, real = (
        part.numpy().repeat(copies, axis=0) for part in (batch.input_ids, batch.attention_mask)
    )
    labels = replaced(original, real, generator.results[0].numpy())
    assert labels.any()
    each = cross_entropies(array(detector.results[0]), labels)
    expected = {
        "mean_all": each.mean(),
        "mean_nonpad": each[real == 1].mean(),
        "sum": each[real == 1].sum(),
    }
    assert found["replaced_tokens"].item() == pytest.approx(expected[reduction], rel=1e-5)


@FAMILIES
@pytest.mark.parametrize("reduction", ["mean_all", "mean_nonpad"])
def test_grouped_batches_are_padded_as_the_shuffled_ones_were(
    kit_for: KitFor, reduction: str, watch: Watch
) -> None:
    """mean_all averages over the padding of the released code's batches; the others pad nothing."""
    kit = kit_for("diffcse", rtd_reduction=reduction)
    method = build(kit)
    editor, detector = watch(method.editor), watch(method.detector)
    batch = grouped(kit, method)
    found = method.losses({"contrastive": batch}, method.stages(kit.config)[0])
    rows, width = batch.repeated(2).input_ids.shape
    labels = np.zeros((rows, batch.shuffled_length if reduction == "mean_all" else width), int)
    labels[:, :width] = editor.results[0].labels.numpy()
    logits = array(detector.results[0])
    assert logits.shape[:2] == labels.shape
    each = cross_entropies(logits, labels)
    if reduction != "mean_all":
        each = each[batch.repeated(2).attention_mask.numpy() == 1]
    assert found["replaced_tokens"].item() == pytest.approx(each.mean(), rel=1e-5)


@FAMILIES
def test_h_overwrites_the_embedding_output_of_slot_0(unsup: Kit, watch: Watch) -> None:
    """It stands there as it leaves the head, after LayerNorm and dropout of the embedding.

    The other slots are those of the edited text.
    """
    method = build(unsup)
    method.discriminator.eval()
    head, reader = watch(method.head), watch(method.discriminator)
    layer = watch(method.discriminator.model.encoder.layer[0])
    first_losses(unsup, method)
    entered = layer.given[0][0][0]
    assert torch.equal(entered[:, 0], head.results[0])
    (edited,) = reader.given[0][0]
    plain = method.discriminator.model.embeddings(input_ids=edited.input_ids)
    real = edited.attention_mask.bool()[:, 1:]
    assert torch.allclose(entered[:, 1:][real], plain[:, 1:][real], atol=1e-6)
    assert (edited.input_ids[:, 0] == unsup.tokenizer.cls_token_id).all()


@FAMILIES
def test_discriminator_reads_what_the_generator_wrote_everywhere(unsup: Kit, watch: Watch) -> None:
    method = build(unsup)
    generator, reader = watch(method.editor.generator), watch(method.discriminator)
    batch = first_batch(unsup, method).repeated(2)
    first_losses(unsup, method)
    (edited,) = reader.given[0][0]
    real = batch.attention_mask.bool()
    assert torch.equal(
        edited.input_ids[:, 1:][real[:, 1:]], generator.results[0][:, 1:][real[:, 1:]]
    )
    assert torch.equal(edited.attention_mask, batch.attention_mask)
    assert not edited.input_ids[~real].any()


@FAMILIES
def test_only_masked_positions_change_where_that_is_asked(kit_for: KitFor, watch: Watch) -> None:
    kit = kit_for("diffcse", replace_only_masked=True)
    method = build(kit)
    masker, reader = watch(method.editor.masker), watch(method.discriminator)
    batch = first_batch(kit, method).repeated(2)
    first_losses(kit, method)
    chosen = masker.results[0].chosen
    changed = reader.given[0][0][0].input_ids != batch.input_ids
    assert (changed & batch.attention_mask.bool() <= chosen).all()
    assert changed.any()


@FAMILIES
def test_every_view_has_its_own_edit_and_its_own_vector(kit_for: KitFor, watch: Watch) -> None:
    kit = kit_for("diffcse", masking_ratio=0.5)
    method = build(kit)
    reader, head = watch(method.discriminator), watch(method.head)
    first_losses(kit, method)
    ids = reader.given[0][0][0].input_ids
    assert not torch.equal(ids[0::2], ids[1::2])
    assert not torch.allclose(head.results[0][0::2], head.results[0][1::2], atol=1e-3)


@FAMILIES
def test_detection_trains_the_encoder_through_h(unsup: Kit) -> None:
    """The vector is not detached. Otherwise the method would train like SimCSE."""
    method = build(unsup)
    first_losses(unsup, method)["replaced_tokens"].backward()
    for name in (
        "head.0.weight",
        "head.3.weight",
        "encoder.model.embeddings.word_embeddings.weight",
    ):
        assert dict(method.named_parameters())[name].grad.abs().max() > 0, name
    assert all(value.grad is None for value in method.editor.parameters())


@FAMILIES
def test_discriminator_is_a_second_copy_that_is_not_tied(unsup: Kit) -> None:
    method = build(unsup)
    for mine, other in zip(
        method.encoder.parameters(), method.discriminator.parameters(), strict=True
    ):
        assert torch.equal(mine, other)
        assert mine.data_ptr() != other.data_ptr()


def test_trainable_parameters(unsup: Kit) -> None:
    """220,147,202 with BERT base: two encoders without pooler, head and detector; no generator."""
    method = build(unsup)
    trained = trained_names(method, method.stages(unsup.config)[0])
    sizes = dict.fromkeys(("encoder", "discriminator", "head", "detector"), 0)
    for name, value in method.named_parameters():
        assert (name in trained) == (not name.startswith("editor."))
        if name in trained:
            sizes[name.split(".")[0]] += value.numel()
    shape = json.loads((Path(unsup.config.encoder) / "config.json").read_text())
    with torch.device("meta"):
        tiny, base = (
            BertModel(config, add_pooling_layer=False)
            for config in (BertConfig(**shape), BertConfig())
        )
        head = BatchNormHead(768)
    assert (
        sizes["encoder"]
        == sizes["discriminator"]
        == sum(value.numel() for value in tiny.parameters())
    )
    assert (sizes["head"], sizes["detector"]) == (4 * 32 * 32 + 4 * 32, 2 * 32 + 2)
    encoder, head = (
        sum(value.numel() for value in base.parameters()),
        sum(value.numel() for value in head.parameters()),
    )
    assert 2 * encoder + head + 2 * 768 + 2 == 220_147_202


@FAMILIES
@pytest.mark.parametrize("eval_", [False, True])
def test_dropout_of_the_generator(kit_for: KitFor, eval_: bool) -> None:
    method = build(kit_for("diffcse", generator_eval=eval_))
    assert method.editor.generator.model.training is not eval_
    assert method.encoder.training
    assert method.discriminator.training


# Ablations


@FAMILIES
def test_without_contrastive_loss(kit_for: KitFor) -> None:
    kit = kit_for(
        "diffcse", contrastive=False, replaced_token_weight=0.1, max_steps=2, learning_rate=1e-2
    )
    method = build(kit)
    assert dict(method.stages(kit.config)[0].losses) == {"replaced_tokens": 0.1}
    before = method.encoder.model.embeddings.word_embeddings.weight.detach().clone()
    Trainer(method, kit, 0, evaluate=lambda: 1.0, report=lambda _: None).run()
    assert not torch.equal(before, method.encoder.model.embeddings.word_embeddings.weight)


@pytest.mark.parametrize(
    ("values", "head"),
    [({"objective": "none"}, TanhHead), ({"replaced_token_weight": 0}, BatchNormHead)],
)
def test_without_detection_nothing_of_it_is_built(
    kit_for: KitFor, values: dict[str, Any], head: type
) -> None:
    kit = kit_for("diffcse", **values, generator="there-is-no-such-model")
    method = build(kit)
    assert {name.split(".")[0] for name, _ in method.named_parameters()} == {"encoder", "head"}
    assert isinstance(method.head, head)
    assert method.models(kit.config) == [kit.config.encoder]
    assert dict(method.stages(kit.config)[0].losses) == {"contrastive": 1.0}
    assert set(first_losses(kit, method)) == {"contrastive"}


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize("objective", ["detection", "masked-language"])
@pytest.mark.parametrize("edited", ["same", "next", "same+next"])
def test_which_sentence_is_edited(
    kit_for: KitFor, running_text: Path, edited: str, objective: str, watch: Watch
) -> None:
    """Both are conditioned on h(x), and the contrastive part is of x alone."""
    kit = kit_for(
        "diffcse",
        edited=edited,
        objective=objective,
        masking_ratio=0,
        sentences=f"neighbours:{running_text}",
    )
    method = build(kit)
    masker = watch(method.editor.masker if objective == "detection" else method.masker)
    encoder, reader, head = (watch(method.encoder), watch(method.discriminator), watch(method.head))
    batch = first_batch(kit, method)
    assert batch.views == 2
    found = method.losses({"contrastive": batch}, method.stages(kit.config)[0])
    first, following = (batch.input_ids[column::2].repeat_interleave(2, dim=0) for column in (0, 1))
    assert torch.equal(encoder.given[0][0][0].input_ids, first)
    vectors = array(head.results[0])
    assert found["contrastive"].item() == pytest.approx(
        info_nce(vectors[0::2], vectors[1::2], 0.05), rel=1e-4
    )
    wanted = {"same": [first], "next": [following], "same+next": [first, following]}[edited]
    assert len(masker.given) == len(reader.given) == len(wanted)
    for call, ids in enumerate(wanted):
        assert torch.equal(masker.given[call][0][0], ids)
        assert torch.equal(
            reader.keyword(call, "edit")(torch.zeros(12, 2, 32))[:, 0], head.results[0]
        )


@FAMILIES
def test_same_and_next_is_the_mean_of_both(
    kit_for: KitFor, running_text: Path, watch: Watch
) -> None:
    kit = kit_for("diffcse", edited="same+next", sentences=f"neighbours:{running_text}")
    method = build(kit)
    generator, detector = watch(method.editor.generator), watch(method.detector)
    batch = first_batch(kit, method)
    found = method.losses({"contrastive": batch}, method.stages(kit.config)[0])
    terms = []
    for column in (0, 1):
        ids, real = (
            part[column::2].numpy().repeat(2, axis=0)
            for part in (batch.input_ids, batch.attention_mask)
        )
        labels = replaced(ids, real, generator.results[column].numpy())
        terms.append(cross_entropies(array(detector.results[column]), labels).mean())
    assert found["replaced_tokens"].item() == pytest.approx(sum(terms) / 2, rel=1e-5)


@FAMILIES
def test_conditional_masked_language_modelling(kit_for: KitFor, watch: Watch) -> None:
    kit = kit_for(
        "diffcse",
        objective="masked-language",
        masking_ratio=0.4,
        generator="there-is-no-such-model",
    )
    method = build(kit)
    assert method.models(kit.config) == [kit.config.encoder]
    masker, reader, detector = (
        watch(method.masker),
        watch(method.discriminator),
        watch(method.detector),
    )
    found = first_losses(kit, method)
    masked, (text,) = masker.results[0], reader.given[0][0]
    assert torch.equal(text.input_ids, masked.input_ids)
    assert masked.chosen.any()
    assert torch.equal(detector.given[0][0][0], reader.results[0][masked.chosen]), (
        "at the chosen positions only"
    )
    originals = masker.given[0][0][0][masked.chosen].numpy()
    expected = cross_entropies(array(detector.results[0]), originals).mean()
    assert found["replaced_tokens"].item() == pytest.approx(expected, rel=1e-5)
    found["replaced_tokens"].backward()
    assert method.head[0].weight.grad.abs().max() > 0
    assert method.detector.decoder.weight.grad.abs().max() > 0


@FAMILIES
def test_corrective_language_modelling(kit_for: KitFor, watch: Watch) -> None:
    kit = kit_for("diffcse", objective="corrective")
    method = build(kit)
    reader, detector = watch(method.discriminator), watch(method.detector)
    batch = first_batch(kit, method).repeated(2)
    found = first_losses(kit, method)
    real = batch.attention_mask.bool()
    states, read, wanted = detector.given[0][0]
    assert torch.equal(states, reader.results[0][real])
    assert torch.equal(read, reader.given[0][0][0].input_ids[real])
    assert torch.equal(wanted, batch.input_ids[real])
    assert (read != wanted).any()
    assert found["replaced_tokens"].item() == pytest.approx(
        -array(detector.results[0]).mean(), rel=1e-5
    )
    assert {"detector.gate.weight", "detector.vocabulary.decoder.weight"} < set(
        trained_names(method, method.stages(kit.config)[0])
    )


@FAMILIES
@pytest.mark.parametrize("edit", ["insert", "delete"])
def test_other_edits_are_detected(kit_for: KitFor, edit: str, watch: Watch) -> None:
    kit = kit_for("diffcse", edit=edit, masking_ratio=0.3)
    method = build(kit)
    editor, reader, detector = (
        watch(method.editor),
        watch(method.discriminator),
        watch(method.detector),
    )
    found = first_losses(kit, method)["replaced_tokens"]
    edited = editor.results[0]
    assert torch.equal(reader.given[0][0][0].input_ids, edited.batch.input_ids)
    expected = cross_entropies(array(detector.results[0]), edited.labels.numpy()).mean()
    assert found.item() == pytest.approx(expected, rel=1e-5)
    assert method.models(kit.config) == [kit.config.encoder] + [kit.config.generator] * (
        edit == "insert"
    )


@FAMILIES
def test_all_edits_have_a_head_each(kit_for: KitFor, watch: Watch) -> None:
    kit = kit_for("diffcse", edit="all")
    method = build(kit)
    assert method.detector.out_features == 6
    editor, detector = watch(method.editor), watch(method.detector)
    found = first_losses(kit, method)["replaced_tokens"]
    edited, logits = editor.results[0], array(detector.results[0])
    assert len(set(edited.kinds.tolist())) == 3
    total = [
        cross_entropies(logits[row][:, 2 * kind : 2 * kind + 2], edited.labels[row].numpy())
        for row, kind in enumerate(edited.kinds.tolist())
    ]
    assert found.item() == pytest.approx(np.mean(total), rel=1e-5)


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize("edit", ["replace", "insert", "delete"])
@pytest.mark.parametrize("objective", ["positives", "negatives"])
def test_edits_as_augmentation(kit_for: KitFor, objective: str, edit: str, watch: Watch) -> None:
    kit = kit_for("diffcse", objective=objective, edit=edit)
    method = build(kit)
    encoder, editor, head = watch(method.encoder), watch(method.editor), watch(method.head)
    batch = first_batch(kit, method)
    found = method.losses({"contrastive": batch}, method.stages(kit.config)[0])
    assert set(found) == {"contrastive"}
    assert not hasattr(method, "discriminator")
    assert torch.equal(editor.given[0][0][0].input_ids, batch.input_ids), (
        "one edit of every sentence"
    )
    assert torch.equal(encoder.given[0][0][0].input_ids, batch.repeated(2).input_ids)
    assert torch.equal(encoder.given[1][0][0].input_ids, editor.results[0].batch.input_ids)
    (vectors,) = map(array, head.results)
    anchors, views, edits = vectors[:12:2], vectors[1:12:2], vectors[12:]
    if objective == "positives":
        expected = (info_nce(anchors, views, 0.05) + info_nce(anchors, edits, 0.05)) / 2
    else:
        expected = info_nce(anchors, [*views, *edits], 0.05)
    assert found["contrastive"].item() == pytest.approx(expected, rel=1e-4)


@FAMILIES
def test_static_corruption_has_no_generator(kit_for: KitFor, watch: Watch) -> None:
    kit = kit_for("diffcse", static_corruption=True)
    method = build(kit)
    assert isinstance(method.editor, StaticCorruption)
    assert not list(method.editor.parameters())
    assert kit.config.generator in method.models(kit.config), (
        "the result depends on it all the same"
    )
    reader = watch(method.discriminator)
    for _ in range(2):
        first_losses(kit, method)
    assert torch.equal(reader.given[0][0][0].input_ids, reader.given[1][0][0].input_ids)


# What is declared


def test_a_missing_file_of_running_text_is_named(kit_for: KitFor, tmp_path: Path) -> None:
    kit = kit_for("diffcse", edited="next", sentences=f"neighbours:{tmp_path}/none.txt")
    with pytest.raises(UserError, match=r"none\.txt.*no such file"):
        kit.build_shared()


# Other encoders, precision, memory


# Corrective language modelling against its formula in float64 numpy (diffcse.md, section 2).

PIECES, WIDTH = 7, 6


def head() -> CorrectiveHead:
    torch.manual_seed(0)
    return CorrectiveHead(cast("VocabularyHead", nn.Linear(WIDTH, PIECES)), WIDTH)


def test_loss_mixes_copying_and_the_vocabulary() -> None:
    corrective = head()
    generator = np.random.default_rng(0)
    states = generator.normal(size=(3, 5, WIDTH))
    read, originals = (generator.integers(0, PIECES, size=(3, 5)) for _ in range(2))
    originals[:, ::2] = read[:, ::2]
    real = np.arange(5) < np.array([[5], [3], [4]])
    matrix, bias = (value.detach().double().numpy() for value in corrective.vocabulary.parameters())
    gate_row, gate_bias = (
        value.detach().double().numpy() for value in corrective.gate.parameters()
    )
    total = 0.0
    for row, position in np.argwhere(real):
        state = states[row, position]
        gate = 1 / (1 + math.exp(-(gate_row[0] @ state + gate_bias[0])))
        powers = np.exp(matrix @ state + bias)
        copied = float(read[row, position] == originals[row, position])
        total -= math.log(
            gate * copied + (1 - gate) * powers[originals[row, position]] / powers.sum()
        )
    batch = TextBatch(torch.tensor(read), torch.tensor(real).long(), torch.arange(3))
    edited = Edited(batch, torch.zeros(3, 5), torch.zeros(3))
    found = corrective_loss(
        corrective, torch.tensor(states).float(), torch.tensor(originals), edited
    )
    assert found.item() == pytest.approx(total / real.sum(), rel=1e-5)


def test_a_sure_copy_costs_nothing_and_a_sure_gate_is_finite() -> None:
    corrective = head()
    with torch.no_grad():
        corrective.gate.bias.fill_(200)
    states = torch.randn(2, WIDTH, requires_grad=True)
    read, wanted = torch.tensor([3, 3]), torch.tensor([3, 4])
    copied, written = corrective(states, read, wanted)
    assert copied.item() == pytest.approx(0, abs=1e-6)
    assert written.item() < -190
    (copied + written).backward()
    assert states.grad is not None
    assert states.grad.isfinite().all()


def test_gate_and_vocabulary_learn() -> None:
    corrective = head()
    corrective(
        torch.randn(4, WIDTH), torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 5, 6])
    ).sum().backward()
    assert all(
        value.grad is not None and value.grad.abs().max() > 0 for value in corrective.parameters()
    )
