"""DCPCSE and SCPCSE against dcpcse.md.

The reference for deep prompts is the route by cached keys of transformers (dcpcse.md,
section 1.4).
"""

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoModel, AutoModelForMaskedLM, BertConfig, BertModel, DynamicCache

from harness.data.batching import TextBatch
from harness.encoders.families import EncoderFamily
from harness.modules.heads import TanhHead
from harness.modules.prompts import DeepPrompts
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.training.parameters import count, trainable
from tests.families import FAMILIES
from tests.methods.references import KitFor, first_batch

Watch = Callable[[nn.Module], Any]  # tests.conftest.Calls
LENGTH, WIDTH = 5, 32
TEMPLATE = "the old {s} sees [MASK]"


def build(kit: Kit) -> Any:
    """The method with a head and prompts so large that a mistake in them shows."""
    torch.manual_seed(0)
    method = kit.build()
    for parameter in (*method.prompts.parameters(), *method.head.parameters()):
        nn.init.normal_(parameter, std=0.5)
    trainable(method, method.stages(kit.config)[0])
    return method.train()


def losses(kit: Kit, method: Any, batch: TextBatch | None = None) -> dict[str, torch.Tensor]:
    texts = first_batch(kit, method) if batch is None else batch
    found: dict[str, torch.Tensor] = method.losses(
        {"contrastive": texts}, method.stages(kit.config)[0]
    )
    return found


def rows(batch: TextBatch) -> list[torch.Tensor]:
    """The ids of each row without its padding."""
    return [
        ids[:length]
        for ids, length in zip(batch.input_ids, batch.attention_mask.sum(dim=1), strict=True)
    ]


def plain_model(kit: Kit, kind: Any = AutoModel) -> Any:
    return kind.from_pretrained(kit.config.encoder, attn_implementation="eager").double().eval()


