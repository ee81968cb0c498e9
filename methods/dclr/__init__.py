"""DCLR: SimCSE with noise as further negatives, and without negatives that are alike.

Zhou et al., ACL 2022; dclr.md.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from harness import plugin
from harness.choices import Pooling
from harness.plugin import Artefact, Stage

VECTORS = "teacher"
"""Name of the artefact with the vectors of the complementary model (dclr.md, section 2)"""


class Config(plugin.TrainingConfig):
    """dclr.md, section 5; the field defaults are those of BERT base."""

    setting: Literal["unsup"] = "unsup"
    batch_size: int = Field(128, ge=2, description="sentences")
    epochs: float = Field(3, gt=0, le=1_000_000)
    teacher: str = Field(
        "princeton-nlp/unsup-simcse-bert-base-uncased",
        description="frozen encoder that tells which sentences of a batch are alike; it is named "
        "as `encoder` is",
    )
    teacher_pooling: Pooling = Field("cls", description="the vector of a sentence in the teacher")
    similarity_bound: float = Field(
        0.9, ge=-1, le=1, description="phi: sentences with a higher cosine are no negatives"
    )
    noise_ratio: float = Field(1.0, ge=0, description="noise vectors for each sentence of a batch")
    ascent_steps: int = Field(4, ge=0, description="steps that make the noise harder")
    ascent_rate: float = Field(1e-3, gt=0, description="length of such a step")
    head_layers: Literal[1, 2] = Field(
        2, description="layers (dense and tanh) between [CLS] and the loss"
    )
    dev_head: bool = Field(True, description="the first of them is part of the vectors on dev")

    published: ClassVar = {
        ("unsup", "roberta-base"): {
            "teacher": "princeton-nlp/unsup-simcse-roberta-base", "similarity_bound": 0.85,
            "noise_ratio": 2.5,
        },
        ("unsup", "princeton-nlp/unsup-simcse-bert-large-uncased"): {
            "batch_size": 256, "epochs": 1, "noise_ratio": 3.0, "head_layers": 1,
        },
        ("unsup", "princeton-nlp/unsup-simcse-roberta-large"): {
            "teacher": "princeton-nlp/unsup-simcse-roberta-base", "similarity_bound": 0.85,
            "batch_size": 256, "epochs": 1, "noise_ratio": 5.0, "head_layers": 1,
            "learning_rate": 1e-5,
        },
    }  # fmt: skip
    released: ClassVar = frozenset({"dev_head"})


class Declaration(plugin.Declaration[Config]):
    """The corpora, models, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}

    @classmethod
    def models(cls, config: Config) -> list[str]:
        return [config.encoder, config.teacher]

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        def build(kit: Any) -> Mapping[str, np.ndarray]:
            from harness.plugin.corpus_vectors import corpus_vectors  # with torch

            pooling, length = config.teacher_pooling, config.max_length
            return {
                "vectors": corpus_vectors(kit, config.sentences, pooling, length, config.teacher)
            }

        fields = ("sentences", "teacher_pooling", "max_length")
        return [Artefact(VECTORS, fields, build, embeds=False, models=(config.teacher,))]

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [config.stage("contrastive")]
