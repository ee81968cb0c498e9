"""The arithmetic of PromptBERT, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work, template_tokens

from . import Config


class Passes(plugin.Passes[Config]):
    """Sentences in templates, and bare templates for the lengths that occur."""

    def step(self, stage: Stage) -> Work:
        first = template_tokens(self.config.template)
        second = template_tokens(self.config.second_template)
        work, head = Work(), self.shape.hidden**2
        for stream in stage.streams:
            columns = self.columns(stream)
            views = [(first, columns)] if columns > 1 else [(first, 1), (second, 1)]
            for around, rows in views:
                work.append(Pass(rows, stream, one=True, around=around))
                work.append(Products(head, rows, stream))
                if stream == "contrastive" and self.config.denoising != "none":
                    bare = Pass(1, stream, one=True, around=around, stretch=0, each="length")
                    work.append(bare)
        return work

    def embedding(self) -> Work:
        return [Pass(one=True, around=template_tokens(self.config.template))]
