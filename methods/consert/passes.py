"""The arithmetic of ConSERT, for plans."""

from harness import plugin
from harness.plugin import Pass, Stage
from harness.plugin.passes import Work

from . import Config


class Passes(plugin.Passes[Config]):
    """Two augmented views of each text, and a clean pass where labels are learnt."""

    def step(self, stage: Stage) -> Work:
        config, columns = self.config, {name: self.columns(name) for name in stage.streams}
        work: Work = [Pass(rows, name) for name, rows in columns.items() if name == "labelled"]
        if "contrastive" in stage.losses:
            stream = "labelled" if config.setting == "sup" else "contrastive"
            views = [config.first_view, config.second_view]
            if config.setting == "sup" and "none" in views:
                views.remove("none")  # it is the clean pass
            work += [Pass(columns[stream], stream) for _ in views]
            # The gradient at the embedding output costs as much as a forward pass.
            noised = views.count("adversarial")
            work += [Pass(columns[stream], stream, backward=False)] * noised
        return work
