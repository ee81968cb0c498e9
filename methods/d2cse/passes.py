"""The arithmetic of D2CSE, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work
from harness.plugin.replaced_tokens import generated_rows, generator_work

from . import Config


class Passes(plugin.Passes[Config]):
    """The views with prompts, and the edited rows, which another model has written."""

    def step(self, stage: Stage) -> Work:
        config, rows = self.config, max(2, self.columns("contrastive"))
        copied = config.discriminator == "copy"
        edited = Pass(
            rows,
            module="discriminator" if copied else "encoder",
            prefix=config.prompt_length if config.discriminator_prompted else 0,
            padded=config.rtd_reduction == "mean_all",
        )
        views = [Pass(rows, one=True, prefix=config.prompt_length), edited]
        return [*views, Products(4 * self.shape.hidden**2, rows), *generator_work(config, rows)]

    def embedding(self) -> Work:
        return [Pass(one=True, prefix=self.config.prompt_length)]

    def artefact(self, name: str) -> tuple[str, Work]:
        return self.declared.corpora["contrastive"], generated_rows(self.config)
