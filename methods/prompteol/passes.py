"""The arithmetic of PromptEOL, for plans."""

from harness import plugin
from harness.plugin import Pass, Stage
from harness.plugin.passes import Work, template_tokens

from . import Config


class Passes(plugin.Passes[Config]):
    """The three texts of an item in each prompt, which no token ends."""

    def step(self, stage: Stage) -> Work:
        return self._prompted(self.columns("contrastive"))

    def embedding(self) -> Work:
        return self._prompted(1)

    def _prompted(self, rows: int) -> Work:
        prompts = self.config.template.splitlines()
        return [Pass(rows, one=True, around=template_tokens(each) - 1) for each in prompts]
