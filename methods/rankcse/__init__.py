"""RankCSE: SimCSE whose views rank a batch alike, and rank it as one or two teachers do.

Liu et al., ACL 2023; rankcse.md.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from harness import plugin
from harness.choices import Pooling
from harness.plugin import Artefact, Stage


class Config(plugin.TrainingConfig):
    """rankcse.md, section 4, says where the values come from."""

    setting: Literal["unsup"] = "unsup"
    teacher: str = Field(
        "voidism/diffcse-bert-base-uncased-sts",
        description="frozen encoder whose ranking is learned; it is named as `encoder` is",
    )
    second_teacher: str | None = Field(
        "princeton-nlp/unsup-simcse-bert-large-uncased",
        description="another one, whose similarities are averaged with the first; null: none",
    )
    teacher_weight: float = Field(
        1 / 3, ge=0, le=1, description="alpha: share of `teacher` in that average"
    )
    teacher_pooling: Pooling = Field("cls", description="the vector of a sentence in a teacher")
    distillation: Literal["list-mle", "list-net"] = Field(
        "list-mle", description="the teachers' order of a batch, or their distribution over it"
    )
    distillation_weight: float = Field(1.0, ge=0, description="gamma; 0: no teacher")
    consistency_weight: float = Field(1.0, ge=0, description="beta; 0: no consistency of the views")
    student_temperature: float = Field(0.05, gt=0, description="tau_2, of the distillation")
    teacher_temperature: float = Field(0.025, gt=0, description="tau_3, of ListNet alone")
    batch_size: int = Field(128, ge=2, description="sentences; each is ranked among all others")

    @classmethod
    def dependent_defaults(cls, given: Mapping[str, object]) -> Mapping[str, object]:
        """ListNet has a smaller weight: its loss is no sum over a list (rankcse.md, section 4)."""
        return {"distillation_weight": 0.1} if given.get("distillation") == "list-net" else {}

    @property
    def unused(self) -> Collection[str]:
        if not self.distillation_weight:
            return {
                "teacher", "second_teacher", "teacher_weight", "teacher_pooling", "distillation",
                "student_temperature", "teacher_temperature",
            }  # fmt: skip
        return {
            *(() if self.second_teacher else ("teacher_weight",)),
            *(() if self.distillation == "list-net" else ("teacher_temperature",)),
        }

    @property
    def teachers(self) -> dict[str, str]:
        """Artefact with the vectors of a teacher -> the teacher."""
        named = {"teacher": self.teacher, "second-teacher": self.second_teacher}
        return {name: model for name, model in named.items() if model and self.distillation_weight}


class Declaration(plugin.Declaration[Config]):
    """The corpora, models, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}

    @classmethod
    def models(cls, config: Config) -> list[str]:
        return [config.encoder, *config.teachers.values()]

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        return [*_vectors(config)]

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        losses = {
            "contrastive": 1.0,
            "consistency": config.consistency_weight,
            "distillation": config.distillation_weight,
        }
        losses = {name: weight for name, weight in losses.items() if weight}
        return [config.stage("contrastive", trains=["encoder.*", "head.*"], losses=losses)]


def _vectors(config: Config) -> Iterator[Artefact]:
    """The vectors of the corpus from each teacher, which reads by its own tokenizer."""
    for name, teacher in config.teachers.items():

        def build(kit: Any, teacher: str = teacher) -> Mapping[str, np.ndarray]:
            from harness.plugin.corpus_vectors import corpus_vectors  # with torch

            pooling, length = config.teacher_pooling, config.max_length
            return {"vectors": corpus_vectors(kit, config.sentences, pooling, length, teacher)}

        fields = ("sentences", "teacher_pooling", "max_length")
        yield Artefact(name, fields, build, embeds=False, models=(teacher,))
