"""Semi-supervised schedules around an unsupervised method (semisupervised.md, section 1).

They are those of DiffAug's appendix C:

- joint: in every step contrastive learning on unlabelled sentences, plus alpha times an NLI
  softmax on triplets (DiffAug, eq. 13).
- sup-unsup: first the NLI softmax alone, then the unsupervised method from its best weights.
- sup-joint: first the NLI softmax alone, then joint.

A method derives its configuration from `SemiSupervisedConfig`, calls `config.stages_around` with
its unsupervised stage, and computes the loss "classification" from the stream "labelled".
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Literal

from pydantic import Field

from harness.plugin.config import Setting, TrainingConfig
from harness.plugin.stage import Optimisation, Selection, Stage

CONTRASTIVE, LABELLED, CLASSIFICATION = "contrastive", "labelled", "classification"
"""Names of streams and losses; contrastive learning has the same name for both"""
JOINT_TRAINING = ("auxiliary_weight", "auxiliary_batch_size")
"""Fields of joint training"""
LABELS_ALONE = (
    "classification_learning_rate", "classification_batch_size", "classification_epochs",
    "classification_max_steps",
)  # fmt: skip
"""Fields of the phase on labels alone"""


class SemiSupervisedConfig(TrainingConfig):
    """The fields of a method with the settings unsup, semisup and sup.

    The paper leaves alpha and the classification phase open; the defaults are those of DiffAug's
    own auxiliary loss (semisupervised.md, section 2).
    """

    setting: Setting = "unsup"
    schedule: Literal["joint", "sup-unsup", "sup-joint"] = Field(
        "joint", description="only in the semisup setting"
    )
    auxiliary_weight: float = Field(
        1e-3, ge=0, description="alpha: of the NLI softmax in joint training"
    )
    auxiliary_batch_size: int = Field(128, ge=1, description="triplets per step in joint training")
    classification_learning_rate: float = Field(
        2e-5, gt=0, description="of the phase on labels alone"
    )
    classification_batch_size: int = Field(128, ge=1, description="triplets")
    classification_epochs: float = Field(1, gt=0)
    classification_max_steps: int | None = Field(None, ge=1)

    @property
    def unused(self) -> Collection[str]:
        """Fields of the schedule outside of semisup, and those of a phase that it does not have."""
        if self.setting != "semisup":
            return ("schedule", *JOINT_TRAINING, *LABELS_ALONE)
        return {"joint": LABELS_ALONE, "sup-unsup": JOINT_TRAINING}.get(self.schedule, ())

    def corpora(self) -> dict[str, str]:
        """Stream -> corpus. In the sup setting triplets are the contrastive data."""
        if self.setting == "sup":
            return {CONTRASTIVE: self.triplets}
        labelled = {LABELLED: self.triplets} if self.setting == "semisup" else {}
        return {CONTRASTIVE: self.sentences, **labelled}

    def stages_around(self, unsupervised: Stage) -> list[Stage]:
        """The stages of the schedule around the method's own stage.

        unsupervised: a stage in which all parameters train at one rate. Outside of the semisup
        setting it is the only stage.
        """
        if self.setting != "semisup":
            return [unsupervised]
        # In sup-unsup the classifier is not used any more, so the stage stays as it is.
        last = unsupervised
        if self.schedule != "sup-unsup":
            last = replace(
                unsupervised,
                name="joint",
                streams={**unsupervised.streams, LABELLED: self.auxiliary_batch_size},
                losses={**unsupervised.losses, CLASSIFICATION: self.auxiliary_weight},
            )
        if self.schedule == "joint":
            return [last]
        return [self._classification_stage(unsupervised), last]

    def _classification_stage(self, unsupervised: Stage) -> Stage:
        """The phase on labels alone, a run of its own with the optimiser of the method."""
        # It is evaluated every 50 steps (semisupervised.md, section 2), or as often as the method.
        return Stage(
            CLASSIFICATION,
            trains={"*": "classification_learning_rate"},
            streams={LABELLED: self.classification_batch_size},
            losses={CLASSIFICATION: 1.0},
            epochs=self.classification_epochs,
            max_steps=self.classification_max_steps,
            capturable=unsupervised.capturable,
            optimisation=Optimisation(optimiser=unsupervised.optimisation.optimiser),
            selection=Selection(
                evaluation_interval=min(50, self.evaluation_interval), own_run=True
            ),
        )