def deep_states(kit: Kit, method: Any, ids: torch.Tensor, model: Any = None) -> np.ndarray:
    """All last states of one row, (length, H), by transformers with the prompts as cached keys.

    Slot 2j of a prompt position is the key of layer j, slot 2j + 1 its value. The length of the
    cache shifts the positions.
    """
    model = model or plain_model(kit)
    table = (
        method.prompts.table.detach().double().reshape(LENGTH, 2, 2, 4, WIDTH // 4)
    )  # prompts, layer, slot, heads
    cache = DynamicCache()
    for layer in range(2):
        key, value = (table[:, layer, slot].permute(1, 0, 2)[None] for slot in range(2))
        cache.update(key, value, layer)
    mask = torch.ones(1, LENGTH + len(ids), dtype=torch.long)
    states = model(
        input_ids=ids[None], attention_mask=mask, past_key_values=cache
    ).last_hidden_state
    return np.asarray(states[0].detach())


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


def headed(method: Any, vectors: np.ndarray) -> np.ndarray:
    weight, bias = (
        part.detach().double().numpy()
        for part in (method.head.linear.weight, method.head.linear.bias)
    )
    return np.tanh(vectors @ weight.T + bias)


def closed_form(
    views: list[np.ndarray], temperature: float, hard_negative_weight: float = 0
) -> float:
    anchors, candidates = views[0], np.concatenate(views[1:])
    total = 0.0
    for row, anchor in enumerate(anchors):
        logits = [
            float(anchor @ other) / np.linalg.norm(anchor) / np.linalg.norm(other) / temperature
            for other in candidates
        ]
        if len(views) == 3:
            logits[len(anchors) + row] += hard_negative_weight
        total += math.log(sum(math.exp(logit) for logit in logits)) - logits[row]
    return float(total / len(anchors))


# Prompts, head and losses against the reference


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize("setting", ["unsup", "sup"])
def test_contrastive_loss(
    kit_for: KitFor, still: Callable[[str], str], family: str, setting: str
) -> None:
    kit = kit_for(
        "dcpcse", setting=setting, encoder=still(family), prompt_length=LENGTH, temperature=0.3
    )
    method = build(kit)
    batch = first_batch(kit, method)
    vectors = headed(method, np.array([deep_states(kit, method, ids)[0] for ids in rows(batch)]))
    views = [vectors, vectors] if setting == "unsup" else [vectors[view::3] for view in range(3)]
    found = losses(kit, method, batch)
    assert set(found) == {"contrastive"}
    assert found["contrastive"].item() == pytest.approx(closed_form(views, 0.3), rel=1e-4)


@FAMILIES
@pytest.mark.slow
def test_hard_negative_weight_is_on_the_own_contradiction(
    kit_for: KitFor, still: Callable[[str], str]
) -> None:
    given = {
        "setting": "sup",
        "encoder": still("tiny_encoder"),
        "prompt_length": LENGTH,
        "temperature": 0.3,
    }
    kit = kit_for("dcpcse", **given, hard_negative_weight=2.0)
    method = build(kit)
    batch = first_batch(kit, method)
    vectors = headed(method, np.array([deep_states(kit, method, ids)[0] for ids in rows(batch)]))
    expected = closed_form([vectors[view::3] for view in range(3)], 0.3, hard_negative_weight=2.0)
    assert losses(kit, method, batch)["contrastive"].item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize("setting", ["unsup", "sup"])
def test_test_time_head_is_dropped_without_and_kept_with_labels(
    kit_for: KitFor, request: pytest.FixtureRequest, family: str, setting: str
) -> None:
    """At test time there is no dropout, which the model has.

    Positions start at the prompt length (RoBERTa: plus 2).
    """
    kit = kit_for(
        "dcpcse",
        setting=setting,
        encoder=str(request.getfixturevalue(family)),
        prompt_length=LENGTH,
    )
    method = build(kit).eval()
    batch = first_batch(kit, method)
    expected = np.array([deep_states(kit, method, ids)[0] for ids in rows(batch)])
    if setting == "sup":
        expected = headed(method, expected)
    for embed in (method.embed, method.embed_dev):
        assert np.abs(embed(batch).detach().numpy() - expected).max() < 1e-4


@FAMILIES
def test_masked_language_loss(
    kit_for: KitFor, still: Callable[[str], str], family: str, watch: Watch
) -> None:
    """It is a second pass with the same prompts on masked rows, with the checkpoint's own head."""
    kit = kit_for(
        "dcpcse", encoder=still(family), prompt_length=LENGTH, mlm=True, masking_ratio=0.4
    )
    method = build(kit)
    masker, batch = watch(method.masker), first_batch(kit, method)
    found = losses(kit, method, batch)["masked_language"].item()
    (masked,) = masker.results
    whole = plain_model(kit, AutoModelForMaskedLM)
    encoder, head = (
        (whole.bert, whole.cls) if family == "tiny_encoder" else (whole.roberta, whole.lm_head)
    )
    terms = []
    for row, original in enumerate(rows(batch.repeated(2))):
        states = torch.from_numpy(
            deep_states(kit, method, masked.input_ids[row, : len(original)], encoder)
        )
        logits = head(states).detach().numpy()
        for place in np.flatnonzero(masked.chosen[row]):
            terms.append(math.log(np.exp(logits[place]).sum()) - logits[place, original[place]])
    assert found == pytest.approx(float(np.mean(terms)), rel=1e-4)


@FAMILIES
def test_shallow_prompts(kit_for: KitFor, still: Callable[[str], str], family: str) -> None:
    """[CLS], [MASK] and [SEP] keep their embeddings, and positions start where they always do.

    The state at the mask is the sentence vector.
    """
    kit = kit_for(
        "dcpcse", encoder=still(family), prompts="shallow", template=TEMPLATE, temperature=0.3
    )
    method = build(kit)
    batch = first_batch(kit, method)
    assert {tuple(ids[[0, -2, -1]].tolist()) for ids in rows(batch)} == {
        (
            method.tokenizer.cls_token_id,
            method.tokenizer.mask_token_id,
            method.tokenizer.sep_token_id,
        )
    }
    states = np.array([shallow_states(kit, method, ids, len(ids) - 6)[-2] for ids in rows(batch)])
    vectors = headed(method, states)
    assert losses(kit, method, batch)["contrastive"].item() == pytest.approx(
        closed_form([vectors] * 2, 0.3), rel=1e-4
    )
    assert np.abs(method.eval().embed(batch).detach().numpy() - states).max() < 1e-4, (
        "no head at test time"
    )


# What trains


@FAMILIES
def test_masked_language_loss_touches_no_sentence_vector(kit_for: KitFor) -> None:
    """It trains prompts and vocabulary head, and not the tanh head.

    The contrastive loss does not train the vocabulary head.
    """
    kit = kit_for("dcpcse", prompt_length=LENGTH, mlm=True)
    method = build(kit)
    found = losses(kit, method)
    found["masked_language"].backward(retain_graph=True)
    assert all(value.grad is None for value in method.head.parameters())
    assert all(value.grad.abs().max() > 0 for value in method.vocabulary.parameters())
    assert (method.prompts.table.grad != 0).all(), "every slot of every position"
    method.zero_grad()
    found["contrastive"].backward()
    assert all(value.grad is None for value in method.vocabulary.parameters())
    assert all(value.grad is None for value in method.encoder.parameters())


@pytest.mark.parametrize(
    ("layers", "width", "heads", "length", "prompts", "total"),
    [
        (12, 768, 12, 16, 294_912, 885_504),
        (24, 1024, 16, 10, 491_520, 1_541_120),
        (12, 768, 12, 14, 258_048, 848_640),
        (12, 768, 12, 12, 221_184, 811_776),
        (24, 1024, 16, 12, 589_824, 1_639_424),
        (12, 768, 12, 10, 184_320, 774_912),
    ],
)
def test_trainable_parameters(
    layers: int, width: int, heads: int, length: int, prompts: int, total: int
) -> None:
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    with torch.device("meta"):
        model = BertModel(BertConfig(**sizes))
        encoder: Any = SimpleNamespace(model=model, family=EncoderFamily("NAME", model))
        found = DeepPrompts(encoder, length).table.numel()
        assert (found, found + count(TanhHead(width), trained=False)) == (prompts, total)


def test_trainable_parameters_with_and_without_the_vocabulary_head(kit_for: KitFor) -> None:
    """The decoder of the head is a matrix of its own, not the frozen embeddings."""
    prompts, head = LENGTH * 2 * 2 * WIDTH, WIDTH * WIDTH + WIDTH
    for values, vocabulary in (
        ({}, False),
        ({"mlm": True}, True),
        ({"mlm": True, "freeze_lm_head": True}, False),
    ):
        method = build(kit_for("dcpcse", prompt_length=LENGTH, **values))
        words = method.encoder.model.get_input_embeddings().weight
        pieces = words.shape[0]
        extra = head + 2 * WIDTH + pieces * WIDTH + pieces
        assert count(method, trained=True) == prompts + head + extra * vocabulary
        if vocabulary:
            assert torch.equal(method.vocabulary.decoder.weight, words)
            assert method.vocabulary.decoder.weight.data_ptr() != words.data_ptr()


def test_shallow_prompts_of_the_paper_are_six_vectors(kit_for: KitFor, hub: Path) -> None:
    """`this`, `sentence`, `:` and `"` stand before the sentence, `"` and `means` after it.

    These are 4,608 numbers for BERT base.
    """
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


# Traps


@FAMILIES
def test_every_row_has_its_own_dropout_of_the_prompts(kit_for: KitFor) -> None:
    """This is trap 4."""
    method = build(kit_for("dcpcse", prompt_length=LENGTH))
    drawn = method.prompts(400)
    for keys in (*drawn.keys, *drawn.values):
        dropped = keys == 0
        assert abs(dropped.double().mean().item() - 0.1) < 0.01
        assert not torch.equal(dropped[0], dropped[1])
    key = method.prompts.eval()(2).keys[0]
    assert torch.equal(key[0], key[1])


@FAMILIES
def test_the_masked_pass_has_the_prompts_and_positions_of_the_first(
    kit_for: KitFor, watch: Watch
) -> None:
    """They are drawn once, dropout included. The next batch draws anew (trap 7)."""
    kit = kit_for("dcpcse", prompt_length=LENGTH, mlm=True)
    method = build(kit)
    encoder, masker = watch(method.encoder), watch(method.masker)
    for _ in range(2):
        losses(kit, method)
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


@pytest.mark.parametrize(("prompts", "around"), [("deep", 2), ("shallow", 6)])
def test_a_training_text_has_max_length_pieces_without_a_template(
    kit_for: KitFor, prompts: str, around: int
) -> None:
    kit = kit_for("dcpcse", prompts=prompts, template=TEMPLATE, prompt_length=LENGTH, max_length=9)
    method = build(kit)
    longest = max(len(ids) for ids in rows(first_batch(kit, method, size=40)))
    assert longest == 9 - 2 + around


@pytest.mark.parametrize("shift", [True, False])
def test_the_text_starts_behind_the_prompts_unless_told_otherwise(
    kit_for: KitFor, tiny_roberta: Path, shift: bool, watch: Watch
) -> None:
    """RoBERTa's own first position is 2."""
    kit = kit_for(
        "dcpcse", encoder=str(tiny_roberta), prompt_length=LENGTH, mlm=True, position_shift=shift
    )
    method = build(kit)
    table = watch(method.encoder.model.embeddings.position_embeddings)
    losses(kit, method)
    first = 2 + LENGTH if shift else 2
    assert [int(given[0][0][0]) for given, _ in table.given] == [first, first]


# What is declared
