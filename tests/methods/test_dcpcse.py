"""DCPCSE and SCPCSE against dcpcse.md.

The reference for deep prompts is the route by cached keys of transformers (dcpcse.md,
section 1.4).
"""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.training.parameters import count
from tests.families import FAMILIES
from tests.methods import references
from tests.methods.references import (
    KitFor,
    alone,
    array,
    behind_prompts,
    first_batch,
    first_losses,
    headed,
    info_nce,
    losses,
    plain_model,
    watched,
)

LENGTH, WIDTH = 5, 32
SUP = {"setting": "sup"}
TEMPLATE = "the old {s} sees [MASK]"
build = partial(references.build, enlarged="prompts head")


def deep_states(method: Any, ids: torch.Tensor, model: Any) -> np.ndarray:
    """Last states of a row, (length, H); slot 2j of a prompt is layer j's key, 2j + 1 its value."""
    prompts = method.prompts.table.detach().double().reshape(LENGTH, 2, 2, 4, WIDTH // 4)
    return array(behind_prompts(model, prompts, ids))


def shallow_states(kit: Kit, method: Any, ids: torch.Tensor, text: int) -> np.ndarray:
    """All last states of `[CLS] p p X p [MASK] [SEP]`, (length, H), with trained vectors p."""
    model = plain_model(kit)
    words = model.get_input_embeddings().weight[ids].detach().clone()
    vectors = method.prompts.vectors.detach().double()
    words[1], words[2], words[3 + text] = vectors
    states = model(
        inputs_embeds=words[None], attention_mask=torch.ones(1, len(ids))
    ).last_hidden_state
    return np.asarray(states[0].detach())


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize("values", [{}, SUP, {**SUP, "hard_negative_weight": 2.0}], ids=str)
def test_contrastive_loss(
    kit_for: KitFor, still: Callable[[str], str], family: str, values: dict[str, Any]
) -> None:
    given = {"encoder": still(family), "prompt_length": LENGTH, "temperature": 0.3}
    kit = kit_for("dcpcse", **given, **values)
    method = build(kit)
    batch, model = first_batch(kit, method), plain_model(kit)
    states = [deep_states(method, ids, model)[0] for ids in alone(batch)]
    vectors = headed(method, np.array(states))
    views = [vectors[view::3] for view in range(3)] if values else [vectors, vectors]
    weight = values.get("hard_negative_weight", 0.0)
    expected = info_nce(views[0], np.concatenate(views[1:]), 0.3, weight)
    found = losses(kit, method, batch)
    assert set(found) == {"contrastive"}
    assert found["contrastive"].item() == pytest.approx(expected, rel=1e-4)


@FAMILIES
def test_masked_language_loss(kit_for: KitFor, still: Callable[[str], str], family: str) -> None:
    """A second pass with the same prompts on masked rows, with the checkpoint's head."""
    kit = kit_for(
        "dcpcse", encoder=still(family), prompt_length=LENGTH, mlm=True, masking_ratio=0.4
    )
    method = build(kit)
    (masker,), batch = watched(method, "masker"), first_batch(kit, method)
    loss = losses(kit, method, batch)["masked_language"].item()
    (masked,) = masker.results
    whole = plain_model(kit, AutoModelForMaskedLM)
    encoder, head = (
        (whole.bert, whole.cls) if family == "tiny_encoder" else (whole.roberta, whole.lm_head)
    )
    terms = []
    for row, original in enumerate(alone(batch.repeated(2))):
        states = deep_states(method, masked.input_ids[row, : len(original)], encoder)
        logits = array(head(torch.from_numpy(states)))
        for place in np.flatnonzero(masked.chosen[row]):
            terms.append(math.log(np.exp(logits[place]).sum()) - logits[place, original[place]])
    assert loss == pytest.approx(float(np.mean(terms)), rel=1e-4)


@FAMILIES
def test_shallow_prompts(kit_for: KitFor, still: Callable[[str], str], family: str) -> None:
    """Special pieces keep their embeddings and positions; the vector is the state at the mask."""
    kit = kit_for(
        "dcpcse", encoder=still(family), prompts="shallow", template=TEMPLATE, temperature=0.3
    )
    method = build(kit)
    batch = first_batch(kit, method)
    ends = {tuple(ids[[0, -2, -1]].tolist()) for ids in alone(batch)}
    names = ("cls_token_id", "mask_token_id", "sep_token_id")
    assert ends == {tuple(getattr(method.tokenizer, name) for name in names)}
    states = np.array([shallow_states(kit, method, ids, len(ids) - 6)[-2] for ids in alone(batch)])
    vectors = headed(method, states)
    found = losses(kit, method, batch)["contrastive"].item()
    assert found == pytest.approx(info_nce(vectors, vectors, 0.3), rel=1e-4)
    assert np.abs(array(method.eval().embed(batch)) - states).max() < 1e-4, "no head"


@FAMILIES
def test_masked_language_loss_touches_no_sentence_vector(kit_for: KitFor) -> None:
    """It does not train the tanh head, and the contrastive loss not the vocabulary head."""
    kit = kit_for("dcpcse", prompt_length=LENGTH, mlm=True)
    method = build(kit)
    losses = first_losses(kit, method)
    losses["masked_language"].backward(retain_graph=True)
    assert all(value.grad is None for value in method.head.parameters())
    assert all(value.grad.abs().max() > 0 for value in method.vocabulary.parameters())
    assert (method.prompts.table.grad != 0).all(), "every slot of every position"
    method.zero_grad()
    losses["contrastive"].backward()
    assert all(value.grad is None for value in method.vocabulary.parameters())
    assert all(value.grad is None for value in method.encoder.parameters())


def test_trainable_parameters(kit_for: KitFor) -> None:
    """The decoder of the vocabulary head is a matrix of its own, not the frozen embeddings."""

    def expected(width: int, layers: int, length: int) -> int:
        return length * 2 * layers * width + width**2 + width

    for values, vocabulary in (
        ({}, False),
        ({"mlm": True}, True),
        ({"mlm": True, "freeze_lm_head": True}, False),
    ):
        method = build(kit_for("dcpcse", prompt_length=LENGTH, **values))
        words = method.encoder.model.get_input_embeddings().weight
        pieces = words.shape[0]
        extra = WIDTH**2 + 3 * WIDTH + pieces * WIDTH + pieces
        assert count(method, trained=True) == expected(WIDTH, 2, LENGTH) + extra * vocabulary
        if vocabulary:
            assert torch.equal(method.vocabulary.decoder.weight, words)
            assert method.vocabulary.decoder.weight.data_ptr() != words.data_ptr()
    published = {16: 885_504, 14: 848_640, 12: 811_776, 10: 774_912}
    assert {length: expected(768, 12, length) for length in published} == published
    assert [expected(1024, 24, length) for length in (10, 12)] == [1_541_120, 1_639_424]


def test_shallow_prompts_of_the_paper_are_six_vectors(kit_for: KitFor, hub: Path) -> None:
    """Four pieces stand before the sentence and two after it: 4,608 numbers for BERT base."""
    kit = kit_for("dcpcse", encoder=str(hub / "models" / "mini-bert"), prompts="shallow")
    method = kit.build()
    pieces = method.tokenizer.convert_tokens_to_ids(["this", "sentence", ":", '"', '"', "means"])
    words = method.encoder.model.get_input_embeddings().weight
    assert torch.equal(method.prompts.vectors, words[pieces])
    assert method.prompts.vectors.numel() == 6 * words.shape[1]
    assert method.prompts.vectors.data_ptr() != words.data_ptr()
    assert method.tokenizer.convert_ids_to_tokens(method.template.end) == [
        '"',
        "means",
        "[MASK]",
        "[SEP]",
    ]


@FAMILIES
def test_the_masked_pass_has_the_prompts_and_positions_of_the_first(kit_for: KitFor) -> None:
    """They are drawn once, dropout included. The next batch draws anew (trap 7)."""
    kit = kit_for("dcpcse", prompt_length=LENGTH, mlm=True)
    method = build(kit)
    encoder, masker = watched(method, "encoder masker")
    for _ in range(2):
        first_losses(kit, method)
    first, masked, next_first, _ = (encoder.keyword(call, "prefix") for call in range(4))
    assert first is masked
    assert not torch.equal(first.keys[0], next_first.keys[0])
    assert {keys.shape[2] for keys in (*next_first.keys, *next_first.values)} == {LENGTH}
    assert [encoder.keyword(call, "position_offset") for call in range(4)] == [LENGTH] * 4
    assert torch.equal(encoder.given[1][0][0].input_ids, masker.results[0].input_ids)
    assert torch.equal(masker.given[0][0][0][0::2], masker.given[0][0][0][1::2])
    assert not torch.equal(*(masker.results[0].chosen[view::2] for view in range(2))), (
        "each view is masked on its own"
    )


def test_masked_language_weight_decays() -> None:
    """0.1 * 0.95^(steps / 100) with a real exponent, where steps counts the steps done."""
    plugin = registry.load("dcpcse")
    losses_of = {
        mlm: plugin.method.stages(resolve(plugin, {"mlm": mlm}))[0].losses for mlm in (False, True)
    }
    assert dict(losses_of[False]) == {"contrastive": 1.0}
    weight = losses_of[True]["masked_language"]
    assert weight(0) == pytest.approx(0.1)
    assert weight(50) == pytest.approx(0.1 * math.sqrt(0.95))
    assert [round(weight(steps), 4) for steps in (1000, 3907)] == [0.0599, 0.0135]
    assert weight(15625) == pytest.approx(3.3e-5, rel=0.01)
    (stage,) = plugin.method.stages(resolve(plugin, {"mlm": True, "masked_language_weight": 0.4}))
    assert stage.losses["masked_language"](0) == pytest.approx(0.4)


@pytest.mark.parametrize("shift", [True, False])
def test_the_text_starts_behind_the_prompts_unless_told_otherwise(
    kit_for: KitFor, tiny_roberta: Path, shift: bool
) -> None:
    """RoBERTa's own first position is 2."""
    kit = kit_for(
        "dcpcse", encoder=str(tiny_roberta), prompt_length=LENGTH, mlm=True, position_shift=shift
    )
    method = build(kit)
    (table,) = watched(method, "encoder.model.embeddings.position_embeddings")
    first_losses(kit, method)
    first = 2 + LENGTH if shift else 2
    assert [int(given[0][0][0]) for given, _ in table.given] == [first, first]
