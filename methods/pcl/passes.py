"""The arithmetic of PCL, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """All views of a sentence through two networks; what deletion takes, repetition adds."""

    def step(self, stage: Stage) -> Work:
        views = self.config.views
        return [
            *(Pass(views, one=True, module=module) for module in ("encoder", "peer")),
            Products(self.shape.hidden**2, 3 * views),  # a head on both, and the peer's pooler
        ]

    def embedding(self) -> Work:
        return [Pass(one=True)]
