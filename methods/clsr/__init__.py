"""CLSR: contrastive learning on the cached vectors of a frozen sentence encoder.

Qiu, Ding and Chen, ICON 2021 (SimCLR on sentences); clsr.md.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn

from harness import plugin
from harness.data.shapes import Accepts
from harness.encoders.pooling import pooled
from harness.losses.nt_xent import nt_xent
from harness.modules.vector_table import VectorTable
from harness.plugin import Artefact, Batches, Kit, Optimisation, Selection, Stage, TextBatch
from harness.plugin.frozen_vectors import frozen_vectors

WIDTH = 768
"""Of the vectors that e of the paper makes, and of its hidden layer"""
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


class Method(plugin.FrozenMethod[Config]):
    """A network e on frozen vectors, trained under a linear head h that is dropped at test time.

    e and h are the paper's names (section 3).
    """

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

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        hidden = [nn.ReLU()] if config.relu in ("both", "hidden") else []
        output = [nn.ReLU()] if config.relu in ("both", "output") else []
        first, second = nn.Linear(self.encoder.hidden_size, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(first, *hidden, second, *output)  # e
        self.head = nn.Linear(WIDTH, WIDTH)  # h
        self.vectors = VectorTable(kit.artefact("vectors")["vectors"], kit.device)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        # (items, columns, width) -> (items, 2, width): a corpus may have further columns.
        pairs = self.vectors(batch["pairs"].items)[:, :2]
        first, second = self.head(self.mlp(pairs)).unbind(1)
        loss = nt_xent(first, second, temperature=self.config.temperature)  # eq. 1
        return {"contrastive": loss}

    def base(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, self.config.pooling)

    def transform(self, vectors: Tensor) -> Tensor:
        transformed: Tensor = self.mlp(vectors)
        return transformed
