"""LLM2Vec against llm2vec.md."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForCausalLM

import harness
from harness.data.batching import TextBatch
from harness.evaluation.embedder import Embedder
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from tests.architectures import save
from tests.methods.references import batches_of
from tests.sweeping import write_few_pairs

KitFor = Callable[..., Kit]
PLUGIN = registry.load("llm2vec")


@pytest.fixture(scope="module", params=["Llama", "Qwen2", "Gemma"])
def decoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random decoder of a family."""
    return save(request.param, tmp_path_factory.mktemp("decoders") / "decoder")


def bidirectional(folder: Path, ids: Tensor) -> tuple[Tensor, Tensor]:
    """States (length, H) and logits by transformers in float64, with a mask of all pairs."""
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    ).eval()
    everything = torch.zeros(1, 1, len(ids), len(ids), dtype=torch.float64)
    with torch.no_grad():
        output = model(ids[None], attention_mask=everything, output_hidden_states=True)
    return output.hidden_states[-1][0], output.logits[0]


@pytest.mark.parametrize("attention", ["bidirectional", "causal"])
def test_a_later_token_changes_an_earlier_state(
    kit_for: KitFor, decoder: Path, attention: str
) -> None:
    kit = kit_for("llm2vec", encoder=str(decoder), decoder_attention=attention)
    method = kit.build().eval()
    ids = torch.tensor([[20, 21, 22, 23], [20, 21, 22, 40]])
    states = method.encoder(TextBatch(ids, torch.ones_like(ids), torch.arange(2)))
    difference = (states[0, :3] - states[1, :3]).abs().amax(dim=1)
    if attention == "bidirectional":
        assert difference.min() > 1e-3
    else:
        assert difference.max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["bert", "all"])
def test_a_masked_piece_is_predicted_from_the_state_before_it(
    kit_for: KitFor, decoder: Path, strategy: str
) -> None:
    """Row by row and place by place, over several batches; dropout of attention is off."""
    kit = kit_for(
        "llm2vec", encoder=str(decoder), masking_strategy=strategy, masking_ratio=0.5,
        stage1_batch_size=6,
    )  # fmt: skip
    method = kit.build().train()
    stage, batches = batches_of(kit, method)
    for number in range(3):
        texts = (batch := next(batches))["masked"]
        torch.manual_seed(number)
        loss = method.losses(batch, stage)["masked"]
        torch.manual_seed(number)
        masked = method.masker(texts.input_ids)
        terms = []
        for row, length in enumerate(texts.attention_mask.sum(dim=1)):
            _, logits = bidirectional(decoder, masked.input_ids[row, :length])
            terms += [
                logits[place - 1].exp().sum().log() - logits[place - 1, texts.input_ids[row, place]]
                for place in range(1, int(length))
                if masked.chosen[row, place]
            ]
        assert len(terms) > 10
        assert loss.item() == pytest.approx(torch.stack(terms).mean().item(), rel=1e-5)
        loss.backward()
    trained = {name for name, each in method.named_parameters() if each.grad is not None}
    assert any("lora_" in name for name in trained)


@pytest.mark.slow
@pytest.mark.usefixtures("equal_views")
def test_the_contrastive_loss_of_mean_vectors(kit_for: KitFor, decoder: Path) -> None:
    """Pieces of the tokenizer in front do not count; without dropout both views are equal."""
    kit = kit_for("llm2vec", encoder=str(decoder), encoder_dropout=0, batch_size=6)
    method = kit.build().train()
    stage, batches = batches_of(kit, method, 1)
    begin = len(method.template.begin)
    assert begin == (0 if "qwen" in method.encoder.model.config.model_type else 1)
    for _ in range(3):
        texts = (batch := next(batches))["contrastive"]
        rows = zip(texts.input_ids, texts.attention_mask.sum(dim=1), strict=True)
        states = [bidirectional(decoder, ids[:length])[0] for ids, length in rows]
        vectors = torch.stack([each[begin:].mean(dim=0) for each in states])
        scores = (functional.normalize(vectors) @ functional.normalize(vectors).T / 0.05).exp()
        expected = -(scores.diagonal() / scores.sum(dim=1)).log().mean()
        loss = method.losses(batch, stage)["contrastive"]
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)


def test_dropout_of_attention_is_of_the_second_stage(kit_for: KitFor, tmp_path: Path) -> None:
    kit = kit_for("llm2vec", encoder=str(save("Llama", tmp_path / "decoder")), batch_size=6)
    method = kit.build().train()
    for number, draws in ((1, True), (0, False), (1, True)):
        stage, batches = batches_of(kit, method, number)
        batch = next(batches)
        outputs = []
        for _ in range(2):
            method.losses(batch, stage)
            texts = batch[stage.name]
            outputs.append(method.encoder(texts))
        assert torch.equal(*outputs) != draws


def test_the_piece_that_masks(kit_for: KitFor, decoder: Path, tiny_encoder: Path) -> None:
    """The paper's blank, where a tokenizer has no mask token."""
    method = kit_for("llm2vec", encoder=str(decoder)).build()
    assert method.tokenizer.convert_ids_to_tokens(method.masker.mask_id) == "_"
    method = kit_for("llm2vec", encoder=str(tiny_encoder)).build()
    assert method.masker.mask_id == method.tokenizer.mask_token_id


@pytest.mark.slow
def test_the_vector_of_a_sentence(kit_for: KitFor, decoder: Path) -> None:
    """Also of one without words, where the family has a token in front."""
    kit = kit_for("llm2vec", encoder=str(decoder))
    method = kit.build().eval()
    begin = method.template.begin
    texts = ["the old farmer sees the river", "a cat", *([""] if begin else [])]
    for text, vector in zip(texts, Embedder(method, kit)(texts), strict=True):
        pieces = method.tokenizer(text, add_special_tokens=False)["input_ids"]
        states, _ = bidirectional(decoder, torch.tensor([*begin, *pieces]))
        expected = states[len(begin) if pieces else 0 :].mean(dim=0)
        assert torch.allclose(torch.as_tensor(vector).double(), expected, atol=1e-5)


@pytest.mark.slow
def test_both_stages_of_a_run_train_the_same_weights(decoder: Path, tmp_path: Path) -> None:
    """The first one is the same for trials that differ in the second one."""
    records = [
        harness.run(
            "llm2vec", encoder=str(decoder), suite=str(write_few_pairs(tmp_path)), batch_size=8,
            sentences="graded-sentences", stage1_batch_size=8, stage1_steps=3, max_steps=2,
            max_length=12, lora_rank=2, temperature=temperature, store=tmp_path / "store",
        )
        for temperature in (0.05, 0.1)
    ]  # fmt: skip
    assert [record.reason for record in records] == [None, None]
    assert [record.steps for record in records] == [5, 5]
    of_stages = [
        [[row for row in record.history if row["stage"] == name] for record in records]
        for name in ("masked", "contrastive")
    ]
    assert [one == other for one, other in of_stages] == [True, False]


def test_without_the_first_stage() -> None:
    config = resolve(PLUGIN, {"stage1_steps": 0})
    assert [stage.name for stage in PLUGIN.declare(config).stages] == ["contrastive"]
