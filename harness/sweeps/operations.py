"""Floating-point operations of whole trials: training, what they share, and what is measured."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.errors import NotHere
from harness.files import digest_of
from harness.plugin.config import TrainingConfig
from harness.plugin.declared import Declared
from harness.plugin.operations import (
    SPREAD,
    batch_operations,
    corpus_lengths,
    layers_of,
    lengths_of,
    passes_of,
    stage_lengths,
    text_operations,
)
from harness.plugin.passes import Pass, Passes, texts_of
from harness.plugin.stage import Artefact, Stage
from harness.trials.trial import Trial, suites_of

EVALUATED = 12.3
"""Mean word pieces of a distinct sentence of the STS sets: 373,000 tokens in 26,083 rows"""


@dataclass(frozen=True)
class Part:
    """A stage, an artefact or the measurement of a trial."""

    operations: float = 0.0
    """In the precision of the training"""
    exact: float = 0.0
    """In float32"""
    evaluated: float = 0.0
    """In float32, in an evaluation, which keeps nothing for gradients"""
    steps: int = 0
    layers: float = 0.0
    """Layers through which each step goes, each of which costs some time by itself"""
    least: float = 1.0
    """The share of it that is certain; below 1 where a stage may run out of patience"""
    shared: str = ""
    """Name of a part that trials share; it runs once, as long as the longest asks for"""

    @property
    def work(self) -> float:
        """All of its operations."""
        return self.operations + self.exact + self.evaluated

    def without(self, made: "Part") -> "Part":
        """The rest of it, behind what an earlier trial has made."""
        return replace(
            self,
            operations=self.operations - made.operations,
            exact=self.exact - made.exact,
            steps=self.steps - made.steps,
        )


def parts_of_trial(trial: Trial) -> list[Part] | None:
    """The parts of a trial; None: the sizes of a model or of a corpus are not known here."""
    try:
        return _parts(trial)
    except (NotHere, KeyError):
        return None


def _parts(trial: Trial) -> list[Part] | None:
    declared, passes = trial.declared, passes_of(trial.declared)
    config = declared.config
    measured, *others = suites_of(config)
    sentences = lengths_of([[EVALUATED * share for share in SPREAD]])

    def embedded(count: float, *, again: bool = False) -> float:
        """Operations of embedding sentences; again: those that a frozen encoder has read."""
        kept = again and passes.keeps_encoder
        work = [part for part in passes.embedding() if not (kept and isinstance(part, Pass))]
        return text_operations(passes, work, count, sentences)

    parts = [_artefact(declared, passes, artefact) for artefact in declared.artefacts]
    dev = embedded(measured.sentences_dev)
    again = embedded(measured.sentences_dev, again=True)
    for stage in declared.stages:
        steps = declared.steps_of(stage)
        if steps is None:
            return None
        assert isinstance(config, TrainingConfig)
        interval = declared.evaluation_interval(stage)
        batch = batch_operations(passes, stage, stage_lengths(declared, stage))
        patience, least = stage.selection.patience, 1.0
        if patience is not None and steps:
            least = min(1.0, (patience + 1) * interval / steps)
        operations = steps * stage.accumulation * batch + steps // interval * again
        layers = stage.accumulation * layers_of(passes, stage)
        parts.append(
            Part(operations, steps=steps, layers=layers, least=least, shared=_shared(trial, stage))
        )
    tests = embedded(measured.sentences_test) if trial.role == "final" else 0.0
    chosen_by = embedded(sum(each.sentences_dev for each in others))  # once, behind the training
    return [*parts, Part(evaluated=dev + chosen_by + tests)]


def _shared(trial: Trial, stage: Stage) -> str:
    if stage.shared is None:
        return ""
    config = trial.config
    values = {name: getattr(config, name) for name in stage.shared}
    length = trial.declared.shared_length(stage)
    return digest_of([trial.declared.source_digest, stage.name, repr(values), trial.seed, *length])


def _artefact(declared: Declared, passes: Passes[Any], artefact: Artefact) -> Part:
    """The part that is made once for all trials that agree in some fields."""
    corpus, work = passes.artefact(artefact.name)
    if not work:
        return Part()
    columns = corpus_lengths(corpus)
    stream = next(key for key, value in declared.corpora.items() if value == corpus)
    texts = (declared.items(stream) or 0) * texts_of(corpus)
    operations = text_operations(passes, work, texts, lengths_of(columns))
    values = [getattr(declared.config, field, None) for field in artefact.fields]
    models = artefact.models or declared.config.encoder
    shared = [declared.source_digest, artefact.name, corpus, models, repr(values)]
    return Part(exact=operations, shared=digest_of(shared))


def long_first(trials: Mapping[str, Trial]) -> dict[str, Trial]:
    """Key -> trial, the longest first, so that at the end no worker is idle beside a long one."""

    def work(trial: tuple[str, Trial]) -> float:
        return sum(part.work for part in parts_of_trial(trial[1]) or ())

    return dict(sorted(trials.items(), key=work, reverse=True))
