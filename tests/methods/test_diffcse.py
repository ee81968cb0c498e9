"""DiffCSE and its ablations against diffcse.md; D2CSE has the same losses (d2cse.md)."""

import math
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
from harness.training.parameters import count
from harness.views.edits import Edited
from methods.diffcse.ablations import CorrectiveHead, corrective_loss
from tests.families import FAMILIES
from tests.method_cases import grouped
from tests.methods.references import (
    KitFor,
    array,
    build,
    cross_entropies,
    first_batch,
    first_losses,
    info_nce,
    watched,
)

BOTH = pytest.mark.parametrize("name", ["diffcse", "d2cse"])


@pytest.fixture(scope="module")
def running_text(tmp_path_factory: pytest.TempPathFactory, sentences: Path) -> Path:
    """The small corpus as if it were two documents."""
    lines = sentences.read_text().splitlines()
    path = tmp_path_factory.mktemp("running") / "text.txt"
    path.write_text("\n".join([*lines[:25], "", *lines[25:]]) + "\n")
    return path


def replaced(original: np.ndarray, real: np.ndarray, best: np.ndarray) -> np.ndarray:
    """The labels of diffcse.md, section 1.2, step 5."""
    labels = np.zeros(original.shape, int)
    for row, position in np.ndindex(original.shape):
        labels[row, position] = (
            position > 0 and real[row, position] and best[row, position] != original[row, position]
        )
    return labels


@pytest.mark.slow
@FAMILIES
@BOTH
@pytest.mark.parametrize(("setting", "views"), [("unsup", 2), ("sup", 3)])
@pytest.mark.parametrize("reduction", ["mean_all", "mean_nonpad", "sum"])
def test_losses_against_formulas(
    kit_for: KitFor, name: str, setting: str, views: int, reduction: str
) -> None:
    kit = kit_for(name, setting=setting, rtd_reduction=reduction, masking_ratio=0.4)
    method = build(kit)
    head, generator, detector, masker = watched(
        method, "head editor.generator detector editor.masker"
    )
    batch = first_batch(kit, method)
    losses = method.losses({"contrastive": batch}, method.stages(kit.config)[0])

    assert len(head.results) == 1, "BatchNorm's statistics are of all rows together"
    vectors = array(head.results[0])
    assert len(vectors) == 6 * views
    parts = [vectors[view::views] for view in range(views)]
    expected = info_nce(parts[0], np.concatenate(parts[1:]), 0.05)
    assert losses["contrastive"].item() == pytest.approx(expected, rel=1e-4)

    original, real = (
        part.numpy().repeat(2 if setting == "unsup" else 1, axis=0)
        for part in (batch.input_ids, batch.attention_mask)
    )
    labels = replaced(original, real, generator.results[0].numpy())
    assert labels.any()
    terms = cross_entropies(array(detector.results[0]), labels)
    expected = {
        "mean_all": terms.mean(),
        "mean_nonpad": terms[real == 1].mean(),
        "sum": terms[real == 1].sum(),
    }[reduction]
    assert losses["replaced_tokens"].item() == pytest.approx(expected, rel=1e-5)

    chosen, words = masker.results[0].chosen.numpy(), original > 4
    assert not chosen[~words].any(), "special pieces are never masked"
    assert abs(chosen[words].mean() - 0.4) < 5 * math.sqrt(0.24 / words.sum())


@FAMILIES
@BOTH
@pytest.mark.parametrize("reduction", ["mean_all", "mean_nonpad"])
def test_grouped_batches_are_padded_as_the_shuffled_ones_were(
    kit_for: KitFor, name: str, reduction: str
) -> None:
    """mean_all averages over the padding of the released code's batches; the others pad nothing."""
    kit = kit_for(name, rtd_reduction=reduction)
    method = build(kit)
    editor, detector = watched(method, "editor detector")
    batch = grouped(kit, method)
    losses = method.losses({"contrastive": batch}, method.stages(kit.config)[0])
    mask = batch.repeated(2).attention_mask.numpy()
    width = batch.shuffled_length if reduction == "mean_all" else mask.shape[1]
    labels = np.zeros((len(mask), width), int)
    labels[:, : mask.shape[1]] = editor.results[0].labels.numpy()
    logits = array(detector.results[0])
    assert logits.shape[:2] == labels.shape
    terms = cross_entropies(logits, labels)
    if reduction != "mean_all":
        terms = terms[mask == 1]
    assert losses["replaced_tokens"].item() == pytest.approx(terms.mean(), rel=1e-5)


