"""The arithmetic of ESimCSE, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """A sentence, the same with repetitions, and the momentum encoder."""

    def step(self, stage: Stage) -> Work:
        config = self.config
        # As many pieces as not are repeated in the mean, up to the bound (esimcse.md, section 1).
        stretch = 1 + config.repetition_rate / 2
        if config.repetition_range == "code" and config.repetition_rate:
            stretch = 1.12
        work: Work = [Pass(one=True), Pass(one=True, stretch=stretch)]
        if int(config.queue_ratio * config.batch_size):
            work.append(Pass(module="momentum", one=True, backward=False))
        return [*work, Products(self.shape.hidden**2, 2)]

    def embedding(self) -> Work:
        return [Pass(one=True)]
