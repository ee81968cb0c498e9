"""Puts the encoder that a trial of the store has trained where methods load it from."""

from pathlib import Path

from harness.data.revisions import WEIGHTS, parts_of, trained_folder
from harness.errors import UserError, headline
from harness.files import content_digest
from harness.manifests import MANIFEST, damage, seal
from harness.trials.record import Record
from harness.trials.store import Store

_TAKEN_FROM = "weights-digest"
"""The file beside an encoder with the digest of the weights that it was taken from"""
IN_A_METHOD = "encoder.model."
"""What stands before the names of the pretrained model in the state of a method"""


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
