"""D2CSE against d2cse.md: what trains, what stays, which vector goes where."""

from pathlib import Path
from typing import Any

import pytest
import torch

from harness.data.batching import TextBatch
from harness.encoders.reach import KeyValues, WordVectors
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.training.parameters import count, trainable
from tests.families import FAMILIES
from tests.methods.references import (
    KitFor,
    array,
    build,
    cross_entropies,
    first_batches,
    first_losses,
    watched,
)

LENGTH = 5


@pytest.mark.parametrize("cls_prompt", [False, True])
def test_trainable_parameters(kit_for: KitFor, cls_prompt: bool) -> None:
    """Prompts, head, detector, and the vector of [CLS]."""

    def expected(width: int, layers: int, length: int, cls_prompt: bool) -> int:
        head, detector = 4 * width**2 + 4 * width, 2 * width + 2
        return length * 2 * layers * width + head + detector + width * cls_prompt

    method = build(kit_for("d2cse", prompt_length=LENGTH, cls_prompt=cls_prompt))
    assert count(method, trained=True) == expected(32, 2, LENGTH, cls_prompt)
    assert expected(768, 12, 16, cls_prompt) == (2_659_586 if cls_prompt else 2_658_818)
    assert expected(768, 12, 12, False) == 2_585_090
    assert expected(1024, 24, 16, False) == 4_986_882


@FAMILIES
@pytest.mark.parametrize("discriminator", ["shared", "plain", "copy", "unconditional"])
def test_what_each_loss_reaches(kit_for: KitFor, discriminator: str) -> None:
    """Detection trains prompts and, through h in slot 0, the head; contrast no detector."""
    kit = kit_for("d2cse", prompt_length=LENGTH, discriminator=discriminator)
    method = build(kit)

    def reached(loss: torch.Tensor) -> set[str]:
        method.zero_grad()
        loss.backward(retain_graph=True)
        parameters = ("prompts.table", "detector.weight", "head.0.weight", "head.3.weight")
        gradients = {name: method.get_parameter(name).grad for name in parameters}
        return {name for name, each in gradients.items() if each is not None and each.any()}

    losses = first_losses(kit, method)
    head = {"head.0.weight", "head.3.weight"}
    through_h = set() if discriminator == "unconditional" else head
    assert reached(losses["replaced_tokens"]) == {"prompts.table", "detector.weight", *through_h}
    assert reached(losses["contrastive"]) == {"prompts.table", *head}


def assert_cls_prompt(words: WordVectors | None, method: Any) -> None:
    """The [CLS] vector, where the method has one, for the word embedding at position 0."""
    assert (words is None) == (method.cls_vector is None)
    if words is not None:
        assert torch.equal(words.vectors[0], method.cls_vector)
        assert (words.positions == 0).all()


def drawn_equal(first: KeyValues, second: KeyValues) -> bool:
    pairs = zip((*first.keys, *first.values), (*second.keys, *second.values), strict=True)
    return all(torch.equal(one, two) for one, two in pairs)


@FAMILIES
@pytest.mark.parametrize(
    ("values", "same"),
    [
        ({}, True),
        ({"discriminator_prompts": "same"}, True),
        ({"discriminator_prompts": "fresh"}, False),
    ],
)
def test_prompts_of_the_second_pass(kit_for: KitFor, values: dict[str, str], same: bool) -> None:
    kit = kit_for("d2cse", prompt_length=LENGTH, **values)
    method = build(kit)
    (encoder,) = watched(method, "encoder")
    first_losses(kit, method)
    method.eval()
    first_losses(kit, method)
    first, second, *still = (encoder.keyword(call, "prefix") for call in range(4))
    assert any((keys == 0).any() for keys in first.keys), "prompts have dropout"
    assert drawn_equal(first, second) is same
    assert first.length == second.length == LENGTH
    assert drawn_equal(*still), "one table for both passes"


@FAMILIES
@pytest.mark.parametrize("setting", ["unsup", "sup"])
def test_embedding_is_the_cls_state_before_the_head(kit_for: KitFor, setting: str) -> None:
    kit = kit_for("d2cse", setting=setting, prompt_length=LENGTH, cls_prompt=True)
    method = build(kit).eval()
    encoder, head, generator = watched(method, "encoder head editor.generator")
    batch = first_batches(kit, method)["contrastive"]
    embedding = method.embed(batch)
    assert len(encoder.results) == 1
    assert torch.equal(embedding, encoder.results[0][:, 0])
    assert head.results == generator.results == []
    assert_cls_prompt(encoder.keyword(0, "words"), method)
    assert encoder.keyword(0, "position_offset") == LENGTH
    assert drawn_equal(encoder.keyword(0, "prefix"), method.prompts(len(batch.input_ids)))
    assert torch.equal(method.embed(batch), embedding), "no dropout at test time"


@FAMILIES
def test_cls_prompt_starts_as_the_pretrained_embedding(kit_for: KitFor) -> None:
    """Before training it changes nothing. It is a copy: the word embeddings stay as they are."""
    plain, prompted = (
        build(kit_for("d2cse", prompt_length=LENGTH, cls_prompt=flag)).eval()
        for flag in (False, True)
    )
    words = prompted.encoder.model.get_input_embeddings().weight
    assert plain.cls_vector is None
    cls, sep, pad = (
        getattr(prompted.tokenizer, f"{name}_token_id") for name in ("cls", "sep", "pad")
    )
    assert torch.equal(prompted.cls_vector, words[cls])
    assert prompted.cls_vector.data_ptr() != words[cls].data_ptr()
    prompted.prompts.load_state_dict(plain.prompts.state_dict())
    ids = torch.tensor([[cls, 7, 8, sep], [cls, 9, sep, pad]])
    batch = TextBatch(ids, (ids != pad).long(), torch.arange(2))
    assert torch.allclose(plain.embed(batch), prompted.embed(batch), atol=1e-6)
    with torch.no_grad():
        prompted.cls_vector.add_(
            torch.arange(32) % 3
        )  # not constant, because LayerNorm would remove a constant
    assert not torch.allclose(plain.embed(batch), prompted.embed(batch), atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["shifted", "plain"])
