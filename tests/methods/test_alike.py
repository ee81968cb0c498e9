"""Promises of several methods alike: what trains, bf16, test vectors, test texts and lengths."""

from pathlib import Path
from typing import Any

import pytest
import torch

from harness.data.batching import TextBatch
from harness.plugin import registry
from harness.training.loop import Trainer
from tests.families import FAMILIES
from tests.methods.references import KitFor, build, first_batch, moved, watched

TEMPLATE = "the {s} a [MASK] ."
SUP, SEMISUP = {"setting": "sup"}, {"setting": "semisup", "auxiliary_batch_size": 5}
TRAINED: list[tuple[str, dict[str, Any], str, str]] = [
    *(("simcse", {**setting, "head": head, "masked_language_weight": 0.1}, parts, "")
      for head in ("tanh", "batchnorm")
      for setting, parts in (({}, "encoder head vocabulary"), (SUP, "encoder head vocabulary"),
                             (SEMISUP, "encoder head vocabulary classifier"))),
    ("simcse", {**SEMISUP, "auxiliary_weight": 0}, "encoder head", "classifier"),
    *(("diffcse", setting, "encoder discriminator head detector", "editor")
      for setting in ({}, SUP)),
    *(("diffcse", values, "encoder discriminator head detector", "editor")
      for values in ({"objective": "corrective"}, {"contrastive": False})),
    ("diffcse", {"objective": "masked-language"}, "encoder discriminator head detector", ""),
    *(("d2cse", {**setting, "cls_prompt": True}, "prompts.table head detector cls_vector",
       "encoder editor") for setting in ({}, SUP)),
    *(("d2cse", {"discriminator": each}, "prompts.table head detector", "encoder editor")
      for each in ("shared", "plain", "unconditional")),
    ("d2cse", {"discriminator": "copy", "discriminator_learning_rate": 1e-2},
     "prompts.table head detector discriminator", "encoder editor"),
    *(("dcpcse", setting, "prompts.table head", "encoder") for setting in ({}, SUP)),
    ("dcpcse", {"mlm": True}, "prompts.table head vocabulary", "encoder"),
    ("dcpcse", {"mlm": True, "freeze_lm_head": True}, "prompts.table head", "encoder vocabulary"),
    ("dcpcse", {"prompts": "shallow"}, "prompts.vectors head", "encoder"),
    ("promptbert", {}, "encoder head", ""),
    ("promptbert", SEMISUP, "encoder head classifier", ""),
    ("promptbert", SUP, "encoder head", ""),
    ("consert", {}, "encoder", ""),
    *(("consert", setting, "encoder classifier", "") for setting in (SEMISUP, SUP)),
    ("esimcse", {}, "encoder head momentum", ""),  # the copy follows without gradients
    ("sbert", {}, "encoder classifier", ""),
    ("clsr", {"learning_rate": 0.5}, "mlp head", "encoder"),
]  # fmt: skip


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize(("name", "values", "trained", "frozen"), TRAINED)
def test_three_updates_change_the_trained_and_nothing_else(
    kit_for: KitFor, pairs: Path, triplets: Path, name: str, values: Any, trained: str, frozen: str
) -> None:
    """There is no pretrained pooler, and of PromptBERT's masked-LM head only the transform."""
    fields = registry.load(name).config_type.model_fields
    if "pairs" in fields:
        values = {"pairs": str(triplets if name == "clsr" else pairs), **values}
    kit = kit_for(name, **{"max_steps": 3, "learning_rate": 1e-2, "warmup_ratio": 0, **values})
    method = build(kit)
    names = {name for name, _ in method.named_parameters()}
    # It cancels out in PromptBERT's g(h) - g(delta), and may move by rounding.
    names -= {"head.LayerNorm.bias"}
    changed = moved(kit, method) - {"head.LayerNorm.bias"}
    assert changed == {name for name in names if name.startswith(tuple(trained.split()))}
    parts = {part.split(".")[0] for part in f"{trained} {frozen}".split()}
    assert {name.split(".")[0] for name in names} == parts
    assert not [name for name in names if "pooler" in name]
    assert name != "promptbert" or not [name for name in names if "decoder" in name]


ROUNDED: list[tuple[str, dict[str, Any]]] = [
    ("diffcse", {}),
    ("diffcse", {"objective": "masked-language"}),
    ("diffcse", {"objective": "corrective"}),
    ("diffcse", {"edit": "all"}),
    ("diffcse", {"objective": "positives", "edit": "insert"}),
    ("diffcse", SUP),
    ("d2cse", {"cls_prompt": True}),
    ("d2cse", {"cls_prompt": True, "discriminator": "copy"}),
    ("dcpcse", {"mlm": True}),
    ("dcpcse", {"prompts": "shallow"}),
    *(("promptbert", {"setting": setting}) for setting in ("unsup", "semisup", "sup")),
    *(("diffaug", {"setting": setting, "stage1_steps": 2, "accumulation": 1, "prompt_length": 2})
      for setting in ("semisup", "sup")),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "values"), ROUNDED)
def test_roberta_in_bf16(
    kit_for: KitFor, tiny_roberta: Path, name: str, values: dict[str, Any]
) -> None:
    kit = kit_for(name, encoder=str(tiny_roberta), precision="bf16", max_steps=2, **values)
    method = build(kit)
    outcome = Trainer(method, kit, 0, lambda: 1.0, lambda _: None).run()
    assert outcome.steps == kit.declared.steps
    assert all(value.isfinite().all() for value in method.parameters())


