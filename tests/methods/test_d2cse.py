"""D2CSE against d2cse.md: what trains, what stays, which vector goes where."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from transformers import BertConfig, BertModel

from harness.data.batching import TextBatch
from harness.encoders.reach import KeyValues, WordVectors
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.training.loop import Trainer
from harness.training.parameters import count, trainable, trained_names
from tests.families import FAMILIES
from tests.method_cases import grouped
from tests.methods.references import KitFor, build, first_batches, first_losses

Watch = Callable[[nn.Module], Any]  # tests.conftest.Calls
LENGTH = 5
SPECIAL = range(5)


@pytest.fixture
def unsup(kit_for: KitFor) -> Kit:
    return kit_for("d2cse", prompt_length=LENGTH)


# What trains


@pytest.fixture(scope="module")
def shaped(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Models with the layers and widths of BERT base and large, all zero.

    Vocabulary and feed-forward layers are small: no trainable tensor has their sizes.
    """
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            hidden, layers, heads = {"base": (768, 12, 12), "large": (1024, 24, 16)}[name]
            vocabulary = json.loads((tiny_encoder / "config.json").read_text())["vocab_size"]
            folder = made[name] = tmp_path_factory.mktemp(name)
            config = BertConfig(
                vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers,
                num_attention_heads=heads, intermediate_size=16, pad_token_id=0,
            )  # fmt: skip
            config.save_pretrained(folder)
            with torch.device("meta"):
                state = BertModel(config, add_pooling_layer=False).state_dict()
            zeros = {
                key: torch.zeros(value.shape, dtype=torch.bfloat16) for key, value in state.items()
            }
            save_file(zeros, folder / "model.safetensors", metadata={"format": "pt"})
            for file in ("tokenizer.json", "tokenizer_config.json"):
                shutil.copy(tiny_encoder / file, folder)
        return made[name]

    return make


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "length", "cls_prompt", "expected"),
    [
        ("base", 16, False, 2_658_818),
        ("base", 16, True, 2_659_586),
        ("base", 12, False, 2_585_090),
        ("large", 16, False, 4_986_882),
    ],
)
def test_trainable_parameters(
    kit_for: KitFor,
    shaped: Callable[[str], Path],
    tiny_encoder: Path,
    shape: str,
    length: int,
    cls_prompt: bool,
    expected: int,
) -> None:
    kit = kit_for(
        "d2cse",
        encoder=str(shaped(shape)),
        generator=str(tiny_encoder),
        prompt_length=length,
        cls_prompt=cls_prompt,
    )
    method = kit.build()
    (stage,) = method.stages(kit.config)
    sizes = {name: parameter.numel() for name, parameter in method.named_parameters()}
    assert sum(sizes[name] for name in trained_names(method, stage)) == expected
    trainable(method, stage)
    assert count(method, trained=True) == expected


@FAMILIES
def test_detection_trains_head_and_prompts_through_slot_0(unsup: Kit) -> None:
    method = build(unsup)
    first_losses(unsup, method)["replaced_tokens"].backward()
    assert method.head[0].weight.grad.abs().max() > 0
    assert method.head[3].weight.grad.abs().max() > 0
    assert method.prompts.table.grad.abs().max() > 0
    assert method.detector.weight.grad.abs().max() > 0


@FAMILIES
def test_contrastive_loss_does_not_touch_the_detector(unsup: Kit) -> None:
    method = build(unsup)
    first_losses(unsup, method)["contrastive"].backward()
    assert method.detector.weight.grad is None
    assert method.prompts.table.grad.abs().max() > 0


# The two passes


def assert_cls_prompt(words: WordVectors | None, method: Any) -> None:
    """The [CLS] vector, where the method has one, for the word embedding at position 0."""
    assert (words is None) == (method.cls_vector is None)
    if words is not None:
        assert torch.equal(words.vectors[0], method.cls_vector)
        assert (words.positions == 0).all()


