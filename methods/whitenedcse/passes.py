"""The arithmetic of WhitenedCSE, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """The views of a sentence, whitened, under a head."""

    def step(self, stage: Stage) -> Work:
        views, width = self.config.views, self.shape.hidden
        return [
            Pass(views, one=True),
            # The covariances, the whitening, and its gradient, which trains no matrix.
            Products(width * self.config.group_size, 3 * views, backward=False),
            Products(width**2, views),
        ]

    def embedding(self) -> Work:
        return [Pass(one=True)]
