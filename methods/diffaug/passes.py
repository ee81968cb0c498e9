"""The arithmetic of DiffAug, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work, template_tokens

from . import Config


class Passes(plugin.Passes[Config]):
    """Views that meet one module each, and bare templates for the lengths that occur."""

    def step(self, stage: Stage) -> Work:
        work, modules = Work(), 1 if self.config.views == "same" else 2
        for stream in stage.streams:
            labelled = stream == "labelled"
            rows = self.columns(stream) if labelled else max(2, self.columns(stream))
            work += [self._pass(rows, stream), Products(self.shape.hidden**2, rows, stream)]
            if not labelled:
                work.append(self._pass(modules, stream, bare=True))
        return work

    def embedding(self) -> Work:
        around = template_tokens(self.config.template)
        prefix = 2 * self.config.prompt_length if self.config.augmentation == "prefix" else 0
        return [Pass(one=True, around=around, prefix=prefix)]

    def _pass(self, rows: float, stream: str, *, bare: bool = False) -> Pass:
        config, prefixes = self.config, self.config.augmentation == "prefix"
        modules = 2 if config.views == "same" else 1
        return Pass(
            rows,
            stream,
            one=True,
            around=template_tokens(config.template),
            prefix=modules * config.prompt_length if prefixes else 0,
            # Two sets at two places of a layer, each of two matrices (diffaug.md, section 1).
            beside=0 if prefixes else 8 * config.rank * self.shape.hidden,
            folds=config.augmentation != "lora",
            stretch=0 if bare else 1,
            each="length" if bare else "item",
        )
