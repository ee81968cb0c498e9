"""The answers of a store's models: sentences near a query, and cosines."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.errors import UserError
from harness.report.groups import Group
from harness.trials.store import Store

if TYPE_CHECKING:
    from harness.trials.evaluate import SentenceModel


class Answers:
    """Asks the models whose weights a store keeps; each is loaded once."""

    def __init__(self, store: Store, status: Callable[[str], None]) -> None:
        """`store`: with the records and the weights. `status`: called with what is being done."""
        self._store, self._status = store, status
        self._models: dict[str, SentenceModel | None] = {}
        self.problems: dict[str, str] = {}
        """The key of a trial -> why its model cannot be asked"""

    def can_ask(self, group: Group) -> bool:
        """Whether there is a model of the group that can be asked."""
        return self._model(group) is not None

    def nearest(self, group: Group, query: str, count: int) -> list[str]:
        """The sentences of STS-B test nearest to a query; none where no model can be asked."""
        model = self._model(group)
        return [text for text, _ in model.nearest(query, count)] if model else []

    def cosine(self, group: Group, query: str, sentence: str) -> float | None:
        """The cosine of two sentences; None where no model can be asked."""
        model = self._model(group)
        return model.cosine(query, sentence) if model else None

    def _model(self, group: Group) -> "SentenceModel | None":
        """The model of the trial with the best dev score, of those with kept weights."""
        kept = (
            trial
            for trial in group.trials
            if not trial.trained or self._store.kept_weights(trial.key).is_file()
        )
        trial = group.best_trial(kept)
        if trial is None:
            return None
        if trial.key not in self._models:
            self._models[trial.key] = self._loaded(trial.key)
        return self._models[trial.key]

    def _loaded(self, key: str) -> "SentenceModel | None":
        from harness.trials.evaluate import SentenceModel
        from harness.trials.lookup import model

        try:
            trained = model(key, self._store, pooling=None, method=None)
            return SentenceModel(trained, self._store, lambda text, *_: self._status(text))
        except UserError as error:
            self.problems[key] = str(error)
            return None
