"""The arithmetic of DCLR, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """Two views of a sentence; the complementary model has read the corpus before."""

    def step(self, stage: Stage) -> Work:
        return [Pass(2, one=True), Products(self.shape.hidden**2, 2 * self.config.head_layers)]

    def embedding(self) -> Work:
        return [Pass(one=True)]

    def artefact(self, name: str) -> tuple[str, Work]:
        one = self.config.teacher_pooling == "cls"
        return self.config.sentences, [Pass(model=self.config.teacher, one=one)]
