"""Weights are rounded once, and everything is equal to what autocast gives, bit for bit."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from harness.encoders.rounded import rounded_linears
from harness.evaluation.embedder import Embedder
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.registry import Plugin
from harness.training.loop import Trainer
from harness.training.seeds import seed_everything
from tests.kits import KitFor

CPU = torch.device("cpu")


class Roundings(TorchDispatchMode):
    """Counts how often each parameter of a module is rounded."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.names = {each.data_ptr(): name for name, each in module.named_parameters()}
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(
        self, called: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if called is torch.ops.aten._to_copy.default and args[0].data_ptr() in self.names:
            self.found[self.names[args[0].data_ptr()]] += 1
        return called(*args, **(kwargs or {}))


def trained(kit: Kit, dev: Any = None) -> tuple[Any, Counter[str]]:
    """The weights after a short training, and how often each was rounded in it."""
    seed_everything(0)
    method = kit.build()
    evaluate = (lambda: dev(method, kit)) if dev else (lambda: 0.0)
    with Roundings(method) as roundings:
        Trainer(method, kit, 0, evaluate, lambda _: None).run()
    return method.state_dict(), roundings.found


def moving(name: str) -> Plugin:
    """The method, which says that it may change every weight: autocast rounds them in each pass."""
    plugin = registry.load(name)

    class Moving(plugin.method):
        @classmethod
        def stages(cls, config: Any) -> list[Any]:
            return [replace(stage, moves=("*",)) for stage in super().stages(config)]

    return replace(plugin, declaration=Moving)


def forgetting(name: str) -> Plugin:
    """The method, whose every batch begins without the copies that autocast has rounded before."""
    plugin = registry.load(name)

    class Forgetting(plugin.method):
        def losses(self, *given: Any) -> dict[str, torch.Tensor]:
            torch.clear_autocast_cache()
            return super().losses(*given)

    return replace(plugin, declaration=Forgetting)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "values", "frozen"),
    [
        ("dcpcse", {"setting": "sup"}, "encoder."),
        ("d2cse", {}, "editor."),
        ("esimcse", {}, None),  # its copy moves
        ("simcse", {"lora_rank": 2}, "encoder."),
    ],
)
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_frozen_layers_train_the_same(
    kit_for: KitFor, name: str, values: Any, frozen: str | None, precision: str
) -> None:
    """Prompts before a frozen encoder, a generator, a moving copy, and layers with changes."""
    values = {"max_steps": 3, "learning_rate": 0.01, "precision": precision, **values}
    weights, roundings = trained(kit_for(name, **values))
    others, before = trained(kit_for(moving(name), **values))
    for key, value in weights.items():
        assert value.equal(others[key]), key
    # What the last layer folds together has a bias that is never rounded.
    once = {key for key, count in roundings.items() if count == 1 and key.endswith("weight")}
    assert all(before[key] >= 3 for key in once)
    if frozen is None:
        assert not once
        assert roundings == before
    else:
        dense = {f"layer.{number}.intermediate.dense" for number in range(2)}
        assert all(any(part in key and frozen in key for key in once) for part in dense)
        assert len(once) >= 12


def test_dev_in_the_midst_of_training(kit_for: KitFor) -> None:
    """Scores are of float32 weights, and their packed layers leave the rounded ones in place."""
    scores: list[float] = []

    def dev(method: Any, kit: Kit) -> float:
        scores.append(float(Embedder(method, kit)(["a cat", "the dog sees"]).sum()))
        return scores[-1]

    values = {"setting": "sup", "max_steps": 4, "evaluation_interval": 2, "precision": "bf16"}
    weights, roundings = trained(kit_for("dcpcse", **values), dev)
    others, _ = trained(kit_for(moving("dcpcse"), **values), dev)
    assert scores[: len(scores) // 2] == scores[len(scores) // 2 :]
    assert all(value.equal(others[key]) for key, value in weights.items())
    dense = [each for key, each in roundings.items() if key.endswith("intermediate.dense.weight")]
    assert dense
    assert max(dense) == 1


def test_trained_and_moved_layers_stay_as_they_are() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3))
    module[1:].requires_grad_(False)
    with rounded_linears(module, torch.bfloat16, ["1.bias"]):
        assert ["forward" in vars(each) for each in module] == [False, False, True]
        usual = module(torch.ones(3))  # without autocast, in float32
    assert not any("forward" in vars(each) for each in module)
    assert usual.equal(module(torch.ones(3)))
    with rounded_linears(module, None):
        assert not any("forward" in vars(each) for each in module)


@pytest.mark.slow
@pytest.mark.parametrize("values", [{"accumulation": 2}, {"accumulation": 2, "chunk_size": 4}])
def test_weights_that_train_are_rounded_once_a_step(kit_for: KitFor, values: Any) -> None:
    """Also where a step has several batches, and a batch several chunks."""
    values = {"max_steps": 2, "learning_rate": 0.01, "precision": "bf16", **values}
    weights, roundings = trained(kit_for("simcse", **values))
    layers = [key for key in roundings if key.endswith("intermediate.dense.weight")]
    assert layers
    assert {roundings[key] for key in layers} == {2}
    others, before = trained(kit_for(forgetting("simcse"), **values))
    assert min(before[key] for key in layers) >= 4
    assert all(value.equal(others[key]) for key, value in weights.items())