@FAMILIES
@pytest.mark.parametrize("cls_prompt", [False, True])
def test_where_the_vectors_go(kit_for: KitFor, cls_prompt: bool, watch: Watch) -> None:
    kit = kit_for("d2cse", prompt_length=LENGTH, cls_prompt=cls_prompt)
    method = build(kit)
    encoder, head = watch(method.encoder), watch(method.head)
    first_losses(kit, method)
    assert len(encoder.results) == 2, "one encoder, called twice"
    assert len(head.results) == 1
    assert_cls_prompt(encoder.keyword(0, "words"), method)
    assert encoder.keyword(0, "edit") is None
    assert encoder.keyword(1, "words") is None, "the [CLS] prompt is not in the discriminator"
    output = torch.zeros(12, 3, method.encoder.hidden_size)
    assert torch.equal(encoder.keyword(1, "edit")(output)[:, 0], head.results[0])
    assert [encoder.keyword(call, "position_offset") for call in (0, 1)] == [LENGTH, LENGTH]
    assert torch.equal(head.given[0][0][0], encoder.results[0][:, 0])


def drawn_equal(first: KeyValues, second: KeyValues) -> bool:
    pairs = zip((*first.keys, *first.values), (*second.keys, *second.values), strict=True)
    return all(torch.equal(one, two) for one, two in pairs)


@FAMILIES
@pytest.mark.parametrize(("prompts", "same"), [(None, True), ("same", True), ("fresh", False)])
def test_prompts_of_the_second_pass(
    kit_for: KitFor, prompts: str | None, same: bool, watch: Watch
) -> None:
    kit = kit_for(
        "d2cse", prompt_length=LENGTH, **({"discriminator_prompts": prompts} if prompts else {})
    )
    method = build(kit)
    encoder = watch(method.encoder)
    first_losses(kit, method)
    first, second = (encoder.keyword(call, "prefix") for call in (0, 1))
    assert any((keys == 0).any() for keys in first.keys), "prompts have dropout"
    assert drawn_equal(first, second) is same
    assert first.length == second.length == LENGTH
    method.eval()
    encoder.given.clear()
    first_losses(kit, method)
    assert drawn_equal(*(encoder.keyword(call, "prefix") for call in (0, 1))), (
        "one table for both passes"
    )


@FAMILIES
@pytest.mark.parametrize(("setting", "views"), [("unsup", 2), ("sup", 3)])
def test_losses_against_formulas(kit_for: KitFor, setting: str, views: int, watch: Watch) -> None:
    """Both losses in float64 numpy, from the outputs of the modules."""
    kit = kit_for("d2cse", setting=setting, prompt_length=LENGTH, masking_ratio=0.4)
    method = build(kit)
    head, generator, detector = (
        watch(method.head),
        watch(method.editor.generator),
        watch(method.detector),
    )
    batch = first_batches(kit, method)["contrastive"]
    found = method.losses({"contrastive": batch}, method.stages(kit.config)[0])

    vectors = head.results[0].detach().double().numpy()
    assert len(vectors) == 6 * views
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    parts = [vectors[view::views] for view in range(views)]
    candidates = np.concatenate(parts[1:])
    rows = []
    for item in range(6):
        similarities = [parts[0][item] @ other / 0.05 for other in candidates]
        rows.append(math.log(sum(math.exp(value) for value in similarities)) - similarities[item])
    assert found["contrastive"].item() == pytest.approx(sum(rows) / 6, rel=1e-4)

    copies = 2 if setting == "unsup" else 1
    original = batch.input_ids.numpy().repeat(copies, axis=0)
    real = batch.attention_mask.numpy().repeat(copies, axis=0)
    best = generator.results[0].numpy()
    scores = detector.results[0].detach().double().numpy()
    assert scores.shape == (*original.shape, 2)
    total = 0.0
    replaced = 0
    for row, position in np.ndindex(original.shape):
        label = int(
            position > 0 and real[row, position] and best[row, position] != original[row, position]
        )
        replaced += label
        zero, one = scores[row, position]
        total += math.log(math.exp(zero) + math.exp(one)) - (one if label else zero)
    assert replaced > 0
    assert found["replaced_tokens"].item() == pytest.approx(total / original.size, rel=1e-5)


