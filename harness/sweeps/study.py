"""The study of a search: its configurations, curves and scores, in a journal that Optuna reads.

The store has the results. The study has what a sampler and a pruner need beside them: the order of
the suggestions, the curves, and what was running. `optuna-dashboard FILE` shows it.
"""

import logging
import time
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from optuna import distributions, pruners, samplers
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState, create_trial

from harness.files import digest_of
from harness.sweeps.scored import KEYS
from harness.sweeps.spaces.axes import (
    Ranges,
    SamplerRange,
    SamplerValues,
    Values,
    WholeRange,
    applies,
)
from harness.sweeps.spaces.pruners import Asha, Hyperband, Median, Pruner, Wilcoxon
from harness.sweeps.spaces.search import Search
from harness.sweeps.spaces.space import Sampler
from harness.trials.store import Store, no_room

TO_PRUNE = "stopped"
"""Attribute of a configuration: whether the pruner has stopped it"""
TPE_WINDOW = 1000
"""The newest configurations, from which TPE learns: with each further one, a suggestion would take
longer (`benchmarks/README.md` says how much longer, and what is lost)"""
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError)
"""Errors that Optuna raises for a journal that is not as it was written"""
_logger = logging.getLogger(__name__)


class Study:
    """The study of a search, on disk beside the store."""

    def __init__(self, search: Search, store: Store, part: str = "") -> None:
        """`part`: the part of the search that has a study of its own, such as a round of a grid.

        A damaged journal is set aside, with a warning, and a new one is begun. Raises UserError
        when the journal cannot be written.
        """
        self.search = search
        self.name = search.study_name(part)
        self.path = store.studies_folder / search.study_file(part)
        with self._writing():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _end_with_a_line(self.path)
            try:
                self._open()
            except _DAMAGE as error:
                self._set_aside(error)
                self._open()

    def _open(self) -> None:
        # Network file systems create a file once, but not all of them lock one.
        lock = JournalFileOpenLock(str(self.path))
        self._storage = _Journal(JournalFileBackend(str(self.path), lock_obj=lock))
        self._study = optuna.create_study(
            storage=self._storage,
            study_name=self.name,
            directions=["maximize", "minimize"] if self.search.by_cost else ["maximize"],
            pruner=pruner_of(self.search.pruner),
            load_if_exists=True,
        )
        self._number = self._storage.get_study_id_from_name(self.name)

    def _set_aside(self, error: Exception) -> None:
        kept = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        self.path.replace(kept)
        _logger.warning(
            "the study %s is damaged (%s); it is kept as %s, and a new one begins with the trials "
            "of the store", self.path, error or type(error).__name__, kept.name,
        )  # fmt: skip

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise no_room(f"the study {self.path} cannot be written", error) from None

    def trials(self) -> list[FrozenTrial]:
        """All configurations in the order of their numbers."""
        return list(self._study.get_trials(deepcopy=False))

    def ask(self) -> tuple[int, Values]:
        """The number and the values of a configuration that the sampler suggests."""
        assert self.search.sampler is not None
        with self._writing():
            number = len(self.trials())
            self._study.sampler = sampler_of(self.search.sampler, self.search.label, number)
            with self._storage.newest(TPE_WINDOW if self.search.sampler.name == "tpe" else None):
                trial = self._study.ask()
                drawn: Values = {}
                for name, axis in self.search.ranges.items():
                    if applies(axis, drawn):
                        drawn[name] = suggested(trial, name, axis)
            return trial.number, drawn

    def add(self, configuration: Values) -> int:
        """The number of a configuration that is given and not suggested."""
        ranges: Ranges = self.search.ranges
        if not ranges:
            # The values of a grid are not drawn, so each is the only one that was possible.
            varied = {name for axes in self.search.rounds for name in axes} & configuration.keys()
            ranges = {name: SamplerValues(values=[configuration[name]]) for name in sorted(varied)}
        params: Values = {}
        for name, axis in ranges.items():
            if applies(axis, params):
                params[name] = configuration[name]
        spaces = {name: distribution(ranges[name]) for name in params}
        with self._writing():
            trial = create_trial(state=TrialState.RUNNING, params=params, distributions=spaces)
            created = self._storage.create_new_trial(self._number, trial)
            return int(self._storage.get_trial_number_from_id(created))

    def name_trials(self, number: int, keys: list[str]) -> None:
        """Note the keys of a configuration's trials, by which it is found again."""
        with self._writing():
            self._storage.set_trial_user_attr(self._id(number), KEYS, keys)

    def learn(self, number: int, curve: Sequence[float]) -> None:
        """Note the whole curve of a configuration that has ended, also for the pruner."""
        for step, score in enumerate(curve, 1):
            self._judged(number, step, score)

    def prunes(self, number: int, step: int, score: float) -> bool:
        """Whether the pruner stops a configuration that has reached this point of its curve.

        With Wilcoxon's test, a point is the score of a seed, and `step` is its place.
        A point that was heard of before, in a run that was killed, gets no second decision.
        """
        trial = self._trial(number)
        if TO_PRUNE in trial.user_attrs or step in trial.intermediate_values:
            return TO_PRUNE in trial.user_attrs
        stopped = self._judged(number, step, score)
        if stopped:
            with self._writing():
                self._storage.set_trial_user_attr(self._id(number), TO_PRUNE, value=True)
        return stopped

    def finished(self, number: int, dev: float, cost: float) -> None:
        """The configuration has this mean dev score, and took so many seconds of training."""
        self.tell(number, TrialState.COMPLETE, [dev, cost] if self.search.by_cost else [dev])

    def tell(self, number: int, state: TrialState, values: list[float] | None = None) -> None:
        """The configuration has ended: it failed, was pruned, or is complete with these values."""
        with self._writing():
            # Another sweep of the same search may have told the same.
            self._study.tell(number, values, state=state, skip_if_finished=True)

    def values(self, trial: FrozenTrial) -> Values:
        """All values of a configuration of a sampler."""
        axes = self.search.ranges
        drawn = {name: exact(axes[name], each) for name, each in trial.params.items()}
        return {**self.search.fixed, **drawn}

    @property
    def over_seeds(self) -> bool:
        """Whether the pruner compares the scores of seeds, and not points of a curve."""
        return isinstance(self.search.pruner, Wilcoxon)

    def _judged(self, number: int, step: int, score: float) -> bool:
        """Note a point of a curve; whether the pruner stops the configuration there."""
        with self._writing():
            self._storage.set_trial_intermediate_value(self._id(number), step, score)
            return bool(self._study.pruner.prune(self._study, self._trial(number)))

    def _trial(self, number: int) -> FrozenTrial:
        return self._storage.get_trial(self._id(number))

    def _id(self, number: int) -> int:
        return int(self._storage.get_trial_id_from_study_id_trial_number(self._number, number))


