"""Every method computes the same without padding, and where it keeps no activations.

Losses, gradients and embeddings are compared.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.encoders.backbone import Encoder
from harness.encoders.unpadding import Unpadded, layout_of
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.method import FrozenMethod
from harness.training.feeding import made, stage_streams
from tests.families import ENCODERS
from tests.method_cases import CASES, IDS, mixed, values_of, without_dropout

KitFor = Callable[..., Kit]
ENCODERLESS = {"glove", "sentence_transformer"}
"""Methods that do not read with an `Encoder`: word vectors, and the library's own model"""

CHECKPOINTED = [
    "simcse-0.1-0.5", "esimcse-2.0", "consert-sup-adversarial-shuffle", "sbert", "promptbert",
    "promptbert-sup", "dcpcse-True-0.5", "dcpcse-shallow", "d2cse-True-mean_nonpad",
    "d2cse-sup-copy-sum", "diffcse-sup-corrective", "diffcse-masked-language", "diffaug",
    "flow-last-two",
]  # fmt: skip
"""Cases of every way to reach into an encoder, some of them with a gradient through a gradient"""


def test_all_methods_are_here() -> None:
    assert {name for name, _ in CASES} == set(registry.sources()) - ENCODERLESS


@pytest.fixture(params=ENCODERS)
def encoder(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def make(kit_for: KitFor, encoder: str, pairs: Path, triplets: Path) -> KitFor:
    """make(method, **options): a kit whose batches mix sentences of all lengths."""

    def kit_of(name: str, **options: Any) -> Kit:
        return kit_for(name, **values_of(name, options, encoder, triplets, pairs))

    return kit_of


def built(kit: Kit, *, unpads: bool) -> Any:
    """The method without dropout, which would draw other numbers where padding is left out."""
    method = without_dropout(kit)
    for module in method.modules():
        if isinstance(module, Encoder):
            assert module.unpads
            module.unpads = unpads
    return method


def run(kit: Kit, *, unpads: bool) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Tensors that a method computes, and the gradients of what its stages train."""
    method = built(kit, unpads=unpads).train()
    results: dict[str, Tensor] = {}
    gradients: dict[str, Tensor] = {}
    for stage in kit.declared.stages:
        streams = stage_streams(method, kit, stage, seed=0)
        batches = made(method, stage, streams, 0)
        for step in range(2):  # a queue of negatives is empty in the first one
            batch = next(batches)
            torch.manual_seed(step)
            losses = method.losses(batch, stage)
            method.zero_grad()
            torch.stack(list(losses.values())).sum().backward()
            results |= {f"{stage.name} {step} {name}": loss for name, loss in losses.items()}
            gradients |= {
                f"{stage.name} {step} {name}": parameter.grad.clone()
                for name, parameter in method.named_parameters()
                if parameter.grad is not None
            }
    method.eval()
    texts = mixed(kit, method)
    embeds = [method.base] if isinstance(method, FrozenMethod) else [method.embed, method.embed_dev]
    with torch.no_grad():
        results |= {f"vectors of {embed.__name__}": embed(texts) for embed in embeds}
    return results, gradients


def assert_same(
    one: tuple[dict[str, Tensor], dict[str, Tensor]],
    other: tuple[dict[str, Tensor], dict[str, Tensor]],
) -> None:
    """Compare what two runs compute, and their gradients."""
    (found, gradients), (expected, wanted) = one, other
    assert found.keys() == expected.keys()
    for part, value in found.items():
        torch.testing.assert_close(value, expected[part], rtol=1e-5, atol=1e-5, msg=part)
    assert gradients.keys() == wanted.keys()
    # Of a loss that is a sum over hundreds of tokens, gradients have fewer digits, too.
    scale = max([1.0, *(loss.item() for loss in expected.values() if loss.ndim == 0)])
    for part, gradient in gradients.items():
        # Some gradients are 0 but for rounding, such as those of the biases of keys, so the
        # largest one of the step is the measure.
        step = f"{part.rsplit(' ', 1)[0]} "
        largest = max(other.abs().max() for name, other in wanted.items() if name.startswith(step))
        measure = min(largest, max(scale, wanted[part].abs().max()))
        assert (gradient - wanted[part]).abs().max() <= 1e-5 * measure, part


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_the_same_as_with_padding(make: KitFor, name: str, options: dict[str, Any]) -> None:
    kit = make(name, **options)
    assert_same(*(run(kit, unpads=each) for each in (True, False)))


@pytest.mark.slow
@pytest.mark.parametrize("case", CHECKPOINTED)
def test_the_same_with_gradient_checkpointing(make: KitFor, case: str) -> None:
    name, options = CASES[IDS.index(case)]
    kits = (make(name, **options, gradient_checkpointing=each) for each in (True, False))
    assert_same(*(run(kit, unpads=True) for kit in kits))


def test_the_batches_mix_lengths(make: KitFor) -> None:
    """Otherwise the comparison would compare padded passes with padded ones."""
    for name in ("simcse", "sbert", "diffaug"):
        kit = make(name)
        method = kit.build()
        for stage in kit.declared.stages:
            for stream in stage_streams(method, kit, stage, seed=0).values():
                batch = next(iter(stream))
                lengths = batch.attention_mask.sum(dim=1)
                assert lengths.max() >= lengths.min() + 5
                assert isinstance(layout_of(batch.attention_mask, unpad=True), Unpadded)
