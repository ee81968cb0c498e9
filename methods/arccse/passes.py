"""The arithmetic of ArcCSE, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """Two views of a sentence, and three copies of which two are masked."""

    def step(self, stage: Stage) -> Work:
        return [Pass(5, one=True), Products(self.shape.hidden**2, 5)]

    def embedding(self) -> Work:
        return [Pass(one=True)]
