"""The arithmetic of SimCSE, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """Two views or three texts of an item, read at [CLS], under a head."""

    def step(self, stage: Stage) -> Work:
        width, work = self.shape.hidden, Work()
        head = 4 * width**2 if self.config.head == "batchnorm" else width**2
        for stream in stage.streams:
            rows = max(2, self.columns(stream))
            work += [Pass(rows, stream, one=True), Products(head, rows, stream)]
            if stream == "contrastive" and "masked_language" in stage.losses:
                logits = width * (width + self.shape.vocabulary)
                share = self.config.masking_ratio
                work += [Pass(rows), Products(logits, rows, module="vocabulary", tokens=share)]
        return work

    def embedding(self) -> Work:
        return [Pass(one=True)]
