"""The arithmetic of CT, for plans."""

from harness import plugin
from harness.plugin import Pass, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """Each sentence through one encoder, and its anchor through the other."""

    def step(self, stage: Stage) -> Work:
        return [Pass(), Pass(module="anchor_encoder")]
