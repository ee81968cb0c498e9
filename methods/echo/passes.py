"""The arithmetic of echo embeddings, for plans."""

from harness import plugin
from harness.plugin import Pass, Stage
from harness.plugin.passes import Work, template_tokens

from . import Config


class Passes(plugin.Passes[Config]):
    """The three texts of an item twice in a row, in the prompt, which no token ends."""

    def step(self, stage: Stage) -> Work:
        return self._echoed(self.columns("contrastive"))

    def embedding(self) -> Work:
        return self._echoed(1)

    def _echoed(self, rows: int) -> Work:
        one = self.config.echo_pooling == "last-token"
        around = template_tokens(self.config.template) - 1
        return [Pass(rows, one=one, stretch=2, around=around)]
