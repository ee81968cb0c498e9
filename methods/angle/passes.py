"""The arithmetic of AnglE, for plans."""

from harness import plugin
from harness.plugin import Pass, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """The texts of an item."""

    def step(self, stage: Stage) -> Work:
        return [Pass(self.columns("pairs"), one=self.config.pooling == "cls")]

    def embedding(self) -> Work:
        return [Pass(one=self.config.pooling == "cls")]
