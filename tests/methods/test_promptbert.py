"""PromptBERT against promptbert.md, semisupervised.md, and diffaug.md, section 2.

The reference runs every row alone.
"""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from harness.evaluation.embedder import Embedder
from harness.plugin.kit import Kit
from harness.training.feeding import stage_streams
from tests.families import FAMILIES
from tests.methods import references
from tests.methods.references import (
    KitFor,
    Templates,
    array,
    first_batch,
    headed,
    info_nce,
    labelled,
    losses,
    nli_loss,
    watched,
)

TEMPLATES = {
    "template": "the old {s} sees [MASK] today",
    "second_template": "a {s} under behind the [MASK]",
}
build = partial(references.build, enlarged="head", std=0.3)


@pytest.fixture
def prompted(kit_for: KitFor) -> KitFor:
    """A kit with templates of different lengths, which the small tokenizers can tell apart."""

    def make(**values: Any) -> Kit:
        return kit_for("promptbert", **{"temperature": 0.3, **TEMPLATES, **values})

    return make


def transform(method: Any, vectors: torch.Tensor) -> torch.Tensor:
    """Dense, GELU, and LayerNorm with epsilon 1e-12, in numpy."""
    weight, bias, gain, shift = map(array, method.head.parameters())
    dense = array(vectors) @ weight.T + bias
    curved = dense * 0.5 * (1 + np.vectorize(math.erf)(dense / math.sqrt(2)))
    centred = curved - curved.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
    return torch.from_numpy(scaled * gain + shift)


@FAMILIES
@pytest.mark.parametrize("denoising", ["intended", "none", "released"])
def test_unsupervised_loss(
    prompted: KitFor, still: Callable[[str], str], family: str, denoising: str
) -> None:
    """head(h - delta), where each view has its own template with its own delta."""
    kit = prompted(encoder=still(family), denoising=denoising)
    method = build(kit)
    batch, reference = first_batch(kit, method), Templates(kit, method)
    views = []
    for template in (method.template, method.second_template):
        vectors = reference.wrapped(batch, template)
        if denoising != "none":
            first = 0 if denoising == "released" else None
            vectors = vectors - reference.bare(batch, template, first)
        views.append(reference.tanh_head(vectors))
    found = losses(kit, method, batch)
    assert set(found) == {"contrastive"}
    assert found["contrastive"].item() == pytest.approx(
        info_nce(*(view.detach() for view in views), 0.3), rel=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "head", "transforms"),
    [
        ("tiny_encoder", "paper", True),
        ("tiny_roberta", "paper", False),
        ("tiny_encoder", "tanh", False),
        ("tiny_roberta", "transform", True),
    ],
)
def test_supervised_loss(
    prompted: KitFor, still: Callable[[str], str], family: str, head: str, transforms: bool
) -> None:
    """BERT: g(h) - g(delta), g of the masked-LM head; RoBERTa: head(h - delta). One template."""
    kit = prompted(setting="sup", encoder=still(family), head=head)
    method = build(kit)
    batch, reference = first_batch(kit, method), Templates(kit, method)
    states = reference.wrapped(batch, method.template)
    alone = reference.bare(batch, method.template)
    if transforms:
        vectors = transform(method, states) - transform(method, alone)
    else:
        vectors = reference.tanh_head(states - alone)
    expected = info_nce(
        vectors[0::3].detach(), torch.cat([vectors[1::3], vectors[2::3]]).detach(), 0.3
    )
    assert losses(kit, method, batch)["contrastive"].item() == pytest.approx(expected, rel=1e-4)


