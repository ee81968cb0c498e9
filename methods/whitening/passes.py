"""The arithmetic of BERT-whitening, for plans."""

from harness import plugin
from harness.plugin import Pass
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """The frozen encoder, over the corpus once and over what is measured."""

    keeps_encoder = True

    def artefact(self, name: str) -> tuple[str, Work]:
        return self.config.corpus, [Pass()]
