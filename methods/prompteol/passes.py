"""The arithmetic of PromptEOL, for plans."""

from harness import plugin
from harness.plugin import Pass, Stage
from harness.plugin.passes import Work, template_tokens

from . import Config


class Passes(plugin.Passes[Config]):
    """The three texts of an item in the prompt, which no token ends."""

    def step(self, stage: Stage) -> Work:
        return [Pass(self.columns("contrastive"), one=True, around=self._around)]

    def embedding(self) -> Work:
        return [Pass(one=True, around=self._around)]

    @property
    def _around(self) -> int:
        return template_tokens(self.config.template) - 1
