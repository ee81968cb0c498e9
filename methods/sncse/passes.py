"""The arithmetic of SNCSE, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work, template_tokens

from . import Config


class Passes(plugin.Passes[Config]):
    """A sentence in two templates, and its negation, which has a word more."""

    def step(self, stage: Stage) -> Work:
        second = template_tokens(self.config.second_template)
        passes: Work = [
            Pass(one=True, around=around)
            for around in (template_tokens(self.config.template), second, second + 1)
        ]
        return [*passes, Products(self.shape.hidden**2, 3)]

    def embedding(self) -> Work:
        return [Pass(one=True, around=template_tokens(self.config.template))]
