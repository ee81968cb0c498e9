"""The arithmetic of CoT-BERT, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work, template_tokens

from . import TEMPLATES, Config


class Passes(plugin.Passes[Config]):
    """A sentence in three templates, and each template for the lengths that occur."""

    def step(self, stage: Stage) -> Work:
        config, work = self.config, Work([Products(self.shape.hidden**2, 3)])
        given = (config.template, config.second_template, config.negative_template)
        for text, published in zip(given, TEMPLATES["bert"], strict=True):
            around = template_tokens(text or published)
            work.append(Pass(one=True, around=around))
            if config.denoising != "none":
                stretch = 0 if config.denoising == "positions" else 1
                work.append(Pass(one=True, around=around, stretch=stretch, each="length"))
        return work

    def embedding(self) -> Work:
        around = template_tokens(self.config.template or TEMPLATES["bert"][0])
        return [Pass(one=True, around=around)]