@FAMILIES
def test_what_the_discriminator_reads(kit_for: KitFor) -> None:
    """The generator's tokens everywhere, and h in the place of [CLS] as it leaves the head.

    That is behind LayerNorm and dropout of the embedding. Otherwise, as where h is detached, the
    method would train like SimCSE.
    """
    kit = kit_for("diffcse", masking_ratio=0.5)
    method = build(kit)
    both = method.encoder.parameters(), method.discriminator.parameters()
    assert all(one.equal(other) and one is not other for one, other in zip(*both, strict=True))
    method.discriminator.eval()
    head, generator, reader, layer = watched(
        method, "head editor.generator discriminator discriminator.model.encoder.layer.0"
    )
    batch = first_batch(kit, method).repeated(2)
    losses = first_losses(kit, method)
    (edited,), h, entered = reader.given[0][0], head.results[0], layer.given[0][0][0]
    assert torch.equal(edited.attention_mask, batch.attention_mask)
    assert torch.equal(entered[:, 0], h)
    assert (edited.input_ids[:, 0] == kit.tokenizer.cls_token_id).all()
    real = batch.attention_mask.bool()
    written, others = generator.results[0][:, 1:], real[:, 1:]
    assert torch.equal(edited.input_ids[:, 1:][others], written[others])
    assert not edited.input_ids[~real].any()
    plain = method.discriminator.model.embeddings(input_ids=edited.input_ids)
    assert torch.allclose(entered[:, 1:][others], plain[:, 1:][others], atol=1e-6)
    # Every view has its own edit and its own vector.
    assert not torch.equal(edited.input_ids[0::2], edited.input_ids[1::2])
    assert not torch.allclose(h[0::2], h[1::2], atol=1e-3)
    losses["replaced_tokens"].backward()
    words = "encoder.model.embeddings.word_embeddings.weight"
    for name in ("head.0.weight", "head.3.weight", words):
        assert method.get_parameter(name).grad.abs().max() > 0, name
    assert all(value.grad is None for value in method.editor.parameters())


@FAMILIES
def test_only_masked_positions_change_where_that_is_asked(kit_for: KitFor) -> None:
    kit = kit_for("diffcse", replace_only_masked=True)
    method = build(kit)
    masker, reader = watched(method, "editor.masker discriminator")
    batch = first_batch(kit, method).repeated(2)
    first_losses(kit, method)
    changed = reader.given[0][0][0].input_ids != batch.input_ids
    assert (changed & batch.attention_mask.bool() <= masker.results[0].chosen).all()
    assert changed.any()


def test_trainable_parameters(kit_for: KitFor) -> None:
    """220,147,202 with BERT base: two encoders without pooler, head and detector; no generator."""

    def expected(config: BertConfig) -> int:
        with torch.device("meta"):
            encoder = BertModel(config, add_pooling_layer=False)
        width = config.hidden_size
        return 2 * encoder.num_parameters() + 4 * width**2 + 4 * width + 2 * width + 2

    kit = kit_for("diffcse")
    tiny = BertConfig.from_pretrained(kit.config.encoder)
    assert count(build(kit), trained=True) == expected(tiny)
    assert expected(BertConfig()) == 220_147_202


@pytest.mark.parametrize("eval_", [False, True])
def test_dropout_of_the_generator(kit_for: KitFor, eval_: bool) -> None:
    method = build(kit_for("diffcse", generator_eval=eval_))
    assert method.editor.generator.model.training is not eval_
    assert method.encoder.training
    assert method.discriminator.training


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
@pytest.mark.parametrize(
    ("edited", "columns"), [("same", [0]), ("next", [1]), ("same+next", [0, 1])]
)
def test_which_sentence_is_edited(
    kit_for: KitFor, running_text: Path, edited: str, columns: list[int], objective: str
) -> None:
    """Both are conditioned on h(x), and the contrastive part is of x alone."""
    options = {"edited": edited, "objective": objective, "masking_ratio": 0}
    kit = kit_for("diffcse", **options, sentences=f"neighbours:{running_text}")
    method = build(kit)
    detects = objective == "detection"
    masker, encoder, reader, head, detector = watched(
        method, f"{'editor.' * detects}masker encoder discriminator head detector"
    )
    writer = watched(method, "editor.generator") if detects else []
    batch = first_batch(kit, method)
    assert batch.views == 2
    losses = method.losses({"contrastive": batch}, method.stages(kit.config)[0])
    texts = [
        [part[column::2].repeat_interleave(2, dim=0) for column in (0, 1)]
        for part in (batch.input_ids, batch.attention_mask)
    ]
    assert torch.equal(encoder.given[0][0][0].input_ids, texts[0][0])
    vectors = array(head.results[0])
    expected = info_nce(vectors[0::2], vectors[1::2], 0.05)
    assert losses["contrastive"].item() == pytest.approx(expected, rel=1e-4)
    assert len(masker.given) == len(reader.given) == len(columns)
    terms = []
    for call, column in enumerate(columns):
        ids, real = (part[column] for part in texts)
        assert torch.equal(masker.given[call][0][0], ids)
        edit = reader.keyword(call, "edit")
        assert torch.equal(edit(torch.zeros(12, 2, 32))[:, 0], head.results[0])
        for generator in writer:
            labels = replaced(ids.numpy(), real.numpy(), generator.results[call].numpy())
            terms.append(cross_entropies(array(detector.results[call]), labels).mean())
    if detects:
        assert losses["replaced_tokens"].item() == pytest.approx(np.mean(terms), rel=1e-5)


