"""A plugin may keep state of its own from step to step, where it saves it.

What is not saved is named by tests/plugin/test_faults.py, and what shipped methods keep goes on in
tests/training/test_resume.py.
"""

from pathlib import Path

import pytest

from harness.plugin_check.check import problems

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

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.steps)

    def set_extra_state(self, state: Tensor) -> None:
        self.steps = int(state)
'''


@pytest.mark.slow
def test_a_counter_that_is_saved_passes(tmp_path: Path) -> None:
    path = tmp_path / "counter.py"
    path.write_text(COUNTER, encoding="utf-8")
    assert problems(str(path)) == []
