"""Forward passes without padding equal the padded ones, and do no work for padding."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from harness.data.batching import TextBatch, interleaved
from harness.encoders import unpadding
from harness.encoders.backbone import Encoder
from harness.encoders.reach import Reach, WordVectors, first_replaced
from harness.encoders.unpadding import (
    FAMILIES,
    ROOMS,
    TOKENS_MULTIPLE,
    Padded,
    Unpadded,
    layout_of,
    room_for,
)
from harness.errors import TrialFailure
from methods.diffaug.adapters import LowRankModules
from tests.rows_and_models import (
    LENGTHS,
    LONGEST,
    ROWS,
    WIDTH,
    ends,
    prefix_of,
    random_model,
    text,
)  # fmt: skip

Watch = Callable[[Any], Any]
Blocks = Callable[[TextBatch], TextBatch]


BUCKET, BUCKET_OF_ROWS = "bucket", "bucket of rows of any length"


@pytest.fixture(
    params=[0.0, 0.3, 1.0, None, BUCKET, BUCKET_OF_ROWS],
    ids=["equally long rows", "similar rows", "all rows", "rows of any length", BUCKET,
         BUCKET_OF_ROWS],
)  # fmt: skip
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Blocks:
    """Which rows attention takes together: from those of one length to all, as on a GPU.

    None: it takes all without padding, as flash attention does there. A bucket: the encoder knows
    nothing but shapes, as in a captured step. Returns a function that makes a batch one for it.
    """
    if request.param in (None, BUCKET_OF_ROWS):
        request.getfixturevalue("flash")
    elif request.param != BUCKET:
        monkeypatch.setitem(unpadding.MOST_PADDING, "cpu", request.param)
    return roomy if request.param in (BUCKET, BUCKET_OF_ROWS) else lambda batch: batch


def roomy(batch: TextBatch) -> TextBatch:
    """A batch of a captured step, with room for some of the padding."""
    mask = batch.attention_mask
    room = room_for(int(mask.sum()), mask.numel())
    assert mask.sum() <= room <= mask.numel()
    return replace(batch, room=room, host_mask=None)


def encoder_of(folder: Path) -> Encoder:
    return Encoder(str(folder), dropout=0.0).train()


def both(
    encoder: Encoder, compute: Callable[[], Tensor], *leaves: Tensor
) -> list[tuple[Tensor, list[Tensor]]]:
    """The result, and the gradients of encoder and leaves: unpadded, then padded."""
    results = []
    for unpads in (True, False):
        encoder.unpads = unpads
        parameters = [*encoder.parameters(), *leaves]
        result = compute()
        weights = torch.linspace(-1, 1, result.numel()).view_as(result)
        gradients = torch.autograd.grad((result * weights).sum(), parameters, allow_unused=True)
        results.append((result.detach(), [each for each in gradients if each is not None]))
    return results


def assert_equal(found: list[tuple[Tensor, list[Tensor]]]) -> None:
    (one, ours), (two, theirs) = found
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)
    assert len(ours) == len(theirs) > 0
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine - other).abs().max() <= 1e-5 * max(1.0, other.abs().max().item())


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gives_the_same(family: str, tmp_path: Path, blocks: Blocks) -> None:
    encoder, batch = encoder_of(random_model(family, tmp_path)), blocks(text())
    real = batch.attention_mask.bool()
    assert isinstance(layout_of(batch.attention_mask, unpad=encoder.unpads), Unpadded)
    assert_equal(both(encoder, lambda: encoder(batch)[real]))
    assert_equal(both(encoder, lambda: torch.stack(encoder.layers(batch))[:, real]))
    assert_equal(both(encoder, lambda: encoder.cls(batch)))
    assert_equal(both(encoder, lambda: encoder.at(batch, ends(batch), position_offset=3)))


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("esm", {"position_embedding_type": "rotary"}),
        ("modernbert", {}),
        ("bert", {"is_decoder": True}),
        ("bert", {"chunk_size_feed_forward": 1}),
    ],
)
def test_others_keep_their_padding(family: str, options: Any, tmp_path: Path) -> None:
    encoder = encoder_of(random_model(family, tmp_path, **options)).eval()
    assert not encoder.unpads
    assert isinstance(layout_of(text().attention_mask, unpad=encoder.unpads), Padded)
    assert encoder(text()).isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("visible", [False, True])
@pytest.mark.parametrize("one", [False, True])
def test_prefixes_of_each_row(tiny_encoder: Path, visible: bool, one: bool, blocks: Blocks) -> None:
    encoder, batch = encoder_of(tiny_encoder), blocks(text())
    prefix, made = prefix_of(visible)
    reach: Reach = {"prefix": prefix, "position_offset": 3}

    def compute() -> Tensor:
        if one:
            return encoder.at(batch, ends(batch), **reach)
        return encoder(batch, **reach)[batch.attention_mask.bool()]

    assert_equal(both(encoder, compute, *made))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["words", "edit", "positions"])
def test_other_places_that_methods_reach(tiny_roberta: Path, kind: str, blocks: Blocks) -> None:
    encoder, batch = encoder_of(tiny_roberta), blocks(text([9, 2, 12, 4, 9, 5, 12]))
    torch.manual_seed(2)
    vectors = torch.randn(2, WIDTH, requires_grad=True)
    rows = torch.randn(ROWS, WIDTH, requires_grad=True)
    behind = torch.stack([torch.zeros(ROWS, dtype=torch.long), ends(batch)], dim=1)
    reach: Reach = {"positions": torch.randperm(20).expand(ROWS, -1)[:, :LONGEST]}
    if kind == "words":
        reach = {"words": WordVectors(behind, vectors)}
    if kind == "edit":
        reach = {"edit": first_replaced(rows)}
    leaves = {"words": [vectors], "edit": [rows], "positions": []}[kind]
    real = batch.attention_mask.bool()
    assert_equal(both(encoder, lambda: encoder(batch, **reach)[real], *leaves))
    assert_equal(both(encoder, lambda: encoder.cls(batch, **reach), *leaves))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adapter", "lora"])
def test_low_rank_modules_of_each_row(tiny_encoder: Path, kind: Any, blocks: Blocks) -> None:
    encoder, batch = encoder_of(tiny_encoder), blocks(text())
    modules = LowRankModules(encoder, kind, rank=4)
    for parameter in modules.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    reach = modules.reach(ROWS, torch.arange(ROWS) % 2)
    real = batch.attention_mask.bool()
    leaves = list(modules.parameters())
    assert_equal(both(encoder, lambda: encoder(batch, **reach)[real], *leaves))
    assert_equal(both(encoder, lambda: encoder.at(batch, ends(batch), **reach), *leaves))


def test_a_mask_may_have_holes(tiny_encoder: Path) -> None:
    """A plugin may hide any token, the first one included."""
    encoder, batch = encoder_of(tiny_encoder), text()
    mask = batch.attention_mask.clone()
    mask[:, 0] = mask[2, 7] = 0
    batch = batch.replaced(batch.input_ids, mask)
    assert isinstance(layout_of(batch.attention_mask, unpad=True), Padded)
    whole = torch.where(mask.bool(), batch.input_ids, 7)
    torch.testing.assert_close(
        encoder(batch)[mask.bool()], encoder(batch.replaced(whole, mask))[mask.bool()]
    )


def test_linear_layers_and_norms_see_real_tokens_and_a_short_tail(
    tiny_encoder: Path, watch: Watch
) -> None:
    encoder, batch = encoder_of(tiny_encoder), text()
    first, last = encoder.model.encoder.layer
    seen = {
        name: watch(module)
        for name, module in {
            "words": encoder.model.embeddings.word_embeddings,
            "query": first.attention.self.query,
            "norm": first.attention.output.LayerNorm,
            "dense": first.intermediate.dense,
            "last": last.intermediate.dense,
        }.items()
    }
    encoder.cls(batch)
    shapes = {name: tuple(calls.given[0][0][0].shape[:2]) for name, calls in seen.items()}
    tokens = (1, -(-sum(LENGTHS) // TOKENS_MULTIPLE) * TOKENS_MULTIPLE)
    assert shapes == {
        "words": tokens, "query": tokens, "norm": tokens, "dense": tokens, "last": (ROWS, 1)
    }  # fmt: skip


def test_states_at_padding_are_computed_where_they_are_asked_for(tiny_encoder: Path) -> None:
    encoder, batch = encoder_of(tiny_encoder).eval(), text()
    padding = ~batch.attention_mask.bool()
    assert (encoder(batch)[padding] == 0).all()
    asked = encoder(batch, padding=True)
    encoder.unpads = False
    assert torch.equal(asked, encoder(batch))
    assert (asked[padding].abs().amax(dim=1) > 0).all()


def test_nobody_can_ask_for_the_state_of_padding(tiny_encoder: Path) -> None:
    with pytest.raises((IndexError, RuntimeError)):
        encoder_of(tiny_encoder).at(text(), 1)  # a row has one token


def test_a_row_without_tokens_is_read_padded(tiny_encoder: Path) -> None:
    encoder, batch = encoder_of(tiny_encoder).eval(), text([4, 2, 3])
    mask = batch.attention_mask.clone()
    mask[1] = 0
    emptied = batch.replaced(batch.input_ids, mask)
    found, whole = encoder(emptied), encoder(batch)
    torch.testing.assert_close(found[mask.bool()], whole[mask.bool()], rtol=1e-5, atol=1e-5)


def test_the_same_seed_draws_the_same_dropout(tiny_encoder: Path) -> None:
    encoder, vectors = Encoder(str(tiny_encoder)).train(), []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        vectors.append(encoder.cls(text()))
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.equal(vectors[0], vectors[2])
    twice = encoder.cls(text().repeated(2))
    assert (twice[::2] - twice[1::2]).abs().amax(dim=1).min() > 1e-3, "each row has its own"


def test_bf16(tiny_encoder: Path, blocks: Blocks) -> None:
    encoder, batch = encoder_of(tiny_encoder), blocks(text())
    prefix, made = prefix_of(visible=False)
    precise = encoder.cls(batch, prefix=prefix)
    with torch.autocast("cpu", torch.bfloat16):
        found = encoder.cls(batch, prefix=prefix)
    found.float().square().sum().backward()
    torch.testing.assert_close(found.float(), precise, rtol=0.1, atol=0.1)
    assert all(each.grad is not None and each.grad.isfinite().all() for each in made)


def test_a_batch_on_a_gpu_still_knows_its_mask() -> None:
    """The device `meta` cannot be read, as a GPU cannot be without waiting for it."""
    batch = text().to(torch.device("meta"))
    assert torch.equal(batch.host_mask, text().attention_mask)
    twice = batch.repeated(2)
    assert torch.equal(twice.host_mask, text().repeated(2).attention_mask)
    assert torch.equal(twice.view(1).host_mask, text().attention_mask)
    kept = batch.replaced(batch.input_ids + 1, batch.attention_mask)
    assert torch.equal(kept.host_mask, text().attention_mask)
    layout = layout_of(batch.attention_mask, unpad=True, host_mask=batch.host_mask)
    assert isinstance(layout, Unpadded)
    assert layout.tokens(batch.input_ids).shape == (1, 2 * TOKENS_MULTIPLE)
    changed = batch.replaced(batch.input_ids, batch.attention_mask.clone())
    assert changed.host_mask is None, "another mask is not known"
    assert interleaved(batch, batch, 0).host_mask is None
    assert batch.to(torch.device("meta")).host_mask is batch.host_mask


def test_families_are_kinds_of_models() -> None:
    assert set(FAMILIES) <= set(transformers.CONFIG_MAPPING)


def test_few_rooms_have_place_for_all_tokens() -> None:
    for places in (1, 31, 128, 64 * 32, 1000):
        rooms = [room_for(tokens, places) for tokens in range(1, places + 1)]
        assert all(tokens <= room <= places for tokens, room in enumerate(rooms, start=1))
        assert len({*rooms}) <= ROOMS
    assert {room % TOKENS_MULTIPLE for room in map(room_for, range(1, 2049), [2048] * 2048)} == {0}


@pytest.mark.parametrize("room", [64, ROWS * LONGEST])
def test_room_is_kept_through_changes_of_a_batch(room: int) -> None:
    """The room is always enough, and where nothing is known, it is all places."""
    batch = replace(text(), room=room)
    twice = batch.repeated(2)
    assert twice.room == 2 * room
    assert batch.replaced(batch.input_ids + 1, batch.attention_mask).room == room
    other = torch.ones(ROWS, LONGEST + 2, dtype=torch.long)
    everything = [
        batch.replaced(other, other), interleaved(batch, batch, 0), batch.rows(slice(0, 2)),
        replace(batch, views=ROWS).view(0),
    ]  # fmt: skip
    for each in everything:
        assert each.room is not None
        assert each.attention_mask.sum() <= each.room <= each.attention_mask.numel()
    with pytest.raises(TrialFailure, match="cuda_graphs=false"):
        _ = batch.mask_on_host
