"""Corruptions made before training: one edit per text and view, for all trials.

The rules are those of the corruptions that are made during training.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from harness.data.batching import Stream, StreamOptions, TextBatch
from harness.data.tokens import Template
from harness.plugin.kit import Kit
from harness.plugin.sentence_editor import StaticCorruption
from harness.plugin.static_corruption import corruption_artefacts
from harness.training.loop import Trainer
from harness.views.edits import Editor
from tests.families import FAMILIES
from tests.methods.references import build, first_losses, watched

KitFor = Callable[..., Kit]
VIEWS = {"unsup": 2, "sup": 3}


def epoch(kit: Kit) -> list[TextBatch]:
    """All items, in batches of 7 and with the views that the method makes."""
    (corpus,) = kit.declared.corpora.values()
    template = Template.plain(kit.tokenizer)
    stream = Stream(
        kit.tokens(corpus),
        template,
        StreamOptions(limit=kit.config.max_length - len(template), batch_size=7, seed=0),
    )
    feed = iter(stream)
    found = [next(feed) for _ in range(len(stream))]
    return [batch.repeated(2) if kit.config.setting == "unsup" else batch for batch in found]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["d2cse", "diffcse"])
@pytest.mark.parametrize("setting", ["unsup", "sup"])
@FAMILIES
def test_rules(kit_for: KitFor, method: str, setting: str) -> None:
    kit = kit_for(method, setting=setting, static_corruption=True, max_length=12)
    corruption = StaticCorruption(kit)
    changed = 0
    for batch in epoch(kit):
        edited = corruption(batch)
        assert batch.views == VIEWS[setting]
        assert torch.equal(edited.batch.attention_mask, batch.attention_mask)
        real = batch.attention_mask.bool()
        assert torch.equal(edited.batch.input_ids[:, 0], batch.input_ids[:, 0])
        assert not edited.batch.input_ids[~real].any()
        assert torch.equal(edited.labels.bool(), (edited.batch.input_ids != batch.input_ids) & real)
        changed += int(edited.labels.sum())
    assert changed > 20


def test_what_is_stored_is_what_the_generator_wrote(kit_for: KitFor) -> None:
    """Rows are compared one by one with the calls of the editor that made them."""
    made: dict[tuple[int, ...], list[list[int]]] = {}

    def remember(module: nn.Module, inputs: tuple[TextBatch], edited: Any) -> None:
        if isinstance(module, Editor):
            assert module.generator.model.training
            [batch] = inputs
            for row, length in enumerate(batch.attention_mask.sum(dim=1).tolist()):
                original = tuple(batch.input_ids[row, :length].tolist())
                made.setdefault(original, []).append(edited.batch.input_ids[row, :length].tolist())

    kit = kit_for("d2cse", static_corruption=True, masking_ratio=0.41)
    with register_module_forward_hook(remember):
        corruption = StaticCorruption(kit)
    for batch in epoch(kit):
        edited = corruption(batch)
        for row, length in enumerate(batch.attention_mask.sum(dim=1).tolist()):
            original = tuple(batch.input_ids[row, :length].tolist())
            view = row % 2
            assert edited.batch.input_ids[row, :length].tolist() == made[original][view]
    assert any(one != two for one, two in made.values()), "each view has its own edit"


def test_the_same_edit_in_every_epoch_and_order(kit_for: KitFor) -> None:
    kit = kit_for("d2cse", static_corruption=True)
    corruption = StaticCorruption(kit)
    batch = epoch(kit)[0]
    first, again = corruption(batch), corruption(batch)
    assert torch.equal(first.batch.input_ids, again.batch.input_ids)
    flipped = batch.replaced(
        batch.input_ids.unflatten(0, (-1, 2)).flip(0).flatten(0, 1),
        batch.attention_mask.unflatten(0, (-1, 2)).flip(0).flatten(0, 1),
    )
    flipped = TextBatch(flipped.input_ids, flipped.attention_mask, batch.items.flip(0), 2)
    expected = first.batch.input_ids.unflatten(0, (-1, 2)).flip(0).flatten(0, 1)
    assert torch.equal(corruption(flipped).batch.input_ids, expected)


def test_made_once_and_without_touching_the_random_state(kit_for: KitFor) -> None:
    values = {"static_corruption": True, "masking_ratio": 0.27}
    torch.manual_seed(5)
    first = StaticCorruption(kit_for("d2cse", **values))
    after_building = torch.rand(3)
    torch.manual_seed(5)
    second = StaticCorruption(
        kit_for("d2cse", **values, learning_rate=0.5, temperature=0.1, prompt_length=3)
    )
    assert torch.equal(torch.rand(3), after_building), (
        "who builds them and who finds them go on alike"
    )
    assert first.arrays["ids0"].filename == second.arrays["ids0"].filename
    assert not list(first.parameters()), "trials hold no generator"
    assert corruption_artefacts(kit_for("d2cse").config) == []


@pytest.mark.parametrize(
    "change", [{"masking_ratio": 0.5}, {"max_length": 6}, {"generator_eval": True}]
)
def test_what_it_depends_on(kit_for: KitFor, change: dict[str, Any]) -> None:
    plain, other = (kit_for("d2cse", static_corruption=True, **values) for values in ({}, change))
    one, two = (StaticCorruption(kit).arrays["ids0"] for kit in (plain, other))
    assert one.shape != two.shape or not np.array_equal(one, two)


def test_the_trial_that_builds_them_does_not_matter(kit_for: KitFor) -> None:
    kit = kit_for("d2cse", static_corruption=True)
    (artefact,) = corruption_artefacts(kit.config)
    built = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        built.append(artefact.build(kit))
    assert all(np.array_equal(value, built[1][name]) for name, value in built[0].items())


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["unsup", "sup"])
@pytest.mark.parametrize(("method", "reader"), [("d2cse", "encoder"), ("diffcse", "discriminator")])
def test_a_method_trains_on_them_without_a_generator(
    kit_for: KitFor, method: str, setting: str, reader: str
) -> None:
    """The result depends on the generator all the same."""
    kit = kit_for(method, setting=setting, static_corruption=True, max_steps=3)
    built = build(kit)
    assert isinstance(built.editor, StaticCorruption)
    assert set(built.models(kit.config)) == {kit.config.encoder, kit.config.generator}
    (calls,) = watched(built, reader)
    read = []
    for _ in range(2):
        assert first_losses(kit, built)["replaced_tokens"].item() > 0
        read.append(calls.given[-1][0][0].input_ids)
    assert torch.equal(*read), "not drawn anew"
    Trainer(built, kit, 0, lambda: 1.0, lambda _: None).run()
