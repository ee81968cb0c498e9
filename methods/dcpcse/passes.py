"""The arithmetic of DCPCSE, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import SPECIAL_TOKENS, Work, template_tokens

from . import Config


class Passes(plugin.Passes[Config]):
    """Views through a frozen encoder with prompts, through which gradients flow to the prompts."""

    def step(self, stage: Stage) -> Work:
        rows, width = max(2, self.columns("contrastive")), self.shape.hidden
        work: Work = [self._pass(rows, one=True), Products(width**2, rows)]
        if self.config.mlm:
            logits, share = width * (width + self.shape.vocabulary), self.config.masking_ratio
            head = Products(logits, rows, module="vocabulary", tokens=share)
            work += [self._pass(rows, one=False), head]
        return work

    def embedding(self) -> Work:
        return [self._pass(1, one=True)]

    def _pass(self, rows: float, *, one: bool) -> Pass:
        shallow, front = self.config.prompts == "shallow", self.config.front
        around = template_tokens(self.config.template) if shallow else SPECIAL_TOKENS + front
        prefix = self.config.prompt_length if self.config.in_layers else 0
        return Pass(rows, one=one, around=around, prefix=prefix)
