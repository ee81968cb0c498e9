"""Chunks of a batch: the loss and the gradients of the whole batch, with less memory."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import checkpoint
from torch.utils._pytree import tree_leaves

from harness.data.batching import TextBatch
from harness.device import device
from harness.encoders.backbone import Encoder
from harness.losses.info_nce import info_nce
from harness.plugin.kit import Kit
from harness.training.feeding import made, stage_streams
from harness.training.seeds import seed_everything
from tests.kits import KitFor

TEXTS = [["the cat", "a dog runs home"], ["one two three four", "two"], ["five", "six seven"]]


def gradients(module: nn.Module) -> dict[str, Tensor]:
    return {
        name: each.grad.clone() for name, each in module.named_parameters() if each.grad is not None
    }


def step(kit: Kit, *, keeps: bool = False) -> tuple[float, dict[str, Tensor], int]:
    """The loss and the gradients of a first step, and the bytes that were kept for them.

    keeps: whether the models keep all their activations, also where chunks are computed again.
    """
    seed_everything(0)
    method = kit.build().train()
    (stage,) = kit.declared.stages
    batch = next(made(method, stage, stage_streams(method, kit, stage, seed=0), 0))
    kept: dict[int, int] = {}

    def keep(value: Tensor) -> Tensor:
        kept[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    keeping = torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value)
    for encoder in method.modules():
        if keeps and isinstance(encoder, Encoder):
            # What is asked for last decides, and this is inside of a chunk.
            encoder.model.register_forward_pre_hook(lambda *_: keeping.__enter__())
            encoder.model.register_forward_hook(lambda *_: keeping.__exit__())
    with keeping:
        loss = torch.stack(list(method.losses(batch, stage).values())).sum()
    weights = {each.untyped_storage().data_ptr() for each in method.parameters()}
    memory = sum(kept[each] for each in kept.keys() - weights)
    loss.backward()
    return loss.item(), gradients(method), memory


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "values"),
    [("simcse", {}), ("dcpcse", {"prompt_length": 3}), ("promptbert", {}), ("diffcse", {})],
)
def test_a_chunk_repeats_its_dropout(kit_for: KitFor, method: str, values: dict[str, Any]) -> None:
    """The same chunks with all their activations kept are the reference, on a GPU where one is."""
    kit = Kit(kit_for(method, batch_size=40, chunk_size=8, **values).declared, device())
    loss, gradients, memory = step(kit)
    expected_loss, expected, whole = step(kit, keeps=True)
    assert loss == expected_loss
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-6, atol=1e-7)
    assert memory < whole / 2


@pytest.mark.slow
def test_torch_is_shown_where_a_chunk_lies(kit_for: KitFor) -> None:
    """Random states of GPUs are restored for those of the tensors among the arguments alone."""
    tensors: list[list[Tensor]] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_name, frame.f_code.co_filename
        if event == "call" and name == ("checkpoint", checkpoint.__file__):
            shown = tree_leaves(frame.f_locals["args"])
            tensors.append([each for each in shown if isinstance(each, Tensor)])

    kit = kit_for("simcse", batch_size=16, chunk_size=8)
    sys.setprofile(look)
    try:
        step(kit)
    finally:
        sys.setprofile(None)
    assert len(tensors) > 1
    assert all(tensors)


@pytest.mark.slow
def test_the_gradients_of_sentence_transformers(tiny_encoder: Path) -> None:
    """Its cached loss is GradCache by another implementation."""
    from sentence_transformers import SentenceTransformer  # for a second
    from sentence_transformers.sentence_transformer import losses, modules

    body = modules.Transformer(str(tiny_encoder))
    theirs = SentenceTransformer(modules=[body, modules.Pooling(32, pooling_mode="cls")])
    loss = losses.CachedMultipleNegativesRankingLoss(theirs, scale=20.0, mini_batch_size=2)
    ours = Encoder(str(tiny_encoder), dropout=0.0, chunk_size=2).train()
    for module in theirs.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    theirs.train()
    columns = list(zip(*TEXTS, strict=True))
    features = [theirs.tokenize(list(column)) for column in columns]
    expected = loss(features, torch.zeros(len(TEXTS)))
    expected.backward()
    vectors = [
        ours.cls(TextBatch(each["input_ids"], each["attention_mask"], torch.arange(len(TEXTS))))
        for each in features
    ]
    found = info_nce(*vectors, temperature=0.05)
    found.backward()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    wanted = {
        name.split("auto_model.")[-1].split("model.")[-1]: value
        for name, value in gradients(theirs).items()
    }
    for name, gradient in gradients(ours.model).items():
        torch.testing.assert_close(gradient, wanted[name], rtol=1e-4, atol=1e-6, msg=name)
