"""What the training loop takes from a stage: its streams, when it is scored on dev, its end."""

from typing import Any

from harness.data.batching import Stream, StreamOptions
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.training.progress import Outcome


def stage_streams(
    method: Method[Any], kit: Kit, stage: Stage, seed: int, *, batch_size: int | None = None
) -> dict[str, Stream]:
    """The streams of a stage, by name. `batch_size`: at most so many items in a batch."""
    config = kit.config
    assert isinstance(config, TrainingConfig)
    streams = {}
    for name, size in stage.streams.items():
        corpus = kit.declared.corpora[name]
        options = StreamOptions(
            limit=method.training_pieces,
            batch_size=min(size, batch_size or size),
            seed=seed,
            items=kit.label_subset(corpus),
            group=stage.group,
            text=stage.batches.text,
            # Rows that are looked up have no padding to save.
            batching=config.batching if stage.batches.text else "shuffled",
        )
        streams[name] = Stream(kit.tokens(corpus, method.template), method.template, options)
    return streams


def patience_spent(stage: Stage, outcome: Outcome) -> bool:
    """Whether a stage ends here, because its last evaluations on dev brought no gain."""
    if stage.selection.patience is None:
        return False
    # The history is in the checkpoint, so a trial that goes on counts from the same evaluation.
    since_best = sum(
        each["stage"] == stage.name and each["metric"] == "dev" and each["step"] > outcome.best_step
        for each in outcome.history
    )
    return since_best >= stage.selection.patience