@pytest.mark.parametrize("cls_prompt", [False, True])
@pytest.mark.parametrize("shift", [True, False])
def test_roberta_positions(
    kit_for: KitFor, tiny_roberta: Path, cls_prompt: bool, positions: str, shift: bool
) -> None:
    kit = kit_for(
        "d2cse", encoder=str(tiny_roberta), prompt_length=LENGTH, cls_prompt=cls_prompt,
        roberta_cls_prompt_positions=positions, position_shift=shift,
    )  # fmt: skip
    method = build(kit)
    method.encoder.unpads = False  # so that positions come row by row
    (table,) = watched(method, "encoder.model.embeddings.position_embeddings")
    batch = first_batches(kit, method)
    method.losses(batch, method.stages(kit.config)[0])
    method.eval().embed(batch["contrastive"])
    own = torch.arange(batch["contrastive"].input_ids.shape[1]) + 2
    moved = LENGTH if shift else 0
    encoded = own if cls_prompt and positions == "plain" else own + moved
    # The discriminator has no [CLS] prompt: its positions are shifted as those of all text are.
    for (given, _), expected in zip(table.given, (encoded, own + moved, encoded), strict=True):
        assert torch.equal(given[0][0], expected)


@FAMILIES
@pytest.mark.parametrize("cls_prompt", [False, True])
@pytest.mark.parametrize(
    ("discriminator", "prompted", "conditioned"),
    [
        ("shared", True, True),
        ("plain", False, True),
        ("copy", False, True),
        ("unconditional", True, False),
    ],
)
def test_both_passes(
    kit_for: KitFor, discriminator: str, prompted: bool, conditioned: bool, cls_prompt: bool
) -> None:
    """Table 6, (a) to (d)."""
    kit = kit_for("d2cse", prompt_length=LENGTH, cls_prompt=cls_prompt, discriminator=discriminator)
    method = build(kit)
    own = discriminator == "copy"
    encoder, head, editor, reader = watched(
        method, f"encoder head editor {'discriminator' if own else 'editor'}"
    )
    reader = reader if own else encoder
    first_losses(kit, method)
    assert len(encoder.results) == (1 if own else 2)
    assert len(head.results) == 1
    assert torch.equal(head.given[0][0][0], encoder.results[0][:, 0])
    assert_cls_prompt(encoder.keyword(0, "words"), method)
    assert encoder.keyword(0, "edit") is None
    assert encoder.keyword(0, "position_offset") == LENGTH
    call = len(reader.given) - 1
    assert torch.equal(reader.given[call][0][0].input_ids, editor.results[0].batch.input_ids)
    assert reader.keyword(call, "words") is None, "static [CLS] where h does not stand"
    assert (reader.keyword(call, "position_offset") or 0) == (LENGTH if prompted else 0)
    if prompted:
        assert drawn_equal(reader.keyword(call, "prefix"), encoder.keyword(0, "prefix"))
    else:
        assert reader.keyword(call, "prefix") is None, "no prompts, no shift"
    edit = reader.keyword(call, "edit")
    assert (edit is not None) == conditioned
    if conditioned:
        assert torch.equal(edit(torch.zeros(12, 3, 32))[:, 0], head.results[0])


def test_a_copied_discriminator_has_its_own_rate(kit_for: KitFor) -> None:
    """A rate of 0.02 cannot train a full encoder."""
    kit = kit_for("d2cse", discriminator="copy")
    assert kit.config.discriminator_learning_rate == 7e-6
    method = build(kit)
    groups = trainable(method, method.stages(kit.config)[0])
    own = groups["discriminator_learning_rate"]
    assert {id(value) for value in own} == {
        id(value) for value in method.discriminator.parameters()
    }
    for mine, other in zip(method.encoder.parameters(), own, strict=True):
        assert torch.equal(mine, other), "the pre-trained weights"
        assert mine.data_ptr() != other.data_ptr()


@pytest.mark.parametrize(("setting", "texts"), [("unsup", 2), ("sup", 3)])
def test_the_sum_over_texts_is_that_of_their_means(
    kit_for: KitFor, setting: str, texts: int
) -> None:
    """D2CSE's supervised loss, against cross entropies of each text in float64."""
    kit = kit_for("d2cse", setting=setting, prompt_length=LENGTH, rtd_texts="sum")
    method = build(kit)
    editor, detector = watched(method, "editor detector")
    value = first_losses(kit, method)["replaced_tokens"].item()
    terms = cross_entropies(array(detector.results[0]), editor.results[0].labels.numpy())
    printed = sum(terms[text::texts].mean() for text in range(texts))
    weight = method.stages(kit.config)[0].losses["replaced_tokens"]
    assert weight * value == pytest.approx(0.005 * float(printed), rel=1e-5)


@pytest.mark.parametrize("method", ["d2cse", "diffcse"])
def test_the_mean_over_texts_is_in_no_key(method: str) -> None:
    plain = resolve(registry.load(method), {"setting": "sup"})
    summed = resolve(registry.load(method), {"setting": "sup", "rtd_texts": "sum"})
    assert summed.deciding() == {**plain.deciding(), "rtd_texts": "sum"}
    assert "rtd_texts" not in plain.deciding()
