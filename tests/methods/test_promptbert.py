"""PromptBERT against promptbert.md, semisupervised.md, and diffaug.md, section 2.

The reference runs every row alone.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import AutoModel

from harness.data.batching import TextBatch
from harness.data.tokens import Template
from harness.evaluation.embedder import Embedder
from harness.plugin.kit import Kit
from harness.training.feeding import stage_streams
from harness.training.loop import Trainer
from harness.training.parameters import trainable
from tests.families import FAMILIES
from tests.methods.references import KitFor, first_batch, info_nce

Watch = Callable[[nn.Module], Any]  # tests.conftest.Calls
TEMPLATES = {
    "template": "the old {s} sees [MASK] today",
    "second_template": "a {s} under behind the [MASK]",
}


@pytest.fixture
def prompted(kit_for: KitFor) -> KitFor:
    """A kit with templates of different lengths, which the small tokenizers can tell apart."""

    def make(**values: Any) -> Kit:
        return kit_for("promptbert", **{"temperature": 0.3, **TEMPLATES, **values})

    return make


def build(kit: Kit) -> Any:
    torch.manual_seed(0)
    method = kit.build()
    for (
        parameter
    ) in method.head.parameters():  # it starts at zero, where a forgotten bias would not show
        nn.init.normal_(parameter, std=0.3)
    trainable(method, method.stages(kit.config)[0])
    return method.train()


def losses(
    kit: Kit, method: Any, batch: dict[str, TextBatch], stage: int = 0
) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = method.losses(batch, method.stages(kit.config)[stage])
    return found


class Reference:
    """Mask states by plain calls of transformers in float64, one row at a time.

    The positions are written out.
    """

    def __init__(self, kit: Kit, method: Any) -> None:
        self.model = (
            AutoModel.from_pretrained(kit.config.encoder, attn_implementation="eager")
            .double()
            .eval()
        )
        self.first = 2 if "roberta" in kit.config.encoder else 0
        self.method, self.mask = method, method.tokenizer.mask_token_id

    def sentences(self, batch: TextBatch) -> list[list[int]]:
        """The pieces of each row without its template."""
        begin, end = len(self.method.template.begin), len(self.method.template.end)
        lengths = batch.attention_mask.sum(dim=1).tolist()
        return [
            ids[begin : length - end].tolist()
            for ids, length in zip(batch.input_ids, lengths, strict=True)
        ]

    def state(self, pieces: list[int], positions: list[int]) -> torch.Tensor:
        states = self.model(
            input_ids=torch.tensor([pieces]), position_ids=torch.tensor([positions])
        ).last_hidden_state
        row: torch.Tensor = states[0, pieces.index(self.mask)]
        return row

    def wrapped(self, batch: TextBatch, template: Template) -> torch.Tensor:
        """States at the mask, (rows, H)."""
        rows = [[*template.begin, *sentence, *template.end] for sentence in self.sentences(batch)]
        return torch.stack(
            [self.state(row, list(range(self.first, self.first + len(row)))) for row in rows]
        )

    def alone(
        self, batch: TextBatch, template: Template, *, first: int | None = None, shift: bool = True
    ) -> torch.Tensor:
        """The vector of the template at each row's length, (rows, H)."""
        start = self.first if first is None else first
        vectors = []
        for sentence in self.sentences(batch):
            gap = start + len(template.begin) + (len(sentence) if shift else 0)
            places = [
                *range(start, start + len(template.begin)),
                *range(gap, gap + len(template.end)),
            ]
            vectors.append(self.state([*template.begin, *template.end], places))
        return torch.stack(vectors)

    def tanh_head(self, vectors: torch.Tensor) -> torch.Tensor:
        linear = self.method.head.linear
        return torch.tanh(vectors @ linear.weight.double().T + linear.bias.double())

    def transform(self, vectors: torch.Tensor) -> torch.Tensor:
        """Dense, GELU, and LayerNorm with epsilon 1e-12, in numpy."""
        weight, bias, gain, shift = (
            part.detach().double().numpy() for part in self.method.head.parameters()
        )
        dense = vectors.detach().numpy() @ weight.T + bias
        curved = dense * 0.5 * (1 + np.vectorize(math.erf)(dense / math.sqrt(2)))
        centred = curved - curved.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
        return torch.from_numpy(scaled * gain + shift)


