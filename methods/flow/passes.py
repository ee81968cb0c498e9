"""The arithmetic of BERT-flow, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """The frozen encoder, where its vectors are drawn anew, and the flow."""

    keeps_encoder = True

    def step(self, stage: Stage) -> Work:
        rows = self.columns("corpus")
        drawn = [Pass(rows, backward=False)] if stage.batches.text else []
        return [*drawn, *self._flow(rows)]

    def embedding(self) -> Work:
        return [Pass(), *self._flow(1)]

    def artefact(self, name: str) -> tuple[str, Work]:
        return self.config.corpus, [Pass()]

    def _flow(self, rows: float) -> list[Products]:
        """The coupling networks: half of the channels, two hidden layers, the other half."""
        config, weights = self.config, 0.0
        for level in range(config.levels):
            channels = self.shape.hidden >> level
            mixed = channels**2 if config.permutation == "invertible" else 0
            coupling = config.coupling_width * (channels + config.coupling_width)
            weights += config.steps_per_level * (coupling + mixed)
        return [Products(weights, rows, module="flow")]
