"""The arithmetic of DiffCSE, for plans."""

from harness import plugin
from harness.plugin import Pass, Products, Stage
from harness.plugin.passes import Work
from harness.plugin.replaced_tokens import generated_rows, generator_work

from . import Config


class Passes(plugin.Passes[Config]):
    """The views, the rows that a discriminator reads, and those that a generator writes."""

    def step(self, stage: Stage) -> Work:
        config, width = self.config, self.shape.hidden
        unsupervised = config.setting == "unsup"
        rows = 2 if unsupervised else self.columns("contrastive")
        view = None if not unsupervised else 0
        read = rows + 1 if config.augments else rows
        head = (4 if config.head == "batchnorm" else 1) * width**2
        work: Work = [Pass(rows, column=view, one=True), Products(head, read)]
        if config.augments:
            work.append(Pass(1, column=view, one=True, stretch=self._stretch))
        if config.conditional:
            for column in self._edited_columns(view):
                work += self._discriminated(rows, column)
        if config.generated:
            times = len(self._edited_columns(view)) if config.conditional else 1
            work += generator_work(config, times * (1 if config.augments else rows))
        return work

    @property
    def _stretch(self) -> float:
        """The mean length of an edited sentence, over that of the sentence."""
        change = {"replace": 0.0, "insert": 1.0, "delete": -1.0}
        edits = self.config.edits
        return 1 + self.config.masking_ratio * sum(change[edit] for edit in edits) / len(edits)

    def _edited_columns(self, view: int | None) -> list[int | None]:
        """The texts of an item that are edited, one after the other."""
        columns: dict[str, list[int | None]] = {"same": [view], "next": [1], "same+next": [0, 1]}
        return columns[self.config.edited]

    def _discriminated(self, rows: float, column: int | None) -> Work:
        config, width = self.config, self.shape.hidden
        detects = config.objective == "detection"
        padded = detects and config.rtd_reduction == "mean_all"
        read = Pass(rows, column=column, module="discriminator", padded=padded,
                    stretch=self._stretch)  # fmt: skip
        if detects:
            return [read]
        masked = config.objective == "masked-language"
        share = config.masking_ratio if masked else 1.0
        logits = width * (width + self.shape.vocabulary)
        return [read, Products(logits, rows, module="detector", tokens=share)]

    def embedding(self) -> Work:
        return [Pass(one=True)]

    def artefact(self, name: str) -> tuple[str, Work]:
        return self.declared.corpora["contrastive"], generated_rows(self.config)
