"""Runs one trial: data, model, stages, evaluation, record."""

import functools
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import transformers

from harness import __version__
from harness.data.corpora import count_items, source
from harness.data.hub import model_shape
from harness.data.tokens import check_embedded
from harness.device import device, in_precision, kind_of_machine, resolve_precision
from harness.encoders.pretrained import check_loadable
from harness.errors import Postponed, TrialFailure, UserError, WorkerLost, reason
from harness.evaluation.embedder import Embedder, check_trains
from harness.evaluation.kept import keep_pairs
from harness.evaluation.overlap import contamination
from harness.evaluation.scores import Scores
from harness.evaluation.suites import Suite, suite
from harness.files import content_digest, discard
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.plugin.method import FrozenMethod, Method
from harness.ranks import rank_count
from harness.training import engines
from harness.training.interruption import giving_way
from harness.training.loop import Trainer
from harness.training.memory import Peak, peak_memory
from harness.training.parameters import added, changing_names, count, trained_names
from harness.training.progress import Outcome, Progress
from harness.training.saved_state import (
    Checkpoint,
    SavedState,
    checkpoint_minutes,
    current,
    load_state,
    readable,
)
from harness.training.seeds import seed_everything
from harness.trials.record import Record
from harness.trials.running import noted
from harness.trials.store_folders import pairs_file
from harness.trials.trial import Trial, describe, facts_of, failed, key, suites_of
from harness.trials.workers import RankLauncher, distributed

_logger = logging.getLogger(__name__)
Report = Callable[[Progress], None]
CHECKPOINT, GIVE_WAY = "checkpoint.safetensors", "give-way"
"""The files of a running trial: its checkpoint, and the one that asks it to give way"""


def attempt(
    trial: Trial,
    report: Report,
    weights: Path | None = None,
    running: Path | None = None,
    *,
    shares_gpu: bool = False,
    launch: RankLauncher | None = None,
) -> Record:
    """Run a trial and return its record; a failure gives a record with its reason.

    `report`: called with the progress of the training. `weights`: the file for the trained weights
    of a final trial; the cosines of its test pairs are kept beside it. `running`: the folder of the
    running trial (`Store.running`), in which it keeps its checkpoint, from which it goes on when it
    was stopped before. None: a trial that is stopped begins again at step 0. Raises Interrupted
    when the trial gave way, Postponed when another process makes what the trial needs and this one
    does not wait for it, and, where other trials share its GPU (`shares_gpu`),
    torch.OutOfMemoryError when its memory is used up.
    `launch`: starts the other processes of a trial with several workers; None: on this machine.
    Raises WorkerLost when one of them ends before its time. When `report` raises Pruned, the
    training ends, and the record has the best dev score until then.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    if running is not None:  # an earlier process may have died before it heeded a request
        (running / GIVE_WAY).unlink(missing_ok=True)
    try:
        with noted(trial.label, report, running) as heard, distributed(trial, launch):
            record = run_trial(trial, heard, weights, running)
    except Postponed:
        raise  # the trial is run later, and has no record until then
    except WorkerLost as why:
        kept = running is not None and (running / CHECKPOINT).exists()
        where = "goes on from the checkpoint" if kept else "begins at step 0, without a checkpoint"
        raise WorkerLost(f"{why}; another attempt {where}") from why
    except (Exception, SystemExit) as error:  # a method that exits must not end the program
        # The two expected errors explain themselves; any other is logged with its traceback.
        if shares_gpu and isinstance(error, torch.OutOfMemoryError):
            raise
        if not isinstance(error, TrialFailure | UserError):
            _logger.exception("trial %s failed", trial.label)
        record = failed(trial, reason(error))
    seconds = time.perf_counter() - clock + (record.wall_seconds or 0.0)
    return replace(record, started=started, wall_seconds=seconds)


def run_trial(
    trial: Trial, report: Report, weights: Path | None = None, running: Path | None = None
) -> Record:
    """Train and evaluate one trial, and return its record.

    Raises TrialFailure when the trial cannot go on, and Interrupted when it gave way. The arguments
    are those of `attempt`. Of `wall_seconds` the record has those of earlier attempts alone.
    """
    measured, *others = suites_of(trial.config)
    final = trial.role == "final"
    # A damaged file should stop the trial before the training, not after it.
    for each in (measured, *others):
        each.load(each.dev)
    for task in measured.tests if final else ():
        measured.load(task)
    with peak_memory(device()) as memory:
        method, kit = built(trial)
        embedder = Embedder(method, kit)
        with engines.before_training(method, kit):
            before = measured.score_dev(embedder)
        outcome, precision, earlier = train(method, kit, trial, measured, embedder, report, running)
        if outcome.best_dev is None:
            dev = before
        elif precision == "fp32" or outcome.pruned:
            dev = outcome.best_dev
        else:  # it was chosen in bf16 or fp16, and what is stored is embedded in float32
            with readable(method):
                dev = measured.score_dev(embedder)
        kept = keep(method, kit, weights, trial) if final else None
        with readable(method):
            # The suite's own dev has chosen the checkpoint; this score compares configurations.
            chosen_by = {each.dev: each.score_dev(embedder) for each in others}
            scores = measured.score_test(embedder) if final else Scores({})
        if weights is not None:
            keep_pairs(scores.pairs, pairs_file(weights, measured.name))
    why = f"its search pruned it after {outcome.steps} steps" if outcome.pruned else None
    items = {name: count_items(name) for name in kit.declared.corpora.values() if final}
    return replace(
        describe(trial),
        status="pruned" if outcome.pruned else "finished",
        reason=why,
        dev_before=None if others else before,
        dev={measured.dev: dev, **chosen_by},
        test=scores.metrics,
        details=scores.details,
        uncertainty=scores.uncertainty,
        contamination=contamination(kit.declared.corpora.values(), measured) if final else {},
        corpora={name: size for name, size in items.items() if size is not None},
        history=[*outcome.all_points()],
        steps=outcome.steps,
        training_seconds=outcome.seconds,
        wall_seconds=earlier["wall_seconds"],
        evaluation_seconds=earlier["evaluation_seconds"] + embedder.seconds,
        sentences_per_second=outcome.sentences / outcome.seconds if outcome.seconds else None,
        **sizes(method, memory),
        parameters_trainable=outcome.trainable_parameters,
        precision=precision,
        weights_digest=kept,
    )


def built(trial: Trial, kind: type[Kit] = Kit) -> tuple[Method[Any], Kit]:
    """The trial's method before training, on its device, and the kit that built it."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    seed_everything(trial.seed)
    kit = kind(trial.declared, device())
    return engines.placed(kit), kit


