"""The arithmetic of CLSR, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work

from . import Config

WIDTH = 768
"""Of the network's layers, as in `method.py`"""


class Passes(plugin.Passes[Config]):
    """A small network on vectors that were made once, and all pairs of a batch."""

    keeps_encoder = True

    def step(self, stage: Stage) -> Work:
        pairs = 2 * self.config.batch_size * WIDTH  # every vector meets all of the batch
        first = Products(self.shape.hidden * WIDTH, 2, module="mlp", inputs=False)
        return [first, *self._deeper(2), Products(pairs, 2)]

    def embedding(self) -> Work:
        network = Products(self.shape.hidden * WIDTH, module="mlp"), *self._deeper(1)[:1]
        return [Pass(), *network]

    def artefact(self, name: str) -> tuple[str, Work]:
        return self.config.pairs, [Pass()]

    def _deeper(self, rows: float) -> list[Products]:
        """The second layer, and the head."""
        return [Products(WIDTH**2, rows, module=module) for module in ("mlp", "head")]
