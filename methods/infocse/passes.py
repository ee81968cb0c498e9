"""The arithmetic of InfoCSE, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """Two views, and two masked copies in the lower layers and then in the auxiliary network."""

    def step(self, stage: Stage) -> Work:
        config, shape = self.config, self.shape
        width, lower = shape.hidden, config.lower_layers or max(1, shape.layers // 2)
        head = 4 * width**2 if config.head == "batchnorm" else width**2
        logits = width * (width + shape.vocabulary)
        return [
            Pass(2, one=True),
            Products(head, 2),
            # Shares of the encoder's layers.
            Pass(2 * lower / shape.layers, module="lower", backward=False),
            Pass(2 * config.auxiliary_layers / shape.layers, module="auxiliary", padded=True),
            Products(logits, 2, module="vocabulary", tokens=config.masking_ratio),
        ]

    def embedding(self) -> Work:
        return [Pass(one=True)]
