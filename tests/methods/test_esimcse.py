"""ESimCSE against esimcse.md."""

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from harness.data.batching import Stream, StreamOptions, TextBatch
from harness.plugin.kit import Kit
from harness.training.loop import Trainer
from methods.esimcse.repetition import repeated_pieces
from tests.families import FAMILIES
from tests.methods.references import KitFor, array, build, info_nce, watched

SWITCHED_OFF = {"repetition_rate": 0, "queue_ratio": 0}


def batches(kit: Kit, method: Any, count: int = 1, size: int = 6) -> list[TextBatch]:
    endless = Stream(
        kit.tokens(kit.config.sentences),
        method.template,
        StreamOptions(limit=method.training_pieces, batch_size=size, seed=0),
    )
    return list(islice((batch for batch in endless if len(batch.items) == size), count))


def loss_of(method: Any, texts: TextBatch) -> Tensor:
    (stage,) = method.stages(method.config)
    found: dict[str, Tensor] = method.losses(method.prepared({"contrastive": texts}, stage), stage)
    assert set(found) == {"contrastive"}
    return found["contrastive"]


@FAMILIES
def test_the_queue_is_negatives_for_every_row_and_filled_after_the_loss(kit_for: KitFor) -> None:
    """Three batches of 6, room for 15: 0, 6 and 12 negatives; then the oldest 3 are gone."""
    kit = kit_for("esimcse", batch_size=6, queue_ratio=2.5)
    method = build(kit)
    (head,) = watched(method, "head")
    appended: list[np.ndarray] = []
    for number, texts in enumerate(batches(kit, method, 3)):
        head.results.clear()
        loss = loss_of(method, texts).item()
        trained, slow = (array(result) for result in head.results)
        queue = np.concatenate([np.zeros((0, 32)), *appended])
        assert len(queue) == 6 * number
        assert loss == pytest.approx(
            info_nce(trained[0::2], [*trained[1::2], *queue], 0.05), rel=1e-4
        )
        appended.append(slow)
    assert np.array_equal(array(method.queue.vectors), np.concatenate(appended)[-15:])


@FAMILIES
def test_queue_vectors_are_the_original_sentence_without_dropout_under_the_shared_head(
    kit_for: KitFor,
) -> None:
    kit = kit_for("esimcse", batch_size=6)
    method = build(kit)
    (texts,) = batches(kit, method)
    with torch.no_grad():  # so that the momentum copy differs from it
        for parameter in method.encoder.parameters():
            parameter.mul_(1.3)
    loss_of(method, texts)
    copy = method.momentum.encoder.model
    state = copy(input_ids=texts.input_ids, attention_mask=texts.attention_mask).last_hidden_state[
        :, 0
    ]
    assert torch.allclose(method.queue.vectors, method.head(state), atol=1e-6)
    assert not method.queue.vectors.requires_grad


@FAMILIES
def test_the_queue_is_empty_at_the_start_of_every_epoch(kit_for: KitFor) -> None:
    kit = kit_for("esimcse", batch_size=6)
    method = build(kit)
    (head,) = watched(method, "head")
    one, two, three = batches(kit, method, 3)
    for texts in (one, two, replace(three, epoch=1)):
        head.results.clear()
        found = loss_of(method, texts).item()
    views = array(head.results[0])
    assert found == pytest.approx(info_nce(views[0::2], views[1::2], 0.05), rel=1e-4)
    assert len(method.queue.vectors) == 6


@FAMILIES
def test_it_follows_once_per_training_forward_and_before_it_encodes(kit_for: KitFor) -> None:
    kit = kit_for("esimcse", batch_size=6, momentum=0.75)
    method = build(kit)
    with torch.no_grad():
        for parameter in method.encoder.parameters():
            parameter.add_(0.1)
    start = {name: array(value) for name, value in method.momentum.encoder.named_parameters()}
    target = {name: array(value) for name, value in method.encoder.named_parameters()}
    (texts,) = batches(kit, method)
    loss_of(method, texts)
    for name, value in method.momentum.encoder.named_parameters():
        assert np.abs(array(value) - (0.75 * start[name] + 0.25 * target[name])).max() < 1e-6, name
    assert torch.allclose(
        method.queue.vectors, method.head(method.momentum.encoder.cls(texts)), atol=1e-6
    )
    assert all(
        np.array_equal(array(value), target[name])
        for name, value in method.encoder.named_parameters()
    )


