"""Exportable models: the method of a trial, with the weights that the trial has trained."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.data.hub import is_model_folder
from harness.data.user_modules import names_of_records
from harness.errors import UserError, headline, shortened
from harness.files import content_digest
from harness.inputs import is_file
from harness.plugin import registry
from harness.trials.lookup import provide_models
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.trial import FACTS, Trial, data_digest

if TYPE_CHECKING:
    from harness.plugin.kit import Kit
    from harness.plugin.method import Method


@dataclass(frozen=True)
class Exportable:
    """A method with its weights, and what is known of the trial that has trained it."""

    method: "Method[Any]"
    kit: "Kit"
    facts: Mapping[str, Any]
    """Facts of `harness.trials.trial.FACTS`"""
    record: Record | None = None
    """The record of the trial; None where there is only the file of its weights"""


def exportable(name: str, store: Store, method: str | None = None) -> Callable[[], Exportable]:
    """The function that builds the model that `name` means, after a look at its record alone.

    name: the key of a trial, or a file of kept weights. method: the path of the plugin, where it is
    not found by its name. Nothing is trained, and no corpus is needed, unless a map is made from
    it. Raises UserError when there is no such trial; the function raises it when the weights are
    not kept, and when the code or the models have changed since the trial ran.
    """
    if name.endswith(".safetensors") and is_file(Path(name)):
        return lambda: _of_file(Path(name), store, method)
    record = store.find(name)
    if record.role == "evaluation" and record.evaluates:
        record = store.get(record.evaluates) or record
    _check_kept(record, store)
    _name(vars(record), method)
    return lambda: _of_record(record, store, method)


def _of_record(record: Record, store: Store, method: str | None) -> Exportable:
    """The method of a trial, with the weights that its record names."""
    from harness.training.saved_state import SavedState

    facts = {each: getattr(record, each) for each in FACTS}
    weights = store.kept_weights(record.key)
    if record.weights_digest is None:
        return _built(facts, {}, store, method, record)
    if not weights.is_file() or content_digest(weights) != record.weights_digest:
        short = record.key[:10]
        raise UserError(
            f"the weights of trial {short} are not in the store; `harness eval {short} --store "
            f"{store.place}` makes them again"
        )
    return _built(facts, SavedState.read(weights).weights, store, method, record)


def _check_kept(record: Record, store: Store) -> None:
    """Raises UserError for a trial that has no trained model."""
    short = record.key[:10]
    if record.role == "evaluation":
        raise UserError(
            f"{short} is an evaluation of {record.encoder}, which no trial has trained; export the "
            f"model from where it is"
        )
    _check_finished(record)
    if record.weights_digest is None and record.steps:
        why = "a search trial keeps none" if record.role == "search" else "they were not written"
        raise UserError(
            f"the weights of trial {short} are not in the store {store.place}: {why}; export a "
            f"final trial (`harness list trials`)"
        )


def _check_finished(record: Record) -> None:
    if not record.finished:
        raise UserError(f"trial {record.key[:10]} has not finished ({headline(record.reason)})")


def _of_file(path: Path, store: Store, method: str | None) -> Exportable:
    """The method of a file of kept weights, by what the file itself says."""
    from harness.training.saved_state import SavedState

    state = SavedState.read(path)
    if missing := [name for name in FACTS if name not in state.facts]:
        raise UserError(
            f"{path} does not say of which trial it is (it has no {missing[0]}); export the trial "
            f"by its key"
        )
    record = store.get(state.facts["key"])
    if record is not None:
        _check_finished(record)
    return _built(state.facts, state.weights, store, method, record)


def _built(
    facts: Mapping[str, Any],
    weights: Mapping[str, Any],
    store: Store,
    method: str | None,
    record: Record | None,
) -> Exportable:
    from harness.plugin.rebuilt import EmbeddingKit
    from harness.trials.run import built

    name = _name(facts, method)
    if method is not None:  # the user names this code, and no other that the record has
        registry.load(name)
    with names_of_records():
        trial = Trial(str(registry.locate(name)), facts["configuration"], facts["seed"])
        provide_models(store, trial)
        _check_same(trial, facts)
        model, kit = built(trial, EmbeddingKit)
    # What is not among the weights is that of the pretrained model.
    unknown = model.load_state_dict(dict(weights), strict=False).unexpected_keys
    if unknown:
        raise UserError(
            f"the weights of trial {facts['key'][:10]} are those of another method ({unknown[0]})"
        )
    return Exportable(model.eval(), kit, facts, record)


def _name(facts: Mapping[str, Any], method: str | None) -> str:
    """The name of the method of a trial, or the path of `method`; nothing of it is imported.

    Raises UserError where there is none.
    """
    if method is not None:
        return str(registry.locate(method))
    if facts["method"] not in registry.names():
        raise UserError(
            f"trial {facts['key'][:10]}: there is no method {facts['method']} here; name its "
            f"folder with --method PATH"
        )
    return str(facts["method"])


def _check_same(trial: Trial, facts: Mapping[str, Any]) -> None:
    """Raises UserError when what the trial was made of is not what is here."""
    declared = trial.declared
    now = {"source_digest": declared.source_digest, "model_digest": declared.model_digest()}
    if any(each.embeds for each in declared.artefacts):
        now["data_digest"] = data_digest(declared)
    words = {"source_digest": "code has", "model_digest": "models have", "data_digest": "data have"}
    for name, digest in now.items():
        if digest != facts[name]:
            raise UserError(
                f"trial {facts['key'][:10]}: the {words[name]} changed since it ran, so its model "
                f"cannot be built; check out what it ran with, or run it again"
            )


def shown_encoder(encoder: str) -> str:
    """The name of an encoder for others: of a folder of this machine its last part alone."""
    return shortened(Path(encoder).name if is_model_folder(encoder) else encoder, 200)
