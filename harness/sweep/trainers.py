"""The order of searches, where one trains the encoder from which another starts."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.data.trained_encoders import parts_of, trained_name
from harness.sweep.axes import Values
from harness.sweep.search import Search
from harness.trials.trial import Trial, key


def implied(searches: Iterable[Search]) -> list[Search]:
    """The searches that train an encoder for some of these and are not among them, each once."""
    listed, found = list(searches), list[Search]()
    for search in listed:
        trainer = search.starts_from
        if trainer is not None and trainer not in (*listed, *found):
            found.append(trainer)
    return found


def trainer_of(search: Search, chosen: Sequence[tuple[Search, Values]]) -> Trial | None:
    """The trial that trains the encoder of a search; None when its search has chosen nothing.

    It is the chosen configuration on the first of the final seeds. chosen: searches with the
    configuration that each has chosen.
    """
    for other, values in chosen:
        if other == search.starts_from:
            return other.trials([values], "final")[0]
    return None


def started(search: Search, trainer: Trial, *, download: bool = True) -> Search:
    """The search on the encoder that this trial trains.

    Raises NotHere when a file that its key needs is not on this machine.
    """
    model, _ = parts_of(search.config.encoder)
    encoder = trained_name(model, key(trainer, download=download))
    return replace(search, fixed={**search.fixed, "encoder": encoder})


def on_trained(
    searches: Iterable[Search], chosen: Sequence[tuple[Search, Values]]
) -> tuple[list[Search], dict[str, Trial], list[str]]:
    """The searches, now on the encoders that others train.

    With them come the trials that train these encoders (key -> trial), and the labels of the
    searches that are left out, because none was chosen to train their encoders.
    """
    ready, training, waiting = list[Search](), dict[str, Trial](), list[str]()
    for search in searches:
        trial = trainer_of(search, chosen)
        if search.starts_from is None:
            ready.append(search)
        elif trial is None:
            waiting.append(search.label)
        else:
            training[key(trial)] = trial
            ready.append(started(search, trial))
    return ready, training, waiting
