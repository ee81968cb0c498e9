"""The dev curve of a stored trial, as a pruner saw it while the trial ran."""

from harness.trials.record import Record
from harness.trials.trial import Trial


def curve_of(trial: Trial, record: Record) -> list[float]:
    """The best dev score so far after each evaluation of the last stage."""
    stages = trial.declared.stages
    if not stages:
        return []
    # The choice of the best checkpoint starts anew behind a stage that is a run of its own.
    apart = {stage.name for stage in stages[:-1] if stage.selection.own_run}
    latest = stages[-1].selection.keep == "last"
    best, curve = float("-inf"), []
    for point in record.history:
        if point["metric"] == "dev" and point["stage"] not in apart:
            best = point["value"] if latest else max(best, point["value"])
            if point["stage"] == stages[-1].name:
                curve.append(best)
    return curve
