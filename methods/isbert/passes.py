"""The arithmetic of IS-BERT, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work

from . import Config

WINDOWS = 1 + 3 + 5
"""Tokens that the three convolutions see together"""


class Passes(plugin.Passes[Config]):
    """Convolutions on all states, and each token beside each sentence of the batch."""

    def step(self, stage: Stage) -> Work:
        rows, filters = self.columns("information"), self.config.filters
        compared = 3 * filters * rows * self.config.batch_size
        return [
            Pass(rows),
            self._convolutions(rows),
            Products(compared, rows, module="convolutions", tokens=1, padded=True),
        ]

    def embedding(self) -> Work:
        return [Pass(), self._convolutions(1)]

    def _convolutions(self, rows: float) -> Products:
        weights = WINDOWS * self.shape.hidden * self.config.filters
        return Products(weights, rows, module="convolutions", tokens=1, padded=True)
