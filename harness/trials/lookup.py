"""Finds the model that a name means: a trial of the store, a folder, or a model of the Hub."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import PROTOCOL
from harness.data.hub import MODULES_FILE, model_folder, model_shape
from harness.data.revisions import WEIGHTS, parts_of, trained_folder
from harness.data.senteval import archive
from harness.data.user_modules import names_of_records
from harness.errors import UserError, headline
from harness.evaluation.suites import Suite
from harness.files import content_digest, digest_of
from harness.inputs import kind_of
from harness.manifests import MANIFEST, damage, seal
from harness.plugin import registry
from harness.trials.record import Record
from harness.trials.store import Store, only
from harness.trials.trial import Trial, key

KEY_PATTERN = re.compile(r"[0-9a-f]{4,32}")


@dataclass(frozen=True)
class MeasuredModel:
    """A model to be measured: the trial that makes it, and its record where the store has one."""

    name: str
    trial: Trial
    record: Record | None = None

    @property
    def label(self) -> str:
        """The model as people read it: its name, and the trial or the pooling."""
        if self.record is not None:
            return f"{self.name} ({self.trial.label})"
        how = getattr(self.trial.config, "pooling", None)
        return f"{self.name} ({how} pooling)" if how else self.name


def model(name: str, store: Store, *, pooling: str | None, method: str | None) -> MeasuredModel:
    """The model that `name` means: a trial's key, a model of the Hub, or a folder.

    `pooling`: the pooling of a plain encoder; None: that of a sentence-transformers folder, or else
    the mean. `method`: the path of the plugin behind a trial, where no plugin of this name is
    installed. Raises UserError when there is no such model, or when the plugin, the data or the
    models of a trial have changed since it ran.
    """
    return named(name, store, pooling=pooling, method=method)()


def named(
    name: str, store: Store, *, pooling: str | None, method: str | None
) -> Callable[[], MeasuredModel]:
    """The function that gives the model, as `model` does, after a look at its name alone.

    The look is quick. The function may import a plugin, and read all files of a trial. Raises
    UserError when there is no such model; the function raises it when something has changed.
    """
    if KEY_PATTERN.fullmatch(name) and kind_of(Path(name)) == "nothing":
        trials = [record for record in store.matching(name) if record.role != "evaluation"]
        if trials:
            record = only(trials, name)
            _check_stored(record, pooling, method)
            return lambda: _stored(store, record, method)
    folder = model_folder(name)
    model_shape(name)  # a damaged configuration is refused before the data of a suite are read
    return lambda: _unstored(name, folder, pooling)


def evaluation_key(model: MeasuredModel, suite: Suite) -> str:
    """The key of an evaluation: the digest of the trial, its weights, the suite and its data.

    Another machine may have trained other weights under the key of the trial. The key for dev tasks
    alone is another one.
    """
    try:
        data = suite.digest()
    except UserError:
        data = "missing"
    alone = [] if suite.tests else ["dev"]
    weights = [model.record.weights_digest] if model.record else []
    return digest_of([key(model.trial), *weights, suite.name, data, PROTOCOL, *alone], 32)


def _unstored(name: str, folder: Path, pooling: str | None) -> MeasuredModel:
    # A key needs the data of a suite; where those of STS are missing, the embedded pairs are there.
    values = {"encoder": name} | ({} if _sts_is_here() else {"suite": "graded"})
    if (folder / MODULES_FILE).is_file() and pooling is None:
        return MeasuredModel(name, Trial("sentence_transformer", values, 0))
    return MeasuredModel(name, Trial("pooling", values | {"pooling": pooling or "mean"}, 0))


def _check_stored(record: Record, pooling: str | None, method: str | None) -> None:
    """Raises UserError for a trial that has no model, or whose plugin is not here."""
    name = record.key[:10]
    if pooling is not None:
        raise UserError(
            f"--pooling is for plain encoders; trial {name} has the pooling of its method"
        )
    if not record.finished:
        raise UserError(f"trial {name} has not finished ({headline(record.reason)})")
    if method is None and record.method not in registry.names():
        raise UserError(
            f"trial {name}: there is no method {record.method} here; name its folder with "
            f"--method PATH"
        )


def _stored(store: Store, record: Record, method: str | None) -> MeasuredModel:
    name, plugin = record.key[:10], record.method
    assert record.role != "evaluation"
    if method is not None:  # the user names this code, and no other that the record has
        plugin = str(registry.locate(method))
        registry.load(plugin)
    with names_of_records():
        source = str(registry.locate(plugin))
        trial = Trial(source, record.configuration, record.seed, record.role, record.search)
        provide_models(store, trial)
        same = key(trial) == record.key
    if not same:
        raise UserError(
            f"the code, the data or the models of trial {name} have changed since it ran; `harness "
            f"show {name}` names them, and the command that it prints runs the trial again"
        )
    return MeasuredModel(name, trial, record)


def _sts_is_here() -> bool:
    try:
        return archive().is_file()
    except UserError:
        return False


_TAKEN_FROM = "weights-digest"
"""The file beside an encoder with the digest of the weights that it was taken from"""
IN_A_METHOD = "encoder.model."
"""Prefix of the pretrained model's parameter names in the state of a method"""


def provide_models(store: Store, trial: Trial) -> None:
    """Put the encoders of a trial that other trials of the store have trained into the cache.

    Raises UserError as `provide`.
    """
    for name in trial.declared.models:
        provide(store, name)


def provide(store: Store, encoder: str) -> None:
    """Put an encoder that a trial of the store has trained into the cache.

    Nothing happens for a pretrained model, and where the cache has it. Raises UserError when the
    trial has not finished, when it has trained no encoder, or when its weights are gone.
    """
    _, trial = parts_of(encoder)
    if trial is None:
        return
    folder, record = trained_folder(trial), store.get(trial)
    if damage(folder / MANIFEST) is None and _is_of(folder, record):
        return
    from harness.training.saved_state import SavedState  # with torch

    state = SavedState.read(_weights(store, record, encoder, trial))
    weights = {
        name.removeprefix(IN_A_METHOD): value
        for name, value in state.weights.items()
        if name.startswith(IN_A_METHOD)
    }
    if not weights:
        raise UserError(f'encoder "{encoder}": trial {trial[:10]} has not trained its encoder')
    SavedState(weights).write(folder / WEIGHTS)
    (folder / _TAKEN_FROM).write_text(str(record and record.weights_digest))
    seal(folder / MANIFEST, [folder / WEIGHTS, folder / _TAKEN_FROM])


def _is_of(folder: Path, record: Record | None) -> bool:
    """Whether an encoder of the cache has the weights that a record names; True without one.

    Another store may have other weights of the same trial, which another kind of machine trained.
    """
    if record is None:
        return True
    taken = folder / _TAKEN_FROM
    return record.finished and taken.is_file() and taken.read_text() == record.weights_digest


def _weights(store: Store, record: Record | None, encoder: str, trial: str) -> Path:
    """The file of a trial's trained weights, as its record names it."""
    weights = store.kept_weights(trial)
    if record is None or not record.finished:
        raise UserError(
            f'encoder "{encoder}": trial {trial[:10]}, which trains it, has not finished'
            + (f" ({headline(record.reason)})" if record is not None else "")
        )
    if not weights.is_file() or content_digest(weights) != record.weights_digest:
        raise UserError(
            f'encoder "{encoder}": {weights} are not the weights of trial {trial[:10]}; '
            f"`harness eval {trial[:10]} --store {store.place}` makes them again"
        )
    return weights