# Training vectors and losses against the reference


@FAMILIES
@pytest.mark.parametrize("denoising", ["intended", "none", "released"])
def test_unsupervised_loss(
    prompted: KitFor, still: Callable[[str], str], family: str, denoising: str
) -> None:
    """head(h - delta), where each view has its own template with its own delta."""
    kit = prompted(encoder=still(family), denoising=denoising)
    method = build(kit)
    batch, reference = first_batch(kit, method), Reference(kit, method)
    views = []
    for template in (method.template, method.second_template):
        vectors = reference.wrapped(batch, template)
        if denoising != "none":
            first = 0 if denoising == "released" else None
            vectors = vectors - reference.alone(batch, template, first=first)
        views.append(reference.tanh_head(vectors))
    found = losses(kit, method, {"contrastive": batch})
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
    """BERT: g(h) - g(delta) with the masked-LM head's transform g; RoBERTa: head(h - delta).

    All texts have one template.
    """
    kit = prompted(setting="sup", encoder=still(family), head=head)
    method = build(kit)
    batch, reference = first_batch(kit, method), Reference(kit, method)
    states, alone = (
        reference.wrapped(batch, method.template),
        reference.alone(batch, method.template),
    )
    if transforms:
        vectors = reference.transform(states) - reference.transform(alone)
    else:
        vectors = reference.tanh_head(states - alone)
    expected = info_nce(
        vectors[0::3].detach(), torch.cat([vectors[1::3], vectors[2::3]]).detach(), 0.3
    )
    assert losses(kit, method, {"contrastive": batch})["contrastive"].item() == pytest.approx(
        expected, rel=1e-4
    )


@FAMILIES
def test_classification_loss(prompted: KitFor, still: Callable[[str], str], family: str) -> None:
    """The features come from after the head, without denoising, in the first template.

    Entailment is 1 and contradiction is 0.
    """
    kit = prompted(setting="semisup", encoder=still(family))
    method = build(kit)
    nn.init.normal_(method.classifier.linear.weight, std=0.5)
    batch, reference = first_batch(kit, method, "labelled"), Reference(kit, method)
    vectors = reference.tanh_head(reference.wrapped(batch, method.template)).detach().numpy()
    weight, bias = (
        part.detach().double().numpy() for part in method.classifier.linear.parameters()
    )
    terms = []
    for item in range(len(batch.items)):
        premise = vectors[3 * item]
        for other, label in ((vectors[3 * item + 1], 1), (vectors[3 * item + 2], 0)):
            logits = weight @ np.concatenate([premise, other, np.abs(premise - other)]) + bias
            terms.append(math.log(np.exp(logits).sum()) - logits[label])
    found = losses(kit, method, {"contrastive": first_batch(kit, method), "labelled": batch})
    assert set(found) == {"contrastive", "classification"}
    assert found["classification"].item() == pytest.approx(float(np.mean(terms)), rel=1e-4)


@FAMILIES
def test_gradients_flow_through_the_template_vectors(
    prompted: KitFor, still: Callable[[str], str]
) -> None:
    kit = prompted(encoder=still("tiny_encoder"))
    method = build(kit)
    batch, reference = first_batch(kit, method), Reference(kit, method)
    views = [
        reference.tanh_head(reference.wrapped(batch, template) - reference.alone(batch, template))
        for template in (method.template, method.second_template)
    ]
    similarity = torch.nn.CosineSimilarity(dim=-1)(views[0][:, None], views[1][None]) / 0.3
    functional.cross_entropy(similarity, torch.arange(len(similarity))).backward()
    losses(kit, method, {"contrastive": batch})["contrastive"].backward()
    expected = dict(reference.model.named_parameters())
    for name in (
        "embeddings.position_embeddings.weight",
        "encoder.layer.0.attention.self.value.weight",
    ):
        found = method.encoder.model.get_parameter(name).grad.double()
        assert torch.allclose(found, expected[name].grad, rtol=1e-3, atol=1e-6), name


# Denoising in training


