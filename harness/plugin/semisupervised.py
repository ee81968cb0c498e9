"""Semi-supervised schedules around an unsupervised method (DiffAug, appendix C; semisupervised.md).

joint: contrastive learning on unlabelled sentences, with alpha times an NLI softmax on triplets in every update.
sup-unsup: first the NLI softmax alone, then the unsupervised method from its best weights. sup-joint: first the
softmax, then joint. A method inherits its configuration, hands its unsupervised stage to `schedule`, and computes
the loss "classification" from the stream "labelled".
"""

from dataclasses import replace
from typing import Literal

from pydantic import Field

from harness.plugin.config import TrainingConfig
from harness.plugin.stage import Optimisation, Selection, Stage

CONTRASTIVE, LABELLED, CLASSIFICATION = "contrastive", "labelled", "classification"
"""Names of the streams and of the added loss (the stream and the loss of contrastive learning share a name)"""


class SemiSupervisedConfig(TrainingConfig):
    """The papers leave alpha and the classification phase open; defaults as DiffAug's own auxiliary loss."""

    schedule: Literal["joint", "sup-unsup", "sup-joint"] = Field(
        "joint", description="only in the semisup setting"
    )
    auxiliary_weight: float = Field(
        1e-3, ge=0, description="alpha: of the NLI softmax in joint training"
    )
    auxiliary_batch_size: int = Field(
        128, ge=1, description="triplets per update in joint training"
    )
    classification_learning_rate: float = Field(
        2e-5, gt=0, description="of the phase on labels alone"
    )
    classification_batch_size: int = Field(128, ge=1)
    classification_epochs: float = Field(1, gt=0)
    classification_max_steps: int | None = Field(None, ge=1)


def corpora(config: SemiSupervisedConfig) -> dict[str, str]:
    """What each stream of the setting reads; the supervised setting has triplets for contrastive learning."""
    if config.setting == "sup":
        return {CONTRASTIVE: config.triplets}
    labelled = {LABELLED: config.triplets} if config.setting == "semisup" else {}
    return {CONTRASTIVE: config.sentences, **labelled}


def schedule(config: SemiSupervisedConfig, unsupervised: Stage) -> list[Stage]:
    """The stages of the configured schedule; `unsupervised` is the method's own stage, all parameters at one rate."""
    if config.setting != "semisup":
        return [unsupervised]
    last = unsupervised
    if config.schedule != "sup-unsup":
        last = replace(
            unsupervised,
            name="joint",
            streams={**unsupervised.streams, LABELLED: config.auxiliary_batch_size},
            losses={**unsupervised.losses, CLASSIFICATION: config.auxiliary_weight},
        )
    if config.schedule == "joint":
        return [last]
    first = Stage(
        name=CLASSIFICATION,
        trains={"*": "classification_learning_rate"},
        streams={LABELLED: config.classification_batch_size},
        losses={CLASSIFICATION: 1.0},
        epochs=config.classification_epochs,
        max_steps=config.classification_max_steps,
        optimisation=Optimisation(optimiser=unsupervised.optimisation.optimiser),
        selection=Selection(evaluation_interval=min(50, config.evaluation_interval), own_run=True),
    )
    return [first, last]
