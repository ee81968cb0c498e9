"""What a method carries from step to step survives being saved and loaded.

`harness check` tries it on every shipped method and setting (test_contract). Here it finds a
counter that is not saved, and the modules with state of their own are looked at one by one.
"""

import io
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.plugin.kit import Kit
from harness.plugin_check.check import problems
from harness.training.feeding import StepBatches, made, stage_streams
from harness.training.seeds import seed_everything

KitFor = Callable[..., Kit]

COUNTER = '''"""A loss that grows with the number of steps."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from harness import plugin
from harness.plugin import Kit, Stage, TextBatch


class Config(plugin.TrainingConfig):
    setting: Literal["unsup"] = "unsup"


class Method(plugin.Method[Config]):
    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"growing": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [config.stage("growing")]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.steps = 0

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        self.steps += 1
        return {"growing": self.steps * self.encoder.cls(batch["growing"]).square().mean()}

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)
'''
EXTRA_STATE = """
    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.steps)

    def set_extra_state(self, state: Tensor) -> None:
        self.steps = int(state)
"""


def plugin_file(folder: Path, text: str) -> str:
    """The name of a plugin with this text."""
    path = folder / "counter.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.slow
def test_a_counter_that_is_not_saved_is_named(tmp_path: Path) -> None:
    (problem,) = problems(plugin_file(tmp_path, COUNTER))
    assert problem.endswith(
        'counter.py:32: stage "growing": training changes self.steps, which no checkpoint holds: '
        "some state is not in a parameter, a buffer or get_extra_state()"
    )


@pytest.mark.slow
def test_the_same_counter_passes_once_it_is_saved(tmp_path: Path) -> None:
    assert problems(plugin_file(tmp_path, COUNTER + EXTRA_STATE)) == []


def trained(kit: Kit, steps: int) -> tuple[Any, list[StepBatches]]:
    """A method after some forward passes in training, and the batches that would come next."""
    seed_everything(0)
    method = kit.build().train()
    (stage,) = kit.declared.stages
    streams = stage_streams(method, kit, stage, seed=0, batch_size=8)
    batches = list(islice(made(method, stage, streams, 0), steps + 2))
    for batch in islice(batches, steps):
        method.losses(batch, stage)
    return method, batches[steps:]


def reloaded(kit: Kit, method: Any) -> Any:
    """A fresh method with the saved state of another one, through a file as a checkpoint."""
    file = io.BytesIO()
    torch.save(method.state_dict(), file)
    file.seek(0)
    fresh = kit.build().train()
    fresh.load_state_dict(torch.load(file, weights_only=True))
    return fresh


def next_losses(method: Any, kit: Kit, batches: list[StepBatches]) -> list[Tensor]:
    """The loss of each further batch, with the same dropout masks on every call."""
    torch.manual_seed(1)
    (stage,) = kit.declared.stages
    return [loss for batch in batches for loss in method.losses(batch, stage).values()]


def act_norms(method: Any) -> list[Any]:
    return [module for module in method.modules() if type(module).__name__ == "ActNorm"]


def test_the_act_norm_of_flow_is_not_fitted_again(kit_for: KitFor, sentences: Path) -> None:
    kit = kit_for("flow", corpus=str(sentences))
    method, batches = trained(kit, 1)
    again = reloaded(kit, method)
    norms = act_norms(again)
    assert len(norms) == 9 * 3
    assert not any(norm.fresh for norm in norms)
    fitted = [(norm.bias.clone(), norm.log_scale.clone()) for norm in norms]
    assert all(bias.abs().max() > 0 for bias, _ in fitted)
    assert next_losses(again, kit, batches) == next_losses(method, kit, batches)
    for norm, (bias, log_scale) in zip(norms, fitted, strict=True):
        assert norm.bias.equal(bias)
        assert norm.log_scale.equal(log_scale)


def test_an_act_norm_before_its_first_batch_is_still_fitted(
    kit_for: KitFor, sentences: Path
) -> None:
    kit = kit_for("flow", corpus=str(sentences))
    method, batches = trained(kit, 0)
    again = reloaded(kit, method)
    assert all(norm.fresh for norm in act_norms(again))
    assert next_losses(again, kit, batches) == next_losses(method, kit, batches)


def test_the_queue_of_esimcse_goes_on(kit_for: KitFor) -> None:
    """50 sentences in batches of 8 are 7 batches: the state is one in the second epoch."""
    kit = kit_for("esimcse")
    method, batches = trained(kit, 9)
    again = reloaded(kit, method)
    assert 8 < len(method.queue.vectors) < 20, "neither empty nor full"
    assert again.queue.vectors.equal(method.queue.vectors)
    assert batches[0]["contrastive"].epoch == 1, "another epoch would empty the queue"
    assert next_losses(again, kit, batches) == next_losses(method, kit, batches)
    assert len(again.queue.vectors) == 20, "2.5 batches"
    assert again.queue.vectors.equal(method.queue.vectors)
