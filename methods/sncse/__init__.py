"""SNCSE: a sentence is nearer to itself than to its negation, and not too far from that.

Wang et al., arXiv 2201.05979; sncse.md.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, FilePath, model_validator

from harness import plugin
from harness.choices import TemplateText
from harness.plugin import Artefact, Stage

NEGATIONS = "negations"
"""Name of the artefact with the negation of each sentence (sncse.md, section 2)"""


class Config(plugin.TrainingConfig):
    """sncse.md, section 3; the field defaults are those of BERT base."""

    setting: Literal["unsup"] = "unsup"
    learning_rate: float = Field(1e-5, gt=0)
    batch_size: int = Field(256, ge=2, description="sentences")
    negations: FilePath | None = Field(
        None,
        description='file of lines ["SENTENCE", "ITS NEGATION"]; a sentence that it does not have, '
        "and without a file every one, gets Not in front",
    )
    margin_weight: float = Field(1e-3, gt=0, description="lambda, of the bidirectional margin loss")
    smallest_margin: float = Field(
        0.1, description="alpha: cos of the views exceeds that of the negation by at least this"
    )
    largest_margin: float = Field(0.3, description="beta: and by at most this")
    template: TemplateText = Field(
        'This sentence : " {s} " means [MASK] .', description="of the first view, and at test time"
    )
    second_template: TemplateText = Field(
        'This sentence of " {s} " means [MASK] .', description="of the second view and the negation"
    )

    published: ClassVar = {
        ("unsup", "bert-large-uncased"): {"learning_rate": 5e-6, "batch_size": 128},
        ("unsup", "roberta-base"): {"margin_weight": 5e-4},
        ("unsup", "roberta-large"): {
            "learning_rate": 5e-6, "batch_size": 128, "margin_weight": 5e-4,
        },
    }  # fmt: skip

    @model_validator(mode="after")
    def _a_range(self) -> Self:
        if self.smallest_margin > self.largest_margin:
            raise ValueError("smallest_margin must not be above largest_margin")
        return self


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}

    @classmethod
    def files(cls, config: Config) -> list[Path]:
        return [config.negations] if config.negations else []

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        def build(kit: Any) -> Mapping[str, np.ndarray]:
            from .negations import negated_pieces  # with torch

            tokenizer, template = kit.tokenizer, config.second_template
            return negated_pieces(tokenizer, config.sentences, config.negations, template)

        # The file itself is part of the artefact's identity, through `files`.
        return [Artefact(NEGATIONS, ("sentences", "second_template"), build, embeds=False)]

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        losses = {"contrastive": 1.0, "margin": config.margin_weight}
        return [config.stage("contrastive", losses=losses, capturable=True)]
