"""The arithmetic of MixCSE, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """Two views of a sentence."""

    def step(self, stage: Stage) -> Work:
        return [Pass(2, one=True), Products(self.shape.hidden**2, 2)]

    def embedding(self) -> Work:
        return [Pass(one=True)]
