"""CLSR: contrastive learning on the cached vectors of a frozen sentence encoder.

Qiu, Ding and Chen, ICON 2021 (SimCLR on sentences); clsr.md.
"""

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field

from harness import plugin
from harness.data.shapes import Accepts
from harness.plugin import Artefact, Batches, Optimisation, Selection, Stage
from harness.plugin.frozen_vectors import frozen_vectors

WARMUP_EPOCHS = 10


class Config(plugin.TrainingConfig):
    """clsr.md, sections 1, 2, 3 and 4, say where the values come from."""

    setting: Literal["sup"] = "sup"
    pairs: Annotated[str, Accepts("pairs", "labelled pairs", "triplets")] = Field(
        "nli-entailments",
        description="positive pairs: a corpus whose first two columns are similar",
    )
    pooling: Literal["mean", "cls"] = Field(
        "mean", description="of the frozen encoder's last layer"
    )
    relu: Literal["both", "hidden", "output"] = Field(
        "both", description="the layers of the encoder with a ReLU"
    )
    learning_rate: float = Field(0.5, gt=0)
    batch_size: int = Field(512, ge=2, description="pairs")
    epochs: float = Field(2000, gt=0)
    warmup_ratio: float = Field(
        default_factory=lambda given: min(1.0, WARMUP_EPOCHS / given["epochs"]),
        ge=0,
        le=1,
        description="default: 10 epochs",
    )
    max_length: int = Field(
        128, ge=4, le=512, description="tokens of a training sentence, special tokens included"
    )
    temperature: float = Field(0.1, gt=0)
    weight_decay: float = Field(1e-4, ge=0)
    gradient_clipping: float = Field(
        1e6, gt=0, description="largest norm of the gradient; in effect none"
    )
    # The network is tiny (clsr.md, section 4).
    precision: plugin.Precision = "fp32"
    evaluation_interval: int = Field(
        613, ge=1, description="steps between two evaluations on dev; an epoch of NLI"
    )
    checkpoint: Literal["best", "last"] = Field("last", description="best: on dev")

    @property
    def unused(self) -> Collection[str]:
        # Vectors are looked up, so nothing is padded, and no encoder runs in training.
        return {"batching", "encoder_dropout"}


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"pairs": config.pairs}

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        return [frozen_vectors(config.pairs, "pairs", config.pooling, config.max_length)]

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        stage = config.stage(
            "contrastive",
            trains=["mlp.*", "head.*"],
            streams={"pairs": config.batch_size},
            # Full batches, so that every vector has as many negatives (clsr.md, section 4).
            batches=Batches(full=True, text=False),
            optimisation=Optimisation(optimiser="lars", schedule="cosine"),
            selection=Selection(keep=config.checkpoint),
        )
        return [stage]