def train(
    method: Method[Any],
    kit: Kit,
    trial: Trial,
    measured: Suite,
    embedder: Embedder,
    report: Report,
    running: Path | None = None,
) -> tuple[Outcome, str, Counter[str]]:
    """Run the method's stages, and select the checkpoint on dev.

    Returns the outcome, the precision of the training, `bf16`, `fp16` or `fp32`, and the seconds of
    earlier attempts from whose checkpoint it went on, by their names in the record. During the
    training, dev is embedded in that precision, because bf16 is quicker and changes the score by
    some hundredths of a point (benchmarks/README.md). The scores that are stored are embedded in
    float32. Raises Interrupted when the trial gave way (`running` as in `attempt`).
    """
    config = kit.config
    if not kit.declared.stages or not isinstance(config, TrainingConfig):
        return Outcome(), "fp32", Counter()
    check_trains(method, kit)
    precision = resolve_precision(config.precision, kit.device)
    evaluate = _dev_score(method, kit, measured, embedder, precision)
    start = functools.partial(Trainer, method, kit, trial.seed, evaluate, report)
    scored = measured.digest()
    if running is None:
        return start(scored=scored).run(), precision, Counter()
    began = time.perf_counter()

    def spent() -> dict[str, float]:
        wall = time.perf_counter() - began
        return {"wall_seconds": wall, "evaluation_seconds": embedder.seconds}

    with giving_way(running / GIVE_WAY) as asked:
        checkpoint = Checkpoint(running / CHECKPOINT, _identity(trial, precision), asked, spent)
        return start(checkpoint, scored).run(), precision, checkpoint.earlier


def run_shared_stage(trial: Trial, asked: Collection[int], report: Report) -> None:
    """Run the first stage of a trial, and leave its states to the trials that share it.

    `asked`: the steps after which these trials end the stage. Raises TrialFailure when the training
    cannot go on, and Postponed or waits when another process runs the same stage.
    """
    method, kit = built(trial)
    assert isinstance(kit.config, TrainingConfig)
    check_trains(method, kit)
    precision = resolve_precision(kit.config.precision, kit.device)
    measured = suite(kit.config.suite)
    evaluate = _dev_score(method, kit, measured, Embedder(method, kit), precision)
    trainer = Trainer(method, kit, trial.seed, evaluate, report, scored=measured.digest())
    trainer.run_shared_stage(asked)