@FAMILIES
def test_grouped_batches_are_padded_as_the_shuffled_ones_were(
    kit_for: KitFor, watch: Watch
) -> None:
    """The released mean is over the padding of its own, shuffled batches."""
    kit = kit_for("d2cse", prompt_length=LENGTH, masking_ratio=0.4)
    method = build(kit)
    editor, detector = watch(method.editor), watch(method.detector)
    batch = grouped(kit, method)
    found = method.losses({"contrastive": batch}, method.stages(kit.config)[0])
    edited = editor.results[0].labels.numpy()
    labels = np.zeros((len(edited), batch.shuffled_length), int)
    labels[:, : edited.shape[1]] = edited
    scores = detector.results[0].detach().double().numpy()
    assert labels.any()
    assert scores.shape == (*labels.shape, 2)
    own = np.take_along_axis(scores, labels[..., None], axis=-1)[..., 0]
    expected = (np.log(np.exp(scores).sum(axis=-1)) - own).mean()
    assert found["replaced_tokens"].item() == pytest.approx(expected, rel=1e-5)


@FAMILIES
def test_discriminator_reads_the_corrupted_text(unsup: Kit, watch: Watch) -> None:
    method = build(unsup)
    encoder, generator = watch(method.encoder), watch(method.editor.generator)
    first_losses(unsup, method)
    (original,), (edited,) = encoder.given[0][0], encoder.given[1][0]
    best, real = generator.results[0], original.attention_mask.bool()
    assert torch.equal(edited.input_ids[:, 1:][real[:, 1:]], best[:, 1:][real[:, 1:]])
    assert (edited.input_ids[:, 0] == unsup.tokenizer.cls_token_id).all()
    assert (edited.input_ids[~real] == 0).all(), "as released, also where 0 is another piece"
    assert torch.equal(edited.attention_mask, original.attention_mask)


@FAMILIES
def test_masking_keeps_specials_and_draws_every_view_anew(kit_for: KitFor, watch: Watch) -> None:
    kit = kit_for("d2cse", prompt_length=LENGTH, masking_ratio=0.5)
    method = build(kit)
    generator = watch(method.editor.generator)
    batch = first_batches(kit, method, size=40)["contrastive"]
    method.losses({"contrastive": batch}, method.stages(kit.config)[0])
    masked, original = generator.given[0][0][0], batch.repeated(2).input_ids
    special = torch.isin(original, torch.tensor(SPECIAL))
    assert torch.equal(masked[special], original[special])
    changed = (masked != original)[~special].double().mean().item()
    assert abs(changed - 0.5 * 0.9) < 5 * math.sqrt(0.25 / int((~special).sum()))
    assert not torch.equal(masked[0::2], masked[1::2])


@FAMILIES
def test_dropout_of_the_frozen_encoder_makes_the_views(
    unsup: Kit, kit_for: KitFor, watch: Watch
) -> None:
    """In evaluation mode the two views would be equal."""
    kit = unsup
    method = build(kit).eval()
    kit = kit_for("d2cse", **{**kit.config.model_dump(), "max_steps": 1})
    encoder, generator = watch(method.encoder), watch(method.editor.generator)
    Trainer(method, kit, 0, evaluate=lambda: 1.0, report=lambda _: None).run()
    states = encoder.results[0][:, 0]
    assert torch.equal(*(encoder.given[0][0][0].input_ids[view::2] for view in (0, 1)))
    assert ((states[0::2] - states[1::2]).abs().amax(dim=1) > 1e-3).all()
    assert method.encoder.training
    assert method.editor.generator.training, "the released code leaves the generator's dropout on"
    assert len(generator.results) == 1


# Test time