@FAMILIES
def test_classification_loss(prompted: KitFor, still: Callable[[str], str], family: str) -> None:
    """The features come from after the head, without denoising, in the first template."""
    kit = prompted(setting="semisup", encoder=still(family))
    method = build(kit)
    nn.init.normal_(method.classifier.linear.weight, std=0.5)
    batch, reference = first_batch(kit, method, "labelled"), Templates(kit, method)
    vectors = headed(method, array(reference.wrapped(batch, method.template)))
    values = losses(kit, method, {"contrastive": first_batch(kit, method), "labelled": batch})
    assert set(values) == {"contrastive", "classification"}
    expected = nli_loss(method.classifier, labelled(vectors))
    assert values["classification"].item() == pytest.approx(expected, rel=1e-4)


@FAMILIES
def test_gradients_flow_through_the_template_vectors(
    prompted: KitFor, still: Callable[[str], str]
) -> None:
    kit = prompted(encoder=still("tiny_encoder"))
    method = build(kit)
    batch, reference = first_batch(kit, method), Templates(kit, method)
    views = [
        reference.tanh_head(reference.wrapped(batch, template) - reference.bare(batch, template))
        for template in (method.template, method.second_template)
    ]
    similarity = torch.nn.CosineSimilarity(dim=-1)(views[0][:, None], views[1][None]) / 0.3
    functional.cross_entropy(similarity, torch.arange(len(similarity))).backward()
    losses(kit, method, batch)["contrastive"].backward()
    expected = dict(reference.model.named_parameters())
    for name in (
        "embeddings.position_embeddings.weight",
        "encoder.layer.0.attention.self.value.weight",
    ):
        found = method.encoder.model.get_parameter(name).grad.double()
        assert torch.allclose(found, expected[name].grad, rtol=1e-3, atol=1e-6), name


@FAMILIES
def test_rows_of_one_length_share_a_template_vector_with_its_dropout(prompted: KitFor) -> None:
    """One draw of dropout for each length that occurs and each template."""
    for setting, passes in (("unsup", 2), ("sup", 1)):
        kit = prompted(setting=setting)
        method = build(kit)
        (encoder,) = watched(method, "encoder")
        batch = first_batch(kit, method, size=12)
        losses(kit, method, batch)
        assert len(encoder.given) == 2 * passes, "a main pass and a bare one for each template"
        for number in range(passes):
            main, bare = (encoder.given[2 * number + part][0][0] for part in range(2))
            template = (method.template, method.second_template)[number]
            pieces = main.attention_mask.sum(dim=1) - len(template)
            assert len(bare.input_ids) == len(set(pieces.tolist())) < len(pieces)
            assert set(map(tuple, bare.input_ids.tolist())) == {(*template.begin, *template.end)}
        assert method.encoder.training


def test_dropout_differs_between_the_views(prompted: KitFor) -> None:
    """This is so also where both views have one template."""
    kit = prompted(second_template=TEMPLATES["template"], denoising="none")
    method = build(kit)
    (encoder,) = watched(method, "encoder")
    losses(kit, method, {"contrastive": first_batch(kit, method)})
    one, other = encoder.given[0][0][0], encoder.given[1][0][0]
    assert torch.equal(one.input_ids, other.input_ids)
    assert not torch.allclose(encoder.results[0][:, 0], encoder.results[1][:, 0], atol=1e-3)


@FAMILIES
@pytest.mark.parametrize("setting", ["unsup", "semisup"])
@pytest.mark.parametrize(
    ("values", "dev", "test"),
    [
        ({}, True, False),
        ({"dev_denoise": False, "test_denoise": True}, False, True),
        ({"denoising": "none", "test_denoise": True}, False, False),
    ],
)
def test_dev_is_denoised_and_test_is_not(
    prompted: KitFor, setting: str, values: dict[str, Any], dev: bool, test: bool
) -> None:
    """Neither has a head. At test time there is no dropout, which the model has."""
    kit = prompted(setting=setting, **values)
    method = build(kit).eval()
    batch, reference = first_batch(kit, method), Templates(kit, method)
    states = reference.wrapped(batch, method.template)
    denoised = states - reference.bare(batch, method.template)
    for embed, is_denoised in ((method.embed_dev, dev), (method.embed, test)):
        expected = denoised if is_denoised else states
        assert torch.allclose(embed(batch).double(), expected, atol=1e-4)


