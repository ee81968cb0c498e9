"""PromptEOL against prompteol.md."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

import harness
from harness.data.batching import TextBatch
from harness.data.tokens import Template, load_tokenizer, piece_ids
from harness.encoders.low_rank import MARK
from harness.errors import UserError
from harness.evaluation.embedder import Embedder
from harness.plugin import registry
from harness.plugin.resolution import resolve
from tests.architectures import save
from tests.methods.references import KitFor, batches_of, info_nce
from tests.sweeping import write_few_pairs

PLUGIN = registry.load("prompteol")
TEXTS = ["the old farmer sees the river", "a cat", "she walks slowly"]
DEMONSTRATION = '"the dog runs." in a word:"dog". "{s}" in a word:"'


def prompt(tokenizer: Any, **values: Any) -> Template:
    found: Template = PLUGIN.method.training_template(resolve(PLUGIN, values), tokenizer)
    return found


@pytest.fixture(scope="module", params=["Llama", "Qwen2", "Gemma 3", "Mistral"])
def decoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random decoder of a family, whose last token sees all others in every layer."""
    folder = tmp_path_factory.mktemp("decoders") / "decoder"
    return save(request.param, folder, sliding_window=64)


@pytest.mark.slow
@pytest.mark.parametrize("template", [None, DEMONSTRATION])
def test_embedding_is_the_state_of_the_last_token(
    kit_for: KitFor, decoder: Path, template: str | None
) -> None:
    """The whole text goes through transformers at once, one sentence at a time."""
    values = {} if template is None else {"template": template}
    kit = kit_for("prompteol", encoder=str(decoder), tidied=False, **values)
    found = Embedder(kit.build().eval(), kit)(TEXTS)
    model, tokenizer = AutoModel.from_pretrained(decoder), AutoTokenizer.from_pretrained(decoder)
    for text, vector in zip(TEXTS, found, strict=True):
        whole = kit.config.template.replace("{s}", text)
        with torch.no_grad():
            states = model.eval()(**tokenizer(whole, return_tensors="pt")).last_hidden_state
        assert torch.allclose(torch.as_tensor(vector), states[0, -1], atol=1e-5)


@pytest.mark.slow
def test_the_vector_is_the_mean_over_prompts(kit_for: KitFor, decoder: Path) -> None:
    """Also of a sentence that is cut so that it fits into the longest prompt."""
    lines = ["{s} .", DEMONSTRATION, "the dog {s} sees :"]
    texts, common = [*TEXTS, "the old farmer " * 40], {"encoder": str(decoder), "tidied": False}
    kit = kit_for("prompteol", template="\n".join(lines), **common)
    method = kit.build().eval()
    alone = [kit_for("prompteol", template=line, **common).build().eval() for line in lines]
    for single in alone:
        single.load_state_dict(method.state_dict())
    vectors = Embedder(method, kit)(texts)
    limit = method.longest - len(method.template)
    rows = [pieces[:limit] for pieces in piece_ids(method.tokenizer, texts)]
    for row, vector in zip(rows, vectors, strict=True):
        total = torch.zeros(method.encoder.hidden_size, dtype=torch.float64)
        for single in alone:
            ids = torch.tensor([[*single.template.begin, *row, *single.template.end]])
            batch = TextBatch(ids, torch.ones_like(ids), torch.arange(1))
            total += single.embed(batch)[0].detach().double() / len(alone)
        assert torch.allclose(torch.as_tensor(vector).double(), total, atol=1e-5)


def test_prompts_agree_about_the_space(kit_for: KitFor, byte_roberta: Path) -> None:
    template = 'say: {s} : in one word\nThis sentence : "{s}" means'
    with pytest.raises(UserError, match="template: a space stands in front of"):
        kit_for("prompteol", template=template, encoder=str(byte_roberta)).build()


def test_pieces_are_those_of_a_running_text(byte_roberta: Path) -> None:
    """Bytes are pieces here, and a space in front of a sentence belongs to its first piece."""
    tokenizer = load_tokenizer(str(byte_roberta))
    for template in ('This sentence : "{s}" means in one word:"', "say: {s} : in one word"):
        tokenised = prompt(tokenizer, template=template)
        space = " " if tokenised.leading_space else ""
        pieces = piece_ids(tokenizer, [f"{space}old farmer"])[0]
        whole = piece_ids(tokenizer, [template.replace("{s}", "old farmer")])[0]
        assert [*tokenised.begin[1:], *pieces, *tokenised.end] == whole
        assert tokenised.begin[0] == tokenizer.cls_token_id
        assert tokenised.leading_space is template.startswith("say")


def test_no_space_stands_in_front_of_what_follows() -> None:
    """A tokenizer like Llama's marks the beginning of every text that it is given."""
    letters = [*'▁abcdefghijklmnopqrstuvwxyzT:"', "<s>"]
    backend = Tokenizer(
        models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[])
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, cls_token="<s>")
    tokenised = prompt(tokenizer)
    whole = piece_ids(tokenizer, ['This sentence : "a" means in one word:"'])[0]
    assert [*tokenised.begin[1:], letters.index("a"), *tokenised.end] == whole
    assert not tokenised.leading_space


@pytest.mark.slow
def test_the_loss_of_a_batch(kit_for: KitFor, decoder: Path) -> None:
    kit = kit_for("prompteol", setting="sup", encoder=str(decoder), batch_size=6)
    method = kit.build().eval()
    stage, batches = batches_of(kit, method)
    for _ in range(3):
        batch = next(batches)
        vectors = method.embed(batch["contrastive"]).detach().double().tolist()
        expected = info_nce(vectors[0::3], [*vectors[1::3], *vectors[2::3]], 0.05)
        found = method.losses(batch, stage)["contrastive"].item()
        assert found == pytest.approx(expected, rel=1e-4)


def test_only_low_rank_changes_train(kit_for: KitFor) -> None:
    """And without training there is no stage."""
    assert kit_for("prompteol").declared.stages == []
    method = kit_for("prompteol", setting="sup").build()
    for name, parameter in method.named_parameters():
        assert parameter.requires_grad is (MARK in name), name


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["unsup", "sup"])
@pytest.mark.parametrize(
    ("name", "values"), [("prompteol", {}), ("echo", {"template": "the {s} . {s}"})]
)
def test_a_run(
    tmp_path: Path, decoder: Path, setting: str, name: str, values: dict[str, str]
) -> None:
    record = harness.run(
        name, setting=setting, encoder=str(decoder), suite=str(write_few_pairs(tmp_path)),
        triplets="graded-triplets", batch_size=8, max_steps=3, lora_rank=2,
        store=tmp_path / "store", **values,
    )  # fmt: skip
    assert record.status == "finished"
    assert record.steps == (3 if setting == "sup" else 0)