@FAMILIES
def test_conditional_masked_language_modelling(kit_for: KitFor) -> None:
    options = {"objective": "masked-language", "masking_ratio": 0.4}
    kit = kit_for("diffcse", **options, generator="there-is-no-such-model")
    method = build(kit)
    assert method.models(kit.config) == [kit.config.encoder]
    masker, reader, detector = watched(method, "masker discriminator detector")
    loss = first_losses(kit, method)["replaced_tokens"]
    masked, (text,) = masker.results[0], reader.given[0][0]
    assert torch.equal(text.input_ids, masked.input_ids)
    assert masked.chosen.any()
    read = detector.given[0][0][0]
    assert torch.equal(read, reader.results[0][masked.chosen]), "at the chosen positions only"
    originals = masker.given[0][0][0][masked.chosen].numpy()
    expected = cross_entropies(array(detector.results[0]), originals).mean()
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    loss.backward()
    assert method.head[0].weight.grad.abs().max() > 0


@FAMILIES
def test_corrective_language_modelling(kit_for: KitFor) -> None:
    kit = kit_for("diffcse", objective="corrective")
    method = build(kit)
    reader, detector = watched(method, "discriminator detector")
    batch = first_batch(kit, method).repeated(2)
    loss = first_losses(kit, method)["replaced_tokens"].item()
    real = batch.attention_mask.bool()
    states, read, wanted = detector.given[0][0]
    assert torch.equal(states, reader.results[0][real])
    assert torch.equal(read, reader.given[0][0][0].input_ids[real])
    assert torch.equal(wanted, batch.input_ids[real])
    assert (read != wanted).any()
    assert loss == pytest.approx(-array(detector.results[0]).mean(), rel=1e-5)


@FAMILIES
@pytest.mark.parametrize("edit", ["insert", "delete", "all"])
def test_other_edits_are_detected(kit_for: KitFor, edit: str) -> None:
    """Each kind by a head of its own."""
    kit = kit_for("diffcse", edit=edit, masking_ratio=0.3)
    method = build(kit)
    editor, reader, detector = watched(method, "editor discriminator detector")
    loss = first_losses(kit, method)["replaced_tokens"].item()
    edited, logits = editor.results[0], array(detector.results[0])
    assert torch.equal(reader.given[0][0][0].input_ids, edited.batch.input_ids)
    kinds = edited.kinds.tolist() if edit == "all" else [0] * len(logits)
    assert len({*kinds}) == logits.shape[-1] / 2 == (3 if edit == "all" else 1)
    terms = [
        cross_entropies(row[:, 2 * kind : 2 * kind + 2], labels)
        for row, kind, labels in zip(logits, kinds, edited.labels.numpy(), strict=True)
    ]
    assert loss == pytest.approx(np.mean(terms), rel=1e-5)
    others = [kit.config.generator] if edit != "delete" else []
    assert method.models(kit.config) == [kit.config.encoder, *others]


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize("edit", ["replace", "insert", "delete"])
@pytest.mark.parametrize("objective", ["positives", "negatives"])
def test_edits_as_augmentation(kit_for: KitFor, objective: str, edit: str) -> None:
    kit = kit_for("diffcse", objective=objective, edit=edit)
    method = build(kit)
    encoder, editor, head = watched(method, "encoder editor head")
    batch = first_batch(kit, method)
    losses = method.losses({"contrastive": batch}, method.stages(kit.config)[0])
    assert set(losses) == {"contrastive"}
    assert not hasattr(method, "discriminator")
    read = editor.given[0][0][0].input_ids
    assert torch.equal(read, batch.input_ids), "one edit of every sentence"
    assert torch.equal(encoder.given[0][0][0].input_ids, batch.repeated(2).input_ids)
    assert torch.equal(encoder.given[1][0][0].input_ids, editor.results[0].batch.input_ids)
    (vectors,) = map(array, head.results)
    anchors, views, edits = vectors[:12:2], vectors[1:12:2], vectors[12:]
    if objective == "positives":
        expected = (info_nce(anchors, views, 0.05) + info_nce(anchors, edits, 0.05)) / 2
    else:
        expected = info_nce(anchors, [*views, *edits], 0.05)
    assert losses["contrastive"].item() == pytest.approx(expected, rel=1e-4)


def test_a_missing_file_of_running_text_is_named(kit_for: KitFor, tmp_path: Path) -> None:
    kit = kit_for("diffcse", edited="next", sentences=f"neighbours:{tmp_path}/none.txt")
    with pytest.raises(UserError, match=r"none\.txt.*no such file"):
        kit.build_shared()


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
    loss = corrective_loss(
        corrective, torch.tensor(states).float(), torch.tensor(originals), edited
    )
    assert loss.item() == pytest.approx(total / real.sum(), rel=1e-5)


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
