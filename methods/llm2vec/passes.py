"""The arithmetic of LLM2Vec, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """A masked copy of a sentence, and then two views of it."""

    def step(self, stage: Stage) -> Work:
        if stage.name == "contrastive":
            return [Pass(2)]
        logits = self.shape.hidden * self.shape.vocabulary
        return [
            Pass(),
            Products(logits, module="vocabulary", tokens=self.config.masking_ratio),
        ]