class _Journal(JournalStorage):  # type: ignore[misc]
    """A journal that can be read as if it had its newest configurations alone."""

    _most: int | None = None

    @contextmanager
    def newest(self, most: int | None) -> Iterator[None]:
        """In the block, the journal shows so many configurations; None: all of them."""
        self._most = most
        try:
            yield
        finally:
            self._most = None

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        if self._most is None:
            return list(super().get_all_trials(study_id, deepcopy, states))
        newest = super().get_all_trials(study_id, deepcopy=False)[-self._most :]
        return [trial for trial in newest if states is None or trial.state in states]


def _end_with_a_line(path: Path) -> None:
    """Remove a line without its end, as a process that is killed leaves it at a journal's end.

    Whatever is written behind it would make the rest unreadable.
    """
    if not path.exists() or path.read_bytes()[-1:] in (b"", b"\n"):
        return
    lock = JournalFileOpenLock(str(path))
    lock.acquire()
    try:
        content = path.read_bytes()
        with path.open("rb+") as file:
            file.truncate(content.rfind(b"\n") + 1)
    finally:
        lock.release()


optuna.logging.set_verbosity(optuna.logging.WARNING)
# These are in Optuna to stay, and say on every start that they are new.
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
# A range ends with the last value that its steps reach.
warnings.filterwarnings("ignore", message="The distribution is specified by")

