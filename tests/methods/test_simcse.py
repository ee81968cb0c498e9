"""SimCSE against simcse.md and semisupervised.md (the schedules: test_schedules.py)."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

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
    alone,
    array,
    first_batch,
    first_batches,
    first_losses,
    headed,
    info_nce,
    losses,
    watched,
)

build = partial(references.build, enlarged="head", std=0.3)


def contrastive(kit: Kit, method: Any, batch: TextBatch) -> float:
    found = losses(kit, method, batch)
    assert set(found) == {"contrastive"}
    return found["contrastive"].item()


def head_outputs(method: Any, batch: TextBatch) -> np.ndarray:
    """tanh(W h + b) of the last [CLS] state in float64, by plain calls of transformers."""
    states = [method.encoder.model(ids[None]).last_hidden_state[0, 0] for ids in alone(batch)]
    return headed(method, array(torch.stack(states)))


@FAMILIES
@pytest.mark.usefixtures("equal_views")
def test_without_dropout_the_views_are_one(kit_for: KitFor, without_dropout: str) -> None:
    kit = kit_for("simcse", encoder=without_dropout, temperature=0.1)
    method = build(kit)
    batch = first_batch(kit, method)
    vectors = head_outputs(method, batch)
    assert contrastive(kit, method, batch) == pytest.approx(
        info_nce(vectors, vectors, 0.1), rel=1e-4
    )


@FAMILIES
def test_dropout_makes_the_second_view(kit_for: KitFor) -> None:
    kit = kit_for("simcse")
    method = build(kit)
    batch = first_batch(kit, method)
    encoder, head = watched(method, "encoder head")
    contrastive(kit, method, batch)
    ids, (vectors,) = encoder.given[0][0][0].input_ids, head.results
    assert torch.equal(ids[0::2], batch.input_ids)
    assert torch.equal(ids[1::2], batch.input_ids)
    assert ((vectors[0::2] - vectors[1::2]).abs().amax(dim=1) > 1e-3).all()


@FAMILIES
@pytest.mark.parametrize("weight", [0, 1.5])
def test_supervised_candidates_are_entailments_and_contradictions(
    kit_for: KitFor, without_dropout: str, weight: float
) -> None:
    """The hard-negative weight is on the own contradiction only."""
    given = {"temperature": 0.5, "hard_negative_weight": weight}
    kit = kit_for("simcse", setting="sup", encoder=without_dropout, **given)
    method = build(kit)
    batch = first_batch(kit, method)
    assert batch.views == 3
    vectors = head_outputs(method, batch)
    candidates = [*vectors[1::3], *vectors[2::3]]
    expected = info_nce(vectors[0::3], candidates, 0.5, weight)
    assert contrastive(kit, method, batch) == pytest.approx(expected, rel=1e-4)


def test_masked_language_modelling_is_off_by_default(kit_for: KitFor) -> None:
    kit = kit_for("simcse")
    method = build(kit)
    (encoder,) = watched(method, "encoder")
    assert set(first_losses(kit, method)) == {"contrastive"}
    assert len(encoder.results) == 1
    assert not hasattr(method, "vocabulary")


@FAMILIES
def test_supervised_test_vectors_have_the_head(kit_for: KitFor) -> None:
    kit = kit_for("simcse", setting="sup")
    method = build(kit).eval()
    batch = first_batch(kit, method)
    expected = head_outputs(method, batch)
    assert np.abs(method.embed(batch).detach().numpy() - expected).max() < 1e-5


# Triplets, masks, synonyms and labels beside the contrastive loss


@FAMILIES
@pytest.mark.parametrize(("setting", "copies"), [("unsup", 2), ("sup", 1), ("semisup", 2)])
def test_masks_are_on_a_copy_and_the_contrastive_pass_sees_whole_sentences(
    kit_for: KitFor, setting: str, copies: int
) -> None:
    """In the code before 2021-11-23 the contrastive pass saw masked tokens."""
    kit = kit_for("simcse", setting=setting, masked_language_weight=0.1, masking_ratio=0.5)
    method = build(kit)
    (encoder,) = watched(method, "encoder")
    batches = first_batches(kit, method)
    method.losses(batches, method.stages(kit.config)[0])
    whole, masked = (call[0][0] for call in encoder.given[:2])
    expected = batches["contrastive"].input_ids.repeat_interleave(copies, dim=0)
    assert torch.equal(whole.input_ids, expected), "unmasked, also after the masks were drawn"
    assert torch.equal(masked.attention_mask, whole.attention_mask)
    assert masked.input_ids.shape == whole.input_ids.shape, "2N (3N) rows"
    special = torch.isin(whole.input_ids, torch.arange(5))
    assert torch.equal(masked.input_ids[special], whole.input_ids[special])
    changed = (masked.input_ids != whole.input_ids)[~special].double().mean().item()
    assert 0.25 < changed < 0.65  # 0.5 * 0.9, of about 100 tokens


@FAMILIES
def test_masked_language_loss_against_the_formula(kit_for: KitFor) -> None:
    """The mean over the chosen positions of the cross entropy over the vocabulary."""
    kit = kit_for("simcse", masked_language_weight=0.1, masking_ratio=0.5)
    method = build(kit)
    encoder, masker = watched(method, "encoder masker")
    losses = first_losses(kit, method)
    chosen, originals = masker.results[0].chosen, encoder.given[0][0][0].input_ids
    head, total = method.vocabulary.double(), 0.0
    for row, position in chosen.nonzero().tolist():
        logits = head(encoder.results[1][row, position].double()).detach().numpy()
        total += math.log(np.exp(logits).sum()) - float(logits[originals[row, position]])
    assert chosen.any()
    assert losses["masked_language"].item() == pytest.approx(total / int(chosen.sum()), rel=1e-6)


@FAMILIES
def test_masked_language_head_is_the_checkpoints_and_untied(kit_for: KitFor) -> None:
    kit = kit_for("simcse", masked_language_weight=0.1, max_steps=2)
    method = build(kit)
    reference = AutoModelForMaskedLM.from_pretrained(kit.config.encoder, dtype=torch.float32)
    batch = first_batch(kit, method)
    states = method.encoder.eval()(batch)
    expected = reference.eval()(
        input_ids=batch.input_ids, attention_mask=batch.attention_mask
    ).logits
    real = batch.attention_mask.bool()
    assert (method.vocabulary(states) - expected)[real].abs().max() < 1e-4
    words, decoder = (
        method.encoder.model.get_input_embeddings().weight,
        method.vocabulary.decoder.weight,
    )
    assert torch.equal(words, decoder)
    assert words.data_ptr() != decoder.data_ptr()
    Trainer(method, kit, 0, lambda: 1.0, lambda _: None).run()
    assert not torch.equal(words, decoder), "each learns on its own"


@pytest.fixture
def thesaurus(tmp_path: Path, tiny_encoder: Path) -> Path:
    """Every word of the small corpora has one synonym: the next word of the vocabulary."""
    numbers = AutoTokenizer.from_pretrained(tiny_encoder).get_vocab()
    words = sorted(numbers, key=numbers.__getitem__)[5:]
    path = tmp_path / "thesaurus.txt"
    path.write_text(
        "".join(
            f"{one},{other}\n" for one, other in zip(words, [*words[1:], words[0]], strict=True)
        )
    )
    return path


@pytest.mark.parametrize("setting", ["unsup", "semisup"])
def test_one_word_of_view_2_is_a_synonym_and_the_same_in_every_epoch(
    kit_for: KitFor, thesaurus: Path, setting: str
) -> None:
    kit = kit_for("simcse", setting=setting, synonyms=str(thesaurus))
    method = build(kit)
    (encoder,) = watched(method, "encoder")
    batches = first_batches(kit, method)
    for epoch in range(2):
        contrastive_batch = replace(batches["contrastive"], epoch=epoch)
        method.losses({**batches, "contrastive": contrastive_batch}, method.stages(kit.config)[0])
    first, second = (encoder.given[index][0][0] for index in (0, len(encoder.given) // 2))
    assert torch.equal(first.input_ids, second.input_ids)
    assert torch.equal(first.input_ids[0::2], batches["contrastive"].input_ids)
    differ = first.input_ids[0::2] != first.input_ids[1::2]
    assert (differ.sum(dim=1) == 1).all()
    one, other = first.input_ids[0::2][differ], first.input_ids[1::2][differ]
    assert torch.equal((one - 5 + 1) % (len(kit.tokenizer) - 5), other - 5)


@FAMILIES
def test_masks_and_synonyms_together_work_on_the_same_rows(
    kit_for: KitFor, thesaurus: Path
) -> None:
    kit = kit_for("simcse", synonyms=str(thesaurus), masked_language_weight=0.1, masking_ratio=0.0)
    method = build(kit)
    (encoder,) = watched(method, "encoder")
    first_losses(kit, method)
    whole, masked = (call[0][0] for call in encoder.given)
    assert torch.equal(whole.input_ids, masked.input_ids)


def test_the_thesaurus_counts_among_what_a_result_depends_on(thesaurus: Path) -> None:
    plugin = registry.load("simcse")
    assert plugin.method.files(resolve(plugin, {"synonyms": str(thesaurus)})) == [thesaurus]
    assert plugin.method.files(resolve(plugin, {})) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [({"synonyms": "/none.txt"}, "does not point to a file"), ({"setting": "sup"}, "sup setting")],
)
def test_synonyms_that_cannot_be_used_are_refused(
    thesaurus: Path, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        resolve(registry.load("simcse"), {"synonyms": str(thesaurus), **values})


@pytest.mark.slow
@pytest.mark.usefixtures("equal_views")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@FAMILIES
def test_checkpointed_gradients_are_the_same(kit_for: KitFor, precision: str) -> None:
    """There is no dropout here, because the last layer draws fewer masks without checkpointing."""
    gradients = []
    for checkpointing in (False, True):
        given = {"gradient_checkpointing": checkpointing, "masked_language_weight": 0.1}
        kit = kit_for("simcse", setting="semisup", **given)
        method = build(kit)
        for module in method.encoder.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        torch.manual_seed(5)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            found = first_losses(kit, method)
        assert all(value.dtype == torch.float32 for value in found.values())
        torch.stack(list(found.values())).sum().backward()
        gradients.append({name: value.grad for name, value in method.named_parameters()})
    largest = max(float(value.abs().max()) for value in gradients[0].values())
    tolerance = (
        1e-5 if precision == "fp32" else 2e-2
    )  # in bf16 one position and all of them round differently
    for name, value in gradients[0].items():
        assert (value - gradients[1][name]).abs().max() < tolerance * largest, name
