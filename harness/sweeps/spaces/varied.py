"""What the trials of a search differ in, as text."""

from typing import Any

from harness.sweeps.spaces.axes import Between, SamplerRange, SamplerValues, Span
from harness.trials.trial import Trial


def repeats_text(trials: list[Trial]) -> dict[str, str]:
    """The seeds of the trials as text, and their label subsets where these matter."""
    seeds = dict.fromkeys(trial.seed for trial in trials)
    subsets = dict.fromkeys(
        trial.configuration["subset"] for trial in trials if "subset" in trial.configuration
    )
    repeats = {"seeds": seeds, "subsets": subsets}
    return {name: ", ".join(map(str, values)) for name, values in repeats.items() if values}


def axis_text(axis: Any) -> str:
    """An axis of a round or a range of a sampler, as text."""
    if isinstance(axis, SamplerRange | SamplerValues) and axis.when:
        when = [f"{name} {axis_text(among)}" for name, among in axis.when.items()]
        return f"{axis_text(axis.model_copy(update={'when': {}}))}, where {' and '.join(when)}"
    if isinstance(axis, SamplerValues):
        return axis_text(axis.values)
    if isinstance(axis, Between):
        return f"between the two best, step {axis.step:g}"
    if isinstance(axis, SamplerRange):
        step = "" if axis.step is None else f", step {axis.step:g}"
        return f"{axis.low:g} to {axis.high:g}{', log' if axis.log else ''}{step}"
    if isinstance(axis, Span):
        return f"{axis.start:g} to {axis.stop:g}, step {axis.step:g}"
    return ", ".join(map(str, axis))