@FAMILIES
@pytest.mark.parametrize("setting", ["unsup", "sup"])
def test_embedding_is_the_cls_state_before_the_head(
    kit_for: KitFor, setting: str, watch: Watch
) -> None:
    kit = kit_for("d2cse", setting=setting, prompt_length=LENGTH, cls_prompt=True)
    method = build(kit).eval()
    encoder, head, generator = (
        watch(method.encoder),
        watch(method.head),
        watch(method.editor.generator),
    )
    batch = first_batches(kit, method)["contrastive"]
    embedding = method.embed(batch)
    assert len(encoder.results) == 1
    assert torch.equal(embedding, encoder.results[0][:, 0])
    assert head.results == []
    assert generator.results == []
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
@pytest.mark.parametrize(
    ("cls_prompt", "positions", "first"),
    [
        (False, "shifted", 2 + LENGTH),
        (False, "plain", 2 + LENGTH),
        (True, "shifted", 2 + LENGTH),
        (True, "plain", 2),
    ],
)
@pytest.mark.parametrize("shift", [True, False])
def test_roberta_positions(
    kit_for: KitFor,
    tiny_roberta: Path,
    cls_prompt: bool,
    positions: str,
    first: int,
    shift: bool,
    watch: Watch,
) -> None:
    kit = kit_for(
        "d2cse", encoder=str(tiny_roberta), prompt_length=LENGTH, cls_prompt=cls_prompt,
        roberta_cls_prompt_positions=positions, position_shift=shift,
    )  # fmt: skip
    first = first if shift else 2
    method = build(kit)
    method.encoder.unpads = False  # so that positions come row by row
    table = watch(method.encoder.model.embeddings.position_embeddings)
    batch = first_batches(kit, method)
    expected = torch.arange(batch["contrastive"].input_ids.shape[1])
    method.losses(batch, method.stages(kit.config)[0])
    method.eval().embed(batch["contrastive"])
    encode, detect, test = (given[0][0][0] for given in table.given)
    assert torch.equal(encode, expected + first)
    assert torch.equal(test, expected + first)
    assert torch.equal(detect, expected + 2 + (LENGTH if shift else 0)), (
        "the discriminator has no [CLS] prompt: shifted as all text is"
    )


# Table 6, (a) to (d)


@FAMILIES
@pytest.mark.slow
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
def test_what_the_discriminator_is(
    kit_for: KitFor,
    discriminator: str,
    prompted: bool,
    conditioned: bool,
    cls_prompt: bool,
    watch: Watch,
) -> None:
    kit = kit_for("d2cse", prompt_length=LENGTH, cls_prompt=cls_prompt, discriminator=discriminator)
    method = build(kit)
    own = discriminator == "copy"
    encoder, head, editor = watch(method.encoder), watch(method.head), watch(method.editor)
    reader = watch(method.discriminator) if own else encoder
    first_losses(kit, method)
    assert len(encoder.results) == (1 if own else 2)
    assert_cls_prompt(encoder.keyword(0, "words"), method)
    assert encoder.keyword(0, "position_offset") == LENGTH
    call = len(reader.given) - 1
    assert torch.equal(reader.given[call][0][0].input_ids, editor.results[0].batch.input_ids)
    assert reader.keyword(call, "words") is None, "static [CLS] where h does not stand"
    assert (reader.keyword(call, "position_offset") or 0) == (LENGTH if prompted else 0), (
        "no prompts, no shift"
    )
    if prompted:
        assert drawn_equal(reader.keyword(call, "prefix"), encoder.keyword(0, "prefix"))
    else:
        assert reader.keyword(call, "prefix") is None
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


@FAMILIES
def test_only_the_prompts_join_the_losses_of_an_unconditional_discriminator(
    kit_for: KitFor,
) -> None:
    kit = kit_for("d2cse", prompt_length=LENGTH, discriminator="unconditional")
    method = build(kit)
    first_losses(kit, method)["replaced_tokens"].backward()
    assert all(value.grad is None for value in method.head.parameters())
    assert method.prompts.table.grad.abs().max() > 0