# A range that applies only sometimes is drawn at random by the samplers that cannot model it.
SAMPLERS: Mapping[str, Callable[..., samplers.BaseSampler]] = {
    "tpe": samplers.TPESampler,
    "random": samplers.RandomSampler,
    "cma-es": partial(samplers.CmaEsSampler, warn_independent_sampling=False),
    "qmc": partial(samplers.QMCSampler, warn_independent_sampling=False),
    "gp": partial(samplers.GPSampler, warn_independent_sampling=False),
    "nsga-ii": samplers.NSGAIISampler,
    "nsga-iii": samplers.NSGAIIISampler,
}


SEED_DIGITS = 8
"""Hexadecimal digits of a sampler's seed, which has to be below 2**32"""


def sampler_of(sampler: Sampler, search: str, number: int) -> samplers.BaseSampler:
    """The sampler that suggests configuration `number` of the study of a search.

    What it knows is in the study. Its random numbers follow from the seed of the space, the label
    of the search and the number alone. So searches do not try the same places of their ranges, what
    runs beside a search changes nothing, and one that was stopped goes on as if it had not been.
    """
    seed = int(digest_of([sampler.seed, search, number], SEED_DIGITS), 16)
    return SAMPLERS[sampler.name](seed=seed)


def pruner_of(pruner: Pruner | None) -> pruners.BasePruner:
    """The pruner; without one, a pruner that prunes nothing."""
    if pruner is None:
        return pruners.NopPruner()
    if isinstance(pruner, Asha | Hyperband):
        first, factor = pruner.first_evaluation, pruner.reduction_factor
        if isinstance(pruner, Hyperband):
            return pruners.HyperbandPruner(first, pruner.last_evaluation, factor)
        return pruners.SuccessiveHalvingPruner(min_resource=first, reduction_factor=factor)
    if isinstance(pruner, Wilcoxon):
        return pruners.WilcoxonPruner(p_threshold=pruner.p_threshold)
    keep = 50.0 if isinstance(pruner, Median) else pruner.keep_percent
    return pruners.PercentilePruner(
        keep, n_startup_trials=pruner.startup_configurations, n_warmup_steps=pruner.first_evaluation
    )


def distribution(axis: SamplerRange | SamplerValues) -> distributions.BaseDistribution:
    """The distribution of Optuna for a range of a search space."""
    if isinstance(axis, SamplerValues):
        return distributions.CategoricalDistribution(axis.values)
    numbers = (axis.low, axis.high, axis.step or 0.5)
    if isinstance(axis, WholeRange) or all(float(number).is_integer() for number in numbers):
        low, step = int(axis.low), int(axis.step or 1)
        return distributions.IntDistribution(low, int(axis.high), log=axis.log, step=step)
    return distributions.FloatDistribution(axis.low, axis.high, log=axis.log, step=axis.step)


def suggested(trial: optuna.Trial, name: str, axis: SamplerRange | SamplerValues) -> Any:
    """A value of one range for a trial of a study."""
    space = distribution(axis)
    if isinstance(space, distributions.CategoricalDistribution):
        return trial.suggest_categorical(name, space.choices)
    if isinstance(space, distributions.IntDistribution):
        return trial.suggest_int(name, space.low, space.high, step=space.step, log=space.log)
    value = trial.suggest_float(name, space.low, space.high, step=space.step, log=space.log)
    return exact(axis, value)


def exact(axis: SamplerRange | SamplerValues, value: Any) -> Any:
    """A drawn value, of a range with steps the decimal number that it stands for.

    Optuna adds floats, and gives 0.060000000000000005 for 0.06, which would be another trial.
    """
    if not isinstance(value, float) or not isinstance(axis, SamplerRange) or axis.step is None:
        return value
    low, step = Decimal(str(axis.low)), Decimal(str(axis.step))
    return float(low + round((value - axis.low) / axis.step) * step)