@FAMILIES
def test_supervised_evaluation_has_head_and_denoising(prompted: KitFor, family: str) -> None:
    kit = prompted(setting="sup")
    method = build(kit).eval()
    batch, reference = first_batch(kit, method), Templates(kit, method)
    states = reference.wrapped(batch, method.template)
    alone = reference.bare(batch, method.template)

    def headed(part: torch.Tensor) -> torch.Tensor:
        if family == "tiny_encoder":
            return transform(method, states) - transform(method, part)
        return reference.tanh_head(states - part)

    for embed in (method.embed, method.embed_dev):
        assert torch.allclose(embed(batch).double(), headed(alone), atol=1e-4)
    unshifted = prompted(setting="sup", encoder=kit.config.encoder, test_shift=False)
    method.config = unshifted.config
    still_there = reference.bare(batch, method.template, shift=False)
    assert torch.allclose(method.embed(batch).double(), headed(still_there), atol=1e-4), (
        "one vector for all lengths"
    )
    assert torch.allclose(method.embed_dev(batch).double(), headed(alone), atol=1e-4)


def test_final_stop_is_for_the_test_alone(prompted: KitFor) -> None:
    kit = prompted()
    method = build(kit)
    embedder, (encoder,) = Embedder(method, kit), watched(method, "encoder")
    embedder(["the old cat"])
    embedder(["the old cat"], dev=True)
    test, dev = (encoder.given[call][0][0].input_ids[0].tolist() for call in (0, 1))
    assert len(test) == len(dev) + 1
    assert len(dev) == 3 + len(method.template)


@pytest.mark.parametrize("marked", [True, False])
def test_roberta_marks_the_space_before_a_sentence(
    kit_for: KitFor, byte_roberta: Path, tmp_path: Path, marked: bool
) -> None:
    """The final test always does; training and dev do, except those of the released code."""
    corpus = tmp_path / "sentences.txt"
    corpus.write_text("cats\ndogs\n")
    given = {"encoder": str(byte_roberta), "sentences": str(corpus)}
    kit = kit_for("promptbert", **given, roberta_prefix_space=marked)
    method = build(kit)
    (encoder,) = watched(method, "encoder")
    (stream,) = stage_streams(method, kit, kit.declared.stages[0], 0).values()
    losses(kit, method, {"contrastive": next(iter(stream))})
    embedder = Embedder(method, kit)
    embedder(["cats"])
    embedder(["cats"], dev=True)
    read = [
        [method.tokenizer.decode(ids) for ids in given[0][0].input_ids] for given in encoder.given
    ]
    space, means = " " if marked else "", "means<mask>.</s>"
    expected = [f"sentence : '{space}{word} ' {means}" for word in ("cats", "dogs")]
    assert sorted(read[0]) == [f"<s>This {each}" for each in expected]
    assert sorted(read[2]) == [f"<s>The {each}" for each in expected]
    assert read[4] == [f"<s>This sentence : ' cats. ' {means}"]
    assert [f"<s>This {expected[0]}"] in read[5:]


def test_without_bytes_there_is_no_space_to_mark(prompted: KitFor) -> None:
    """BERT gives a word the same pieces in both places, so its text stays as it is."""
    for marked in (True, False):
        method = build(prompted(roberta_prefix_space=marked))
        read = [method.test_text(text) for text in ("cats", "cats.", "")]
        assert read == ["cats.", "cats.", ""]


def test_supervised_head_starts_as_the_masked_language_heads_transform(kit_for: KitFor) -> None:
    kit = kit_for("promptbert", setting="sup")
    method = kit.build()
    pretrained = kit.vocabulary_head().transform
    states = torch.randn(3, 32)
    assert torch.equal(method.head(states), pretrained(states))
    assert sum(value.numel() for value in method.head.parameters()) == 32 * 32 + 32 + 2 * 32
