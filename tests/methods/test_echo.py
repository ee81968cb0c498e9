"""Echo embeddings against echo.md."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from harness.data.batching import TextBatch, pad
from harness.data.tokens import load_tokenizer, piece_ids
from harness.errors import UserError
from harness.evaluation.embedder import Embedder
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from tests.architectures import save
from tests.methods.references import array, batches_of, info_nce

KitFor = Callable[..., Kit]
PLUGIN = registry.load("echo")
TEXTS = ["the old farmer sees the river", "a cat", "she walks slowly"]
ECHO = "the {s} . {s}"


@pytest.fixture(scope="module", params=["Llama", "Qwen2", "Gemma"])
def decoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random decoder of a family."""
    folder = tmp_path_factory.mktemp("decoders") / "decoder"
    return save(request.param, folder, max_position_embeddings=256)


def reference(folder: Path, template: str, text: str, pooling: str) -> torch.Tensor:
    """The whole text goes through transformers at once, in float64."""
    model = AutoModel.from_pretrained(folder, dtype=torch.float64).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    first, second, _ = template.split("{s}")
    whole = tokenizer(f"{first}{text}{second}{text}", return_tensors="pt")
    with torch.no_grad():
        states = model(**whole).last_hidden_state[0]
    echo = states[-len(tokenizer(f" {text}", add_special_tokens=False)["input_ids"]) :]
    vector: torch.Tensor = echo.mean(dim=0) if pooling == "mean" else echo[-1]
    return vector


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "last-token"])
@pytest.mark.parametrize("template", [ECHO, PLUGIN.config_type().template])
def test_the_vector_is_that_of_the_second_sentence(
    kit_for: KitFor, decoder: Path, template: str, pooling: str
) -> None:
    values: dict[str, Any] = {"template": template, "echo_pooling": pooling}
    kit = kit_for("echo", encoder=str(decoder), **values)
    found = Embedder(kit.build().eval(), kit)(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        expected = reference(decoder, template, text, pooling)
        assert torch.allclose(torch.as_tensor(vector).double(), expected, atol=1e-5)


def test_the_first_word_knows_the_last_one(kit_for: KitFor, tmp_path: Path) -> None:
    """A causal decoder cannot know it the first time."""
    decoder = save("Llama", tmp_path / "decoder")
    kit = kit_for("echo", encoder=str(decoder), template=ECHO)
    method = kit.build().eval()
    seen = []
    forward = method.encoder.forward
    method.encoder.forward = lambda *rows, **reach: seen.append(forward(*rows, **reach)) or seen[-1]
    ids = piece_ids(method.tokenizer, ["the old farmer", "the old cat"])
    for row in ids:
        rows = torch.tensor([[*method.template.begin, *row, *method.template.end]])
        method.embed(TextBatch(rows, torch.ones_like(rows), torch.arange(1)))
    start, stop = len(method.template.begin), len(method.template) + len(ids[0])
    one, other = (states[0] for states in seen)
    assert torch.allclose(one[start], other[start], atol=1e-6)
    assert not torch.allclose(one[stop], other[stop])


def test_pieces_are_those_of_a_running_text(byte_roberta: Path) -> None:
    """Bytes are pieces here, and a space in front of a sentence belongs to its first piece."""
    tokenizer = load_tokenizer(str(byte_roberta))
    echoed = PLUGIN.method.embed.__globals__["echoed"]
    for template in ('say: "{s}" again: "{s}', "say: {s} , again: {s}"):
        tokenised = PLUGIN.method.training_template(
            resolve(PLUGIN, {"template": template}), tokenizer
        )
        space = " " if tokenised.leading_space else ""
        rows = [torch.tensor(row).numpy() for row in piece_ids(tokenizer, [f"{space}old farmer"])]
        ids, mask = pad(rows, tokenised, tokenizer.pad_token_id)
        texts, second = echoed(TextBatch(ids, mask, torch.arange(1)), tokenised, 0)
        whole = piece_ids(tokenizer, [template.replace("{s}", "old farmer")])[0]
        assert texts.input_ids[0].tolist() == [tokenizer.cls_token_id, *whole]
        assert second[0].nonzero()[:, 0].tolist() == list(range(len(whole) + 1))[-len(rows[0]) :]


@pytest.mark.slow
def test_long_and_empty_sentences(kit_for: KitFor, tmp_path: Path) -> None:
    """A sentence is cut so that it fits twice, and an empty one has the prompt's last state."""
    decoder = save("Llama", tmp_path / "decoder")
    kit = kit_for("echo", encoder=str(decoder), template=ECHO)
    method = kit.build().eval()
    long, empty = Embedder(method, kit)(["the old farmer " * 40, ""])
    rows = piece_ids(method.tokenizer, ["the old farmer " * 40])[0]
    count = (method.encoder.longest - len(method.template)) // 2
    begin, end = method.template.begin, method.template.end
    for row, vector in ((rows[:count], long), ([], empty)):
        ids = torch.tensor([[*begin, *row, *end, *row]])
        states = method.encoder(TextBatch(ids, torch.ones_like(ids), torch.arange(1)))[0]
        expected = states[-len(row) :].mean(dim=0) if row else states[-1]
        assert torch.allclose(torch.as_tensor(vector), expected, atol=1e-5)


@pytest.mark.slow
def test_training_draws_on_the_same_vectors(kit_for: KitFor, decoder: Path) -> None:
    """The loss of supervised SimCSE, in float64, over several batches."""
    kit = kit_for("echo", setting="sup", encoder=str(decoder), template=ECHO, max_length=6)
    method = kit.build().eval()
    stage, batches = batches_of(kit, method)
    for _ in range(3):
        batch = next(batches)
        vectors = array(method.embed(batch["contrastive"]))
        expected = info_nce(vectors[0::3], [*vectors[1::3], *vectors[2::3]], 0.05)
        found = method.losses(batch, stage)["contrastive"].item()
        assert found == pytest.approx(expected, rel=1e-4)


def test_a_template_treats_both_alike() -> None:
    with pytest.raises(UserError, match=r"a space stands in front of both \{s\}, or of none"):
        resolve(PLUGIN, {"template": '"{s}" again: {s}'})