def _dev_score(
    method: Method[Any], kit: Kit, measured: Suite, embedder: Embedder, precision: str
) -> Callable[[], float]:
    """A function that scores the method on dev in the precision of the training."""
    chosen = "fp32" if isinstance(method, FrozenMethod) else precision

    def evaluate() -> float:
        with in_precision(chosen, kit.device), readable(method):
            return measured.score_dev(embedder)

    return evaluate


def _identity(trial: Trial, precision: str) -> dict[str, Any]:
    """The facts in which two processes agree where one can go on from the other's checkpoint."""
    machine, threads, torch, transformers = kind_of_machine(device())
    computed: dict[str, Any] = {"machine": machine, "precision": precision}
    # Several processes draw other numbers anyway, and another number of them may go on.
    if rank_count() == 1:
        computed["threads"] = threads
    versions = {"harness": __version__, "torch": torch, "transformers": transformers}
    return {"trial": key(trial), **computed, **versions}


def keep(method: Method[Any], kit: Kit, path: Path | None, trial: Trial) -> str | None:
    """Write the parameters that training changed, and return the SHA-256 of the file.

    The file says of which trial they are. None: nothing trains, no file is wanted, or it cannot be
    written, for example on a full disk; this is logged and does not fail the trial. All ranks of a
    trial call it.
    """
    if not kit.declared.stages:
        return None
    weights = current(method, changing_names(method, kit.declared.stages))
    if path is None:
        return None
    try:
        SavedState(weights, facts=facts_of(trial)).write(path)
        return content_digest(path)
    except OSError as error:
        _logger.warning("the weights %s are not kept: %s", path, error)
        return None


def trained(
    trial: Trial, weights: Path, digest: str | None, report: Report
) -> tuple[Method[Any], Kit, str | None]:
    """A trial's method after training, the kit that built it, and the SHA-256 of its weights.

    Its weights are read from the file `weights`. Without this file, or when it is damaged or not
    the one of the record, the method is trained once more, which gives the same weights because of
    the same seed, and they are written to the file. `digest`: the SHA-256 of the file in the
    record; None where the record has none, and then it is returned as well.
    """
    method, kit = built(trial)
    if not kit.declared.stages:
        return method, kit, None
    if weights.is_file():
        try:
            if digest not in (None, content_digest(weights)):
                raise UserError(f"the weights {weights} are not those that the record names")
            # A file of an older version has no parameters that the method itself changes.
            names = {name for stage in kit.declared.stages for name in trained_names(method, stage)}
            load_state(method, names, weights)
            return method, kit, digest
        except UserError as error:
            _logger.warning("%s; the trial is trained again", error)
            method, kit = built(trial)  # a part of the weights may have been loaded
    train(method, kit, trial, suite(kit.config.suite), Embedder(method, kit), report)
    kept = keep(method, kit, weights, trial)
    if digest is None or kept in (digest, None):
        return method, kit, digest
    discard(weights)  # the weights in a store are those that its records name
    why = "perhaps because this machine is another one"
    _logger.warning("the weights of %s differ from its record, %s", trial.label, why)
    return method, kit, kept


def trained_digest(method: Method[Any], kit: Kit) -> str:
    """The digest of what the stages of a method have changed; 16 hexadecimal digits.

    Another kind of machine may have trained other weights under the same key.
    """
    return SavedState(current(method, changing_names(method, kit.declared.stages))).digest()


def sizes(method: Method[Any], memory: Peak) -> dict[str, Any]:
    """The fields of a record about memory and numbers of parameters."""
    return {
        "peak_host_memory_mib": memory.host,
        "peak_gpu_memory_mib": memory.gpu,
        "parameters_total": count(method, trained=False),
        "parameters_added": added(method),
    }


def check_runnable(trial: Trial) -> None:
    """Check that the trials of a configuration can run.

    Raises UserError for a model, a corpus, a suite or a declaration with which no trial can run.
    """
    checkpoint_minutes()  # a variable that is no number is refused before any trial
    declared = trial.declared
    declared.check()
    key(trial)  # it reads every model and every data file, so it finds the missing ones
    for name in declared.models:
        check_loadable(name)
    measured, *others = suites_of(declared.config)
    for task in (measured.dev, *measured.tests):
        measured.load(task)
    for each in others:
        each.load(each.dev)
    kit, encoder = Kit(declared, device()), declared.config.encoder
    if encoder in declared.models:
        check_embedded(encoder, kit.tokenizer, int(model_shape(encoder)["vocab_size"]))
    for name in dict.fromkeys(declared.corpora.values()):
        if kit.tokenised(name, kit.template).damage:
            corpus = source(name)
            corpus.corpus(corpus.paths())  # what cannot be tokenised later is refused now
