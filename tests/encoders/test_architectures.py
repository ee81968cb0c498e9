"""Every architecture gives what transformers gives, with and without what methods reach into."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, AutoModel, DynamicCache, T5Config, T5Model

from harness.choices import Decoding
from harness.data.batching import TextBatch
from harness.data.tokens import Template, load_tokenizer
from harness.data.weight_contents import parameter_count
from harness.encoders.backbone import Encoder
from harness.encoders.pretrained import check_loadable
from harness.errors import UserError
from harness.modules.prompts import DeepPrompts
from harness.plugin.kit import Kit
from tests.architectures import ARCHITECTURES, GROUPED, SIZES, save

LENGTHS = [6, 4, 1]
ALL = pytest.mark.parametrize("name", ARCHITECTURES)
DECODERS = pytest.mark.parametrize(
    "name", [name for name, found in ARCHITECTURES.items() if found.decoder]
)
NO_PROMPTS = {
    "MPNet": "computes its attention in a way of its own",
    "DeBERTa-v3": "computes its attention in a way of its own",
    "ALBERT": "layers do not have an attention each",
}
Saved = Callable[..., Path]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """saved(name): the folder of a random model of an architecture."""
    made: dict[str, Path] = {}

    def folder_of(name: str) -> Path:
        if name not in made:
            made[name] = save(name, tmp_path_factory.mktemp("tiny"))
        return made[name]

    return folder_of


@pytest.fixture
def batch() -> TextBatch:
    """Three rows of 6, 4 and 1 tokens."""
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    ids = torch.randint(5, 200, mask.shape, generator=torch.Generator().manual_seed(0))
    return TextBatch(ids * mask, mask, torch.arange(3))


def expected(folder: Path, batch: TextBatch, *, causal: bool = True) -> Tensor:
    """States that transformers gives with its own attention, (rows, length, H)."""
    config = AutoConfig.from_pretrained(folder)
    config.is_causal = causal
    model = AutoModel.from_pretrained(
        folder, config=config, attn_implementation="eager", dtype=torch.float64
    ).eval()
    output = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask)
    states: Tensor = output.last_hidden_state
    return states


def largest(one: Tensor, other: Tensor, batch: TextBatch) -> float:
    """The largest difference at real tokens."""
    return (one - other)[batch.attention_mask.bool()].abs().max().item()


@pytest.mark.slow
@ALL
def test_equals_transformers(name: str, saved: Saved, batch: TextBatch) -> None:
    folder = saved(name)
    check_loadable(str(folder))
    encoder = Encoder(str(folder)).double().eval()
    states = expected(folder, batch)
    # Norms of Llama's kind compute in float32, whatever the weights are.
    assert largest(encoder(batch), states, batch) < 1e-5
    rows, last = torch.arange(3), torch.tensor(LENGTHS) - 1
    own = states[rows, last] if ARCHITECTURES[name].decoder else states[:, 0]
    assert (encoder.cls(batch) - own).abs().max() < 1e-5
    assert largest(encoder.layers(batch)[-1], states, batch) < 1e-5
    full = TextBatch(*(torch.ones(1, encoder.longest).long() for _ in range(2)), torch.arange(1))
    assert encoder.longest in (66, 65, 64), "66 positions, of which a family may leave the first"
    assert encoder(full).isfinite().all()
    assert parameter_count(str(folder)) == sum(each.numel() for each in encoder.parameters())


@pytest.mark.slow
@DECODERS
@pytest.mark.parametrize("weighted", [False, True])
def test_a_decoder_that_sees_all_tokens_and_averages(
    name: str, weighted: bool, saved: Saved, batch: TextBatch
) -> None:
    decoding = Decoding("weighted-mean" if weighted else "mean", "bidirectional")
    vectors = Encoder(str(saved(name)), decoding=decoding).double().eval().cls(batch)
    states = expected(saved(name), batch, causal=False)
    for row, length in enumerate(LENGTHS):
        weights = torch.arange(1, length + 1) if weighted else torch.ones(length)
        mean = (states[row, :length] * weights[:, None]).sum(dim=0) / weights.sum()
        assert (vectors[row] - mean).abs().max() < 1e-5


@pytest.mark.slow
@ALL
def test_prompts_change_a_row_as_if_it_were_alone(
    name: str, saved: Saved, batch: TextBatch
) -> None:
    encoder = Encoder(str(saved(name))).double().eval()
    if why := NO_PROMPTS.get(name):
        with pytest.raises(UserError, match=why):
            DeepPrompts(encoder, 3)
        return
    prompts = DeepPrompts(encoder, 3).double().eval()
    with torch.no_grad():
        prompts.table.normal_()
    plain, prompted = encoder(batch), encoder(batch, **prompts.reach(batch))
    for row, length in enumerate(LENGTHS):
        alone = TextBatch(
            batch.input_ids[row : row + 1, :length],
            torch.ones(1, length, dtype=torch.long),
            torch.arange(1),
        )
        own = encoder(alone, **prompts.reach(alone))[0]
        assert (own - prompted[row, :length]).abs().max() < 1e-5
        assert ((plain - prompted)[row, :length].abs().amax(dim=1) > 0.01).all()
    prompted.pow(2).sum().backward()
    slots = prompts.table.grad.view(3, 2 * encoder.model.config.num_hidden_layers, -1)
    assert (slots.abs().amax(dim=(0, 2)) > 0).all(), "a layer has no prompts"


def test_prompts_of_a_decoder_are_a_cache_of_keys(saved: Saved, batch: TextBatch) -> None:
    """transformers' own way of putting keys and values in front, as peft's prefix tuning has it."""
    encoder = Encoder(str(saved("Llama"))).double().eval()
    prompts = DeepPrompts(encoder, 3).double().eval()
    with torch.no_grad():
        prompts.table.normal_()
    key_values = prompts(3)
    assert key_values.keys[0].shape[1] == GROUPED["num_key_value_heads"]
    cache = DynamicCache()
    for layer, pair in enumerate(zip(key_values.keys, key_values.values, strict=True)):
        cache.update(*pair, layer)
    plain = AutoModel.from_pretrained(
        saved("Llama"), attn_implementation="eager", dtype=torch.float64
    ).eval()
    output = plain(
        input_ids=batch.input_ids,
        attention_mask=torch.cat([torch.ones(3, 3).long(), batch.attention_mask], dim=1),
        past_key_values=cache,
    )
    found = encoder(batch, **prompts.reach(batch))
    assert largest(found, output.last_hidden_state, batch) < 1e-5


@pytest.mark.slow
@ALL
def test_dropout_is_set_whatever_the_family_calls_it(
    name: str, saved: Saved, batch: TextBatch
) -> None:
    torch.manual_seed(0)
    texts = batch.repeated(2)
    dropped = Encoder(str(saved(name)), dropout=0.5).train()
    one, other = texts.split(dropped.cls(texts))
    assert (one - other).abs().max() > 0.01
    still = Encoder(str(saved(name)), dropout=0.0).train()
    with pytest.raises(UserError, match=r"two views of a sentence are the same.*encoder_dropout"):
        still.cls(texts)
    again = still.cls(batch)
    assert (again - still.cls(batch)).abs().max() < 1e-6, "something is still random"


def test_views_differ_by_prompts_or_edits_as_well(saved: Saved, batch: TextBatch) -> None:
    encoder = Encoder(str(saved("Llama"))).train()
    prompts = DeepPrompts(encoder, 3)
    prompts.dropout = 0.1
    texts = batch.repeated(2)
    assert encoder.cls(texts, **prompts.train().reach(texts)).isfinite().all()
    edited = texts.replaced(texts.input_ids + 1, texts.attention_mask)
    assert Encoder(str(saved("Llama"))).train().cls(edited).isfinite().all()


@pytest.mark.parametrize(
    ("name", "ends", "begin", "end"),
    [
        ("BERT", True, ["[CLS]"], ["[SEP]"]),
        ("Llama", True, ["[CLS]"], ["[SEP]"]),
        ("Llama", False, ["[CLS]"], []),
        ("Qwen3", True, [], ["[SEP]"]),
    ],
)
def test_what_stands_around_a_sentence(
    name: str, ends: bool, begin: list[str], end: list[str], saved: Saved
) -> None:
    tokenizer = load_tokenizer(str(saved(name)), ends=ends)
    template = Template.plain(tokenizer)
    found = [tokenizer.convert_ids_to_tokens(list(part)) for part in (template.begin, template.end)]
    assert found == [begin, end]
    assert tokenizer.pad_token_id is not None


def stored_in_bf16(folder: Path, target: Path) -> Path:
    """The same model with its weights in bf16, in two files."""
    for path in folder.iterdir():
        if path.name != "model.safetensors":
            (target / path.name).write_bytes(path.read_bytes())
    stored = load_file(folder / "model.safetensors")
    weights = {name: value.bfloat16() for name, value in stored.items()}
    names, weight_map = sorted(weights), dict[str, str]()
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({name: weights[name] for name in part}, target / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    index = {"metadata": {}, "weight_map": weight_map}
    (target / "model.safetensors.index.json").write_text(json.dumps(index))
    return target


@pytest.mark.parametrize(
    ("method", "more", "dtype"),
    [
        ("dcpcse", {"setting": "sup", "precision": "auto"}, torch.bfloat16),
        ("dcpcse", {"setting": "sup", "precision": "fp32"}, torch.float32),
        ("simcse", {"setting": "sup", "precision": "auto"}, torch.float32),
        ("pooling", {}, torch.bfloat16),
    ],
)
def test_frozen_weights_in_bf16_stay_so(
    method: str, more: Any, dtype: Any, saved: Saved, tmp_path: Path, kit_for: Callable[..., Kit]
) -> None:
    folder = stored_in_bf16(saved("Llama"), tmp_path)
    check_loadable(str(folder))
    built = kit_for(method, encoder=str(folder), **more).build()
    assert {each.dtype for each in built.encoder.parameters()} == {dtype}
    own = [each for name, each in built.named_parameters() if not name.startswith("encoder.")]
    assert {each.dtype for each in own} <= {torch.float32}


def test_an_encoder_with_a_decoder_is_refused(tmp_path: Path) -> None:
    sizes = {"vocab_size": 40, "d_model": 16, "num_layers": 1, "num_heads": 2, "d_ff": 16}
    T5Model(T5Config(d_kv=8, **sizes)).save_pretrained(tmp_path)
    for load in (check_loadable, Encoder):
        with pytest.raises(UserError, match="is an encoder and a decoder in one: choose"):
            load(str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "sizes", "longest", "prompts"),
    [
        ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}, 40, True),
        ("phi3", SIZES, 66, True),
        ("camembert", SIZES, 65, True),
        ("data2vec-text", SIZES, 65, True),
        ("nomic_bert", SIZES, 66, True),
        ("gemma2", {**SIZES, "num_key_value_heads": 2, "head_dim": 8}, 66, False),
        ("bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4}, 512, False),
        ("mamba", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}, 512, False),
        ("xlm", {"emb_dim": 32, "n_layers": 2, "n_heads": 4}, 512, False),
        ("nystromformer", SIZES, 64, False),
    ],
)
def test_families_that_no_list_names(
    kind: str, sizes: dict[str, Any], longest: int, prompts: bool, tmp_path: Path, batch: TextBatch
) -> None:
    """They number positions from elsewhere, or not at all, and have attentions of all kinds."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, vocab_size=300, pad_token_id=0, **sizes)
    AutoModel.from_config(config).save_pretrained(tmp_path)
    encoder = Encoder(str(tmp_path)).eval()
    model = AutoModel.from_pretrained(tmp_path, dtype=torch.float32).eval()
    states = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask)
    assert largest(encoder(batch), states.last_hidden_state, batch) < 1e-5
    assert (encoder.longest, encoder.hidden_size) == (longest, 32)
    if prompts:
        DeepPrompts(encoder, 3)
    else:
        with pytest.raises(UserError, match="deep prompts have no place in encoder"):
            DeepPrompts(encoder, 3)


def test_a_decoder_that_cannot_look_ahead_is_refused(tmp_path: Path) -> None:
    config = AutoConfig.for_model("mamba", vocab_size=40, hidden_size=16, num_hidden_layers=1)
    AutoModel.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="sees no later tokens, whatever is asked of it: set"):
        Encoder(str(tmp_path), decoding=Decoding("mean", "bidirectional"))
