"""DiffCSE: contrastive learning, and a second encoder that finds edits given the sentence vector.

Chuang et al., NAACL 2022; diffcse.md. The supervised setting is D2CSE's: the same objective with
NLI triplets.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from harness import plugin
from harness.choices import EDITS, Edit, HeadName
from harness.data.corpora import NEIGHBOURS
from harness.data.shapes import Accepts
from harness.plugin import Artefact, Stage
from harness.plugin.replaced_tokens import ReplacedTokenConfig
from harness.plugin.static_corruption import corruption_artefacts

AUGMENTED = ("positives", "negatives")
"""Objectives without a discriminator: edited sentences join the contrastive loss (appendix B)"""


class Config(ReplacedTokenConfig):
    """Table 12 of the paper, tuned for STS (diffcse.md, section 3).

    The field defaults are those of unsupervised BERT base.
    """

    learning_rate: float = Field(
        7e-6, gt=0, description="of encoder, head, discriminator and detector"
    )
    objective: Literal[
        "detection", "masked-language", "corrective", "none", "positives", "negatives"
    ] = Field(
        "detection",
        description="of the discriminator, if any; "
        "positives, negatives: edited sentences join the contrastive loss",
    )
    edit: Literal["replace", "insert", "delete", "all"] = Field(
        "replace", description="all: one of the three is drawn per row, with a detector for each"
    )
    sentences: Annotated[str, Accepts("sentences", "neighbours")] = Field(
        "wiki1m", description="unlabelled corpus"
    )
    edited: Literal["same", "next", "same+next"] = Field(
        "same",
        description="which sentence is edited; next needs running text, sentences=neighbours:FILE",
    )
    contrastive: bool = Field(True, description="false: the discriminator's loss alone")
    head: HeadName = Field("batchnorm", description="of training; tanh is SimCSE's")

    published: ClassVar = {
        ("unsup", "roberta-base"): {"learning_rate": 1e-5, "masking_ratio": 0.2},
        # No paper prints these values of a supervised DiffCSE, so they are supervised SimCSE's.
        ("sup", "*"): {"learning_rate": 5e-5, "batch_size": 512, "epochs": 3},
    }

    @classmethod
    def dependent_defaults(cls, given: Mapping[str, object]) -> Mapping[str, object]:
        """Other edits and other uses of them are of 15 %; without a discriminator it is SimCSE.

        The 15 % are those of Tables 4 and 15. Edited sentences in the contrastive loss train in
        SimCSE's paradigm (appendix B), and so at its rate and for its one epoch.
        """
        chosen: dict[str, object] = {}
        objective = given.get("objective", "detection")
        if given.get("edit", "replace") != "replace" or objective in AUGMENTED:
            chosen["masking_ratio"] = 0.15
        if objective in ("none", *AUGMENTED):
            chosen["head"] = "tanh"
        if objective in AUGMENTED:
            chosen |= {"learning_rate": 3e-5, "epochs": 1}
        return chosen

    @model_validator(mode="after")
    def _possible(self) -> Self:
        problem = next(self._problems(), None)
        if problem:
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        """Sentences about fields that do not go together."""
        following, replaced = self.edited != "same", self.edit == "replace"
        if self.setting == "sup" and (following or self.augments):
            yield (
                f"edited={self.edited}, objective={self.objective} exist in the unsup setting only"
            )
        if following and not self.sentences.startswith(NEIGHBOURS):
            yield (
                f"edited={self.edited} needs running text, sentences={NEIGHBOURS}FILE; "
                f"{self.sentences} has no order"
            )
        if not replaced and self.objective in ("masked-language", "corrective"):
            yield f"objective={self.objective} restores replaced tokens: edit must be replace"
        if not self.conditional and (following or not self.contrastive):
            yield (
                f"edited={self.edited}, contrastive={self.contrastive} need a discriminator "
                f"(objective, weight above 0)"
            )
        if self.static_corruption and not (self.generated and replaced and not following):
            yield (
                "static_corruption holds generated replacements (edit=replace) of the same "
                "sentence only"
            )

    @property
    def unused(self) -> Collection[str]:
        unused = set()
        if not (self.conditional or self.augments):
            unused |= {"edit", "masking_ratio"}
        if not (self.conditional and self.objective == "detection"):
            unused.add("rtd_reduction")
        if not self.generated:
            unused |= {"generator", "generator_eval", "replace_only_masked"}
        if self.augments:
            unused.add("replaced_token_weight")
        if not self.contrastive:
            unused.add("temperature")
        return unused

    @property
    def augments(self) -> bool:
        """Whether edited sentences join the contrastive loss."""
        return self.objective in AUGMENTED

    @property
    def conditional(self) -> bool:
        """Whether there is a discriminator, which is given the sentence vector."""
        return self.objective != "none" and not self.augments and self.replaced_token_weight > 0

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The kinds of edit that are made."""
        return EDITS if self.edit == "all" else (self.edit,)

    @property
    def generated(self) -> bool:
        """Whether a generator writes into the edited text."""
        edits = self.augments or (self.conditional and self.objective != "masked-language")
        return edits and self.edit != "delete"


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences if config.setting == "unsup" else config.triplets}

    @classmethod
    def models(cls, config: Config) -> list[str]:
        return [config.encoder, *([config.generator] if config.generated else [])]

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        return corruption_artefacts(config)

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        trained = ["encoder.*", "head.*"]
        losses = {"contrastive": 1.0} if config.contrastive else {}
        if config.conditional:
            trained += ["discriminator.*", "detector.*"]
            losses["replaced_tokens"] = config.replaced_token_weight  # lambda, section 3
        return [config.stage("contrastive", trains=trained, losses=losses)]