@FAMILIES
@pytest.mark.parametrize("discriminator", ["plain", "copy"])
def test_a_discriminator_without_prompts_reaches_them_through_h(
    kit_for: KitFor, discriminator: str
) -> None:
    kit = kit_for("d2cse", prompt_length=LENGTH, discriminator=discriminator)
    method = build(kit)
    first_losses(kit, method)["replaced_tokens"].backward()
    assert method.head[0].weight.grad.abs().max() > 0
    assert method.prompts.table.grad.abs().max() > 0


# The sum over the texts of an item


@pytest.mark.parametrize(("setting", "texts"), [("unsup", 2), ("sup", 3)])
def test_the_sum_over_texts_is_that_of_their_means(
    kit_for: KitFor, setting: str, texts: int, watch: Watch
) -> None:
    """D2CSE's supervised loss, against cross entropies of each text in float64."""
    kit = kit_for("d2cse", setting=setting, prompt_length=LENGTH, rtd_texts="sum")
    method = build(kit)
    editor, detector = watch(method.editor), watch(method.detector)
    value = first_losses(kit, method)["replaced_tokens"].item()
    (edited,), (logits,) = editor.results, detector.results
    wrong = torch.logsumexp(logits.detach().double(), -1)
    labels = edited.labels[:, :, None]
    terms = wrong - logits.detach().double().gather(-1, labels)[..., 0]
    printed = sum(terms[text::texts].mean() for text in range(texts))
    weight = method.stages(kit.config)[0].losses["replaced_tokens"]
    assert weight * value == pytest.approx(0.005 * float(printed), rel=1e-5)


@pytest.mark.slow
def test_a_third_of_lambda_with_the_sum_trains_the_same(kit_for: KitFor) -> None:
    weights = []
    for values in (
        {"replaced_token_weight": 0.75},
        {"replaced_token_weight": 0.25, "rtd_texts": "sum"},
        {"replaced_token_weight": 0.75, "rtd_texts": "sum"},
    ):
        kit = kit_for("d2cse", setting="sup", prompt_length=LENGTH, max_steps=4, **values)
        method = build(kit)
        torch.manual_seed(1)
        Trainer(method, kit, 0, evaluate=lambda: 1.0, report=lambda _: None).run()
        weights.append(method.prompts.table.detach().clone())
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2]), "the same lambda is another training"


@pytest.mark.parametrize("method", ["d2cse", "diffcse"])
def test_the_mean_over_texts_is_in_no_key(method: str) -> None:
    plain = resolve(registry.load(method), {"setting": "sup"})
    summed = resolve(registry.load(method), {"setting": "sup", "rtd_texts": "sum"})
    assert summed.deciding() == {**plain.deciding(), "rtd_texts": "sum"}
    assert "rtd_texts" not in plain.deciding()


# Corruptions made beforehand, precision, memory


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize("setting", ["unsup", "sup"])
def test_static_corruption_trains_without_a_generator(
    kit_for: KitFor, setting: str, watch: Watch
) -> None:
    kit = kit_for(
        "d2cse", setting=setting, prompt_length=LENGTH, static_corruption=True, max_steps=3
    )
    method = build(kit)
    assert {name.split(".")[0] for name, _ in method.named_parameters()} <= {
        "encoder", "prompts", "head", "detector", "cls_vector",
    }  # fmt: skip
    assert set(method.models(kit.config)) == {kit.config.encoder, kit.config.generator}
    encoder = watch(method.encoder)
    found = [first_losses(kit, method) for _ in range(2)]
    assert torch.equal(encoder.given[1][0][0].input_ids, encoder.given[3][0][0].input_ids), (
        "not drawn anew"
    )
    assert found[0]["replaced_tokens"].item() > 0
    Trainer(method, kit, 0, evaluate=lambda: 1.0, report=lambda _: None).run()


# What is declared
