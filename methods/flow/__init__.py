"""BERT-flow: an invertible map of frozen sentence vectors to a standard normal distribution.

Li et al., EMNLP 2020; frozen_maps.md, section 1. The map is trained by maximum likelihood on
vectors that the frozen encoder draws with its dropout on, as released.
"""

from collections.abc import Collection
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from harness import plugin
from harness.choices import Permutation, Pooling
from harness.errors import UserError
from harness.plugin import Artefact, Batches, Optimisation, Stage
from harness.plugin.frozen_vectors import frozen_vectors


class Config(plugin.TrainingConfig):
    """frozen_maps.md, sections 1.1, 1.2 and 1.3, say where the values come from."""

    setting: Literal["unsup"] = "unsup"
    corpus: str = Field("nli-pairs", description="whose texts, all columns, the flow is trained on")
    pooling: Pooling = Field("first-last", description="which hidden states are averaged")
    vector_dropout: bool = Field(
        True, description="as released; false: draw the vectors once, without, and share them"
    )
    levels: int = Field(3, ge=1, description="after each but the last, half of the channels leave")
    steps_per_level: int = Field(3, ge=1, description="flow steps, which are layers of the map")
    coupling_width: int = Field(32, ge=1, description="hidden layers of the coupling networks")
    permutation: Permutation = Field(
        "reverse", description="of the channels: fixed, or a learned map"
    )
    learning_rate: float = Field(1e-3, gt=0)
    batch_size: int = Field(32, ge=2, description="items of the corpus, all their texts")
    max_length: int = Field(
        64, ge=4, le=512, description="tokens of a corpus text, special tokens included"
    )
    weight_decay: float = Field(0.01, ge=0)
    precision: plugin.Precision = "fp32"

    released: ClassVar = frozenset({"vector_dropout"})

    @property
    def unused(self) -> Collection[str]:
        # Where vectors are looked up, nothing is padded, and no encoder runs in training.
        return () if self.vector_dropout else {"batching", "encoder_dropout"}

    @model_validator(mode="after")
    def _starts_from_a_batch(self) -> Self:
        if self.engine in ("deepspeed", "fsdp"):
            raise UserError(
                f"flow: its first batch sets its first weights, which {self.engine} does not see; "
                f"choose engine=ddp"
            )
        return self


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"corpus": config.corpus}

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        if config.vector_dropout:
            return []
        return [frozen_vectors(config.corpus, "corpus", config.pooling, config.max_length)]

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        stage = config.stage(
            "flow",
            trains=["flow.*"],
            streams={"corpus": config.batch_size},
            losses={"bits_per_dimension": 1.0},
            # Without dropout, the vectors are looked up by item.
            batches=Batches(text=config.vector_dropout),
            # frozen_maps.md, section 1.3: no name in the flow is exempt from weight decay
            optimisation=Optimisation(
                optimiser="adamw-uncorrected", schedule="constant", decays="all"
            ),
        )
        return [stage]
