"""The arithmetic of GloVe, for plans."""

from harness import plugin
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """Vectors are looked up and averaged, which is no work."""

    def embedding(self) -> Work:
        return []