@FAMILIES
@pytest.mark.parametrize(
    ("name", "values", "unused"),
    [
        ("simcse", {}, "head"),
        ("simcse", {"head": "batchnorm"}, "head"),
        ("simcse", SEMISUP, "head"),
        ("diffcse", {}, "head editor.generator discriminator"),
        ("diffcse", SUP, "head editor.generator discriminator"),
        ("esimcse", {}, "head momentum.encoder"),
    ],
)
def test_the_test_vector_is_the_cls_state_alone(
    kit_for: KitFor, name: str, values: dict[str, Any], unused: str
) -> None:
    """Heads and other models are dropped; dev has the same vectors."""
    kit = kit_for(name, **values)
    method = build(kit).eval()
    others = watched(method, unused)
    batch = first_batch(kit, method)
    states = method.encoder.model(
        input_ids=batch.input_ids, attention_mask=batch.attention_mask
    ).last_hidden_state
    assert torch.allclose(method.embed(batch), states[:, 0], atol=1e-6)
    assert torch.equal(method.embed_dev(batch), method.embed(batch))
    assert all(calls.results == [] for calls in others)


TEXTS: dict[str, list[tuple[str, str]]] = {
    "promptbert": [
        ("a man plays", "a man plays."), ("a man plays.", "a man plays."),
        ("does he play?", "does he play?"), ('he said "play"', 'he said "play"'),
        ("the players'", "the players'"), ("he plays!", "he plays!."), ("he plays,", "he plays,."),
        ("", ""),
    ],
    "cotbert": [("a cat", "a cat."), ("a cat.", "a cat."), ("", ""), ("why!", "why!.")],
    "sncse": [("a cat", "a cat ."), ("a cat. ", "a cat."), ("", ""), ("why?", "why?")],
    "prompteol": [
        ("", ""), ("a cat", "a cat."), ("a cat.", "a cat."), ("a cat?", "a cat."),
        ('the "cat"', "the 'cat'"), ('the "cat" sat', "the 'cat' sat."), ("a cat!", "a cat!."),
    ],
}  # fmt: skip
"""Method -> texts of the final test, and what it reads"""


@pytest.mark.parametrize("name", TEXTS)
def test_texts_of_the_final_test_end_with_a_stop(kit_for: KitFor, name: str) -> None:
    tidied = kit_for(name).build().test_text
    assert [(text, tidied(text)) for text, _ in TEXTS[name]] == TEXTS[name]
    switch = {"promptbert": "final_stop", "prompteol": "tidied"}.get(name)
    if switch:
        plain = kit_for(name, **{switch: False}).build().test_text
        assert [plain(text) for text, _ in TEXTS[name]] == [text for text, _ in TEXTS[name]]


@FAMILIES
@pytest.mark.parametrize(
    ("name", "values", "longest"),
    [
        ("d2cse", {"prompt_length": 5}, 40 - 5),
        ("d2cse", {"prompt_length": 5, "position_shift": False}, 40),
        ("dcpcse", {"prompt_length": 5}, 40 - 5),
        ("dcpcse", {"prompt_length": 5, "position_shift": False}, 40),
        ("dcpcse", {"prompts": "shallow"}, 40),
        ("promptbert", {"test_denoise": True}, 40),
    ],
)
def test_the_longest_text_leaves_room_for_the_shift(
    kit_for: KitFor, name: str, values: dict[str, Any], longest: int
) -> None:
    method = build(kit_for(name, template="the old {s} sees [MASK]", **values)
                   if name != "d2cse" else kit_for(name, **values)).eval()  # fmt: skip
    assert method.longest == longest
    ids = torch.full((1, longest), 7)
    ids[0, -2] = method.tokenizer.mask_token_id
    assert method.embed(TextBatch(ids, torch.ones_like(ids), torch.arange(1))).shape == (1, 32)


@FAMILIES
@pytest.mark.parametrize("name", ["d2cse", "dcpcse"])
def test_dropout_of_the_frozen_encoder_makes_the_views(kit_for: KitFor, name: str) -> None:
    """In evaluation mode the two views would be equal."""
    kit = kit_for(name, prompt_length=5, max_steps=1)
    method = build(kit).eval()
    (encoder,) = watched(method, "encoder")
    Trainer(method, kit, 0, lambda: 1.0, lambda _: None).run()
    ids, states = encoder.given[0][0][0].input_ids, encoder.results[0][:, 0]
    assert torch.equal(ids[0::2], ids[1::2])
    assert ((states[0::2] - states[1::2]).abs().amax(dim=1) > 1e-3).all()
    assert method.encoder.training
    if name == "d2cse":
        assert method.editor.generator.training, "as in the released code"


@pytest.mark.parametrize(
    ("name", "values", "around"),
    [
        ("simcse", {}, 2 - 2),
        ("dcpcse", {}, 2 - 2),
        ("dcpcse", {"prompts": "shallow", "template": "the old {s} sees [MASK]"}, 6 - 2),
        ("promptbert", {"template": TEMPLATE}, 6),
        ("diffaug", {"template": TEMPLATE, "prompt_length": 2}, 6),
    ],
)
def test_max_length_counts_pieces_without_a_template(
    kit_for: KitFor, name: str, values: dict[str, Any], around: int
) -> None:
    """A template of [CLS] and [SEP] alone counts as two pieces, too."""
    kit = kit_for(name, max_length=9, **values)
    batch = first_batch(kit, build(kit), size=40)
    assert batch.attention_mask.sum(dim=1).max() == 9 + around