@FAMILIES
def test_rows_of_one_length_share_a_template_vector_with_its_dropout(
    prompted: KitFor, watch: Watch
) -> None:
    """In training the pass has dropout: one draw for each length and template.

    Only the lengths that occur are run.
    """
    for setting, passes in (("unsup", 2), ("sup", 1)):
        kit = prompted(setting=setting)
        method = build(kit)
        encoder = watch(method.encoder)
        batch = first_batch(kit, method, size=12)
        losses(kit, method, {"contrastive": batch})
        assert len(encoder.given) == 2 * passes, "a main pass and a bare one for each template"
        for number in range(passes):
            main, bare = (encoder.given[2 * number + part][0][0] for part in range(2))
            template = (method.template, method.second_template)[number]
            pieces = main.attention_mask.sum(dim=1) - len(template)
            assert len(bare.input_ids) == len(set(pieces.tolist())) < len(pieces)
            assert set(map(tuple, bare.input_ids.tolist())) == {(*template.begin, *template.end)}
        assert method.encoder.training


def test_dropout_differs_between_the_views(prompted: KitFor, watch: Watch) -> None:
    """This is so also where both views have one template."""
    kit = prompted(second_template=TEMPLATES["template"], denoising="none")
    method = build(kit)
    encoder = watch(method.encoder)
    losses(kit, method, {"contrastive": first_batch(kit, method)})
    one, other = encoder.given[0][0][0], encoder.given[1][0][0]
    assert torch.equal(one.input_ids, other.input_ids)
    assert not torch.allclose(encoder.results[0][:, 0], encoder.results[1][:, 0], atol=1e-3)


# Dev and test


@FAMILIES
@pytest.mark.parametrize("setting", ["unsup", "semisup"])
def test_dev_is_denoised_and_test_is_not(
    prompted: KitFor, request: pytest.FixtureRequest, family: str, setting: str
) -> None:
    """Neither has a head. At test time there is no dropout, which the model has."""
    encoder = str(request.getfixturevalue(family))
    kit = prompted(setting=setting, encoder=encoder)
    method = build(kit).eval()
    batch, reference = first_batch(kit, method), Reference(kit, method)
    states, alone = (
        reference.wrapped(batch, method.template),
        reference.alone(batch, method.template),
    )
    assert torch.allclose(method.embed_dev(batch).double(), states - alone, atol=1e-4)
    assert torch.allclose(method.embed(batch).double(), states, atol=1e-4)
    turned = build(
        prompted(setting=setting, encoder=encoder, dev_denoise=False, test_denoise=True)
    ).eval()
    assert torch.allclose(turned.embed_dev(batch).double(), states, atol=1e-4)
    assert torch.allclose(turned.embed(batch).double(), states - alone, atol=1e-4)
    never = build(
        prompted(setting=setting, encoder=encoder, denoising="none", test_denoise=True)
    ).eval()
    for embed in (never.embed, never.embed_dev):
        assert torch.allclose(embed(batch).double(), states, atol=1e-4)


@FAMILIES
def test_supervised_evaluation_has_head_and_denoising(
    prompted: KitFor, request: pytest.FixtureRequest, family: str
) -> None:
    kit = prompted(setting="sup", encoder=str(request.getfixturevalue(family)))
    method = build(kit).eval()
    batch, reference = first_batch(kit, method), Reference(kit, method)
    states, alone = (
        reference.wrapped(batch, method.template),
        reference.alone(batch, method.template),
    )

    def headed(part: torch.Tensor) -> torch.Tensor:
        if family == "tiny_encoder":
            return reference.transform(states) - reference.transform(part)
        return reference.tanh_head(states - part)

    for embed in (method.embed, method.embed_dev):
        assert torch.allclose(embed(batch).double(), headed(alone), atol=1e-4)
    unshifted = prompted(setting="sup", encoder=kit.config.encoder, test_shift=False)
    method.config = unshifted.config
    still_there = reference.alone(batch, method.template, shift=False)
    assert torch.allclose(method.embed(batch).double(), headed(still_there), atol=1e-4), (
        "one vector for all lengths"
    )
    assert torch.allclose(method.embed_dev(batch).double(), headed(alone), atol=1e-4)


def test_final_stop_is_for_the_test_alone(prompted: KitFor, watch: Watch) -> None:
    kit = prompted()
    method = build(kit)
    embedder, encoder = Embedder(method, kit), watch(method.encoder)
    embedder(["the old cat"])
    embedder(["the old cat"], dev=True)
    test, dev = (encoder.given[call][0][0].input_ids[0].tolist() for call in (0, 1))
    assert len(test) == len(dev) + 1
    assert len(dev) == 3 + len(method.template)