@pytest.mark.parametrize("start", ["pretrained", "random"])
def test_where_it_starts(kit_for: KitFor, start: str) -> None:
    method = build(kit_for("esimcse", momentum_start=start))
    pairs = list(
        zip(method.momentum.encoder.parameters(), method.encoder.parameters(), strict=True)
    )
    assert all(torch.equal(mine, theirs) for mine, theirs in pairs) is (start == "pretrained")


@FAMILIES
def test_view_2_repeats_pieces_the_same_way_in_every_epoch(kit_for: KitFor) -> None:
    kit = kit_for("esimcse", repetition_rate=0.6)
    method = build(kit)
    (encoder,) = watched(method, "encoder")
    (texts,) = batches(kit, method)
    loss_of(method, texts)
    loss_of(method, replace(texts, epoch=1))
    first, second = encoder.given[0][0][0], encoder.given[1][0][0]
    assert torch.equal(first.input_ids, second.input_ids)
    assert torch.equal(first.input_ids[0::2, : texts.input_ids.shape[1]], texts.input_ids)
    longer = first.attention_mask[1::2].sum(dim=1) - texts.attention_mask.sum(dim=1)
    assert longer.min() >= 0
    assert longer.max() > 0
    for row, item in enumerate(texts.items.tolist()):
        pieces = texts.input_ids[row][texts.attention_mask[row].bool()][1:-1].numpy()
        expected = repeated_pieces(pieces, item, 2, 0.6, "code").tolist()
        tokens = first.input_ids[2 * row + 1][first.attention_mask[2 * row + 1].bool()][
            1:-1
        ].tolist()
        assert tokens == expected


@FAMILIES
def test_the_paper_repeats_in_short_sentences_too(kit_for: KitFor) -> None:
    longest = []
    for rule in ("code", "paper"):
        kit = kit_for("esimcse", repetition_rate=0.1, repetition_range=rule)
        method = build(kit)
        (encoder,) = watched(method, "encoder")
        for texts in batches(kit, method, 4):
            loss_of(method, texts)
        lengths = [rows[0][0].attention_mask.sum(dim=1) for rows in encoder.given]
        longest.append(max(int((each[1::2] - each[0::2]).max()) for each in lengths))
    assert longest == [0, 2]


@FAMILIES
def test_without_both_it_is_simcse(kit_for: KitFor) -> None:
    """The weights are equal to the last bit after three steps."""
    ends = []
    for name, options in (("simcse", {}), ("esimcse", SWITCHED_OFF)):
        kit = kit_for(name, max_steps=3, **options)
        method = build(kit)
        torch.manual_seed(3)
        Trainer(method, kit, 0, lambda: 1.0, lambda _: None).run()
        ends.append(dict(method.named_parameters()))
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())


@FAMILIES
@pytest.mark.parametrize(
    ("options", "repeats", "queues"),
    [({"queue_ratio": 0}, True, False), ({"repetition_rate": 0}, False, True)],
)
def test_each_part_alone(
    kit_for: KitFor, options: dict[str, Any], repeats: bool, queues: bool
) -> None:
    kit = kit_for("esimcse", **{"repetition_rate": 0.6, **options})
    method = build(kit)
    (encoder,) = watched(method, "encoder")
    for texts in batches(kit, method, 2):
        loss_of(method, texts)
    rows = encoder.given[0][0][0]
    assert (not torch.equal(rows.attention_mask[0::2], rows.attention_mask[1::2])) is repeats
    assert hasattr(method, "momentum") is queues
    assert (method.queue.vectors is not None) is queues


def test_dropout_is_a_field(kit_for: KitFor) -> None:
    method = build(kit_for("esimcse", encoder_dropout=0.25))
    rates = {module.p for module in method.encoder.modules() if isinstance(module, nn.Dropout)}
    assert rates == {0.25}
