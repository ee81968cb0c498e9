"""The arithmetic of VaSCL, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """Two views under a head, through which a sentence and its virtual copies pass again."""

    def step(self, stage: Stage) -> Work:
        width = self.shape.hidden
        head = width * (width + self.config.head_width)
        return [
            Pass(2),
            Products(head, 2),
            Products(head, 3, backward=False),  # of the sentence, and forth and back to a copy
            Products(head, inputs=False),
        ]