# Templates and lengths


def test_a_training_sentence_has_max_length_bare_pieces(prompted: KitFor) -> None:
    kit = prompted(max_length=9)
    method = build(kit)
    lengths = first_batch(kit, method, size=40).attention_mask.sum(dim=1)
    assert lengths.max() == 9 + len(method.template)


@pytest.mark.parametrize("marked", [True, False])
def test_roberta_marks_the_space_before_a_sentence(
    kit_for: KitFor, byte_roberta: Path, tmp_path: Path, marked: bool, watch: Watch
) -> None:
    """The final test always does, and training and dev do by default.

    Those of the released code do not.
    """
    corpus = tmp_path / "sentences.txt"
    corpus.write_text("cats\ndogs\n")
    kit = kit_for(
        "promptbert", encoder=str(byte_roberta), sentences=str(corpus), roberta_prefix_space=marked
    )
    method = build(kit)
    read = method.tokenizer.decode
    encoder = watch(method.encoder)
    (rows,) = (
        next(iter(stream))
        for stream in stage_streams(method, kit, kit.declared.stages[0], 0).values()
    )
    losses(kit, method, {"contrastive": rows})
    first, _, second, _ = (given[0][0].input_ids for given in encoder.given)
    space = " " if marked else ""
    assert sorted(map(read, first)) == [
        f"<s>This sentence : '{space}{word} ' means<mask>.</s>" for word in ("cats", "dogs")
    ]
    assert sorted(map(read, second)) == [
        f"<s>The sentence : '{space}{word} ' means<mask>.</s>" for word in ("cats", "dogs")
    ]
    embedder = Embedder(method, kit)
    calls = len(encoder.given)
    embedder(["cats"])
    test = read(encoder.given[calls][0][0].input_ids[0])
    assert test == "<s>This sentence : ' cats. ' means<mask>.</s>"
    calls = len(encoder.given)
    embedder(["cats"], dev=True)
    dev = read(encoder.given[calls][0][0].input_ids[0])
    assert dev == f"<s>This sentence : '{space}cats ' means<mask>.</s>"


@pytest.mark.parametrize("text", ["cats", "cats.", ""])
def test_without_bytes_there_is_no_space_to_mark(prompted: KitFor, text: str) -> None:
    """BERT gives a word the same pieces in both places, so its text stays as it is."""
    both = [build(prompted(roberta_prefix_space=marked)) for marked in (True, False)]
    one, other = (method.test_text(text) for method in both)
    assert one == other == (f"{text}." if text == "cats" else text)


# What trains, and when


def test_supervised_head_starts_as_the_masked_language_heads_transform(kit_for: KitFor) -> None:
    kit = kit_for("promptbert", setting="sup")
    method = kit.build()
    pretrained = kit.vocabulary_head().transform
    states = torch.randn(3, 32)
    assert torch.equal(method.head(states), pretrained(states))
    assert sum(value.numel() for value in method.head.parameters()) == 32 * 32 + 32 + 2 * 32


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("joint", [("joint", {"contrastive": 1.0, "classification": 0.02})]),
        (
            "sup-unsup",
            [("classification", {"classification": 1.0}), ("contrastive", {"contrastive": 1.0})],
        ),
        (
            "sup-joint",
            [
                ("classification", {"classification": 1.0}),
                ("joint", {"contrastive": 1.0, "classification": 0.02}),
            ],
        ),
    ],
)
def test_semisupervised_schedules(
    prompted: KitFor, schedule: str, expected: list[tuple[str, Any]]
) -> None:
    kit = prompted(
        setting="semisup", schedule=schedule, auxiliary_weight=0.02, max_steps=2,
        classification_max_steps=2, auxiliary_batch_size=5, classification_batch_size=8,
    )  # fmt: skip
    stages = kit.declared.stages
    assert [(stage.name, dict(stage.losses)) for stage in stages] == expected
    outcome = Trainer(build(kit), kit, 0, evaluate=lambda: 1.0, report=lambda _: None).run()
    assert outcome.steps == 2 * len(stages)


# What is declared
