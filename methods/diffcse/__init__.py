"""DiffCSE: contrastive learning, and a second encoder that finds edits of a sentence given its vector.

Chuang et al., NAACL 2022; diffcse.md. The supervised setting is D2CSE's: the same objective with NLI triplets.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from harness import plugin
from harness.data.corpora import NEIGHBOURS
from harness.encoders.backbone import first_replaced
from harness.losses.corrective import CorrectiveHead, corrective_loss
from harness.losses.info_nce import info_nce
from harness.losses.masked_language import masked_language_loss
from harness.losses.replaced_tokens import replaced_token_loss
from harness.modules.heads import BatchNormHead, TanhHead
from harness.plugin import Artefact, Kit, Stage, TextBatch
from harness.plugin.replaced_tokens import ReplacedTokenConfig, editor
from harness.plugin.static_corruption import StaticCorruption, static_corruption
from harness.views.corruption import Edited
from harness.views.edits import EDITS, Edit
from harness.views.masking import Masker

CONTRASTIVE, CONDITIONAL = "contrastive", "replaced_tokens"
AUGMENTED = ("positives", "negatives")


class Config(ReplacedTokenConfig):
    """Table 12 of the paper (tuned for STS); field defaults: unsupervised BERT base."""

    learning_rate: float = Field(
        7e-6, gt=0, description="of encoder, discriminator, pooler and head"
    )
    objective: Literal[
        "detection", "masked-language", "corrective", "none", "positives", "negatives"
    ] = Field(
        "detection",
        description="of the discriminator, if any; positives, negatives: edited sentences join the contrastive loss",
    )
    edit: Literal["replace", "insert", "delete", "all"] = Field(
        "replace", description="all: one of the three is drawn per row, with a head for each"
    )
    edited: Literal["same", "next", "same+next"] = Field(
        "same",
        description="which sentence is edited; next needs running text, sentences=neighbours:FILE",
    )
    contrastive: bool = Field(True, description="false: the discriminator's loss alone")
    pooler: Literal["batchnorm", "tanh"] = Field(
        "batchnorm", description="training head; tanh is SimCSE's"
    )

    published: ClassVar = {
        ("unsup", "roberta-base"): {"learning_rate": 1e-5, "masking_ratio": 0.2},
        # no paper prints a supervised DiffCSE's values: batch, rate and epochs are supervised SimCSE's
        ("sup", "*"): {"learning_rate": 5e-5, "batch_size": 512, "epochs": 3},
    }

    @model_validator(mode="before")
    @classmethod
    def _ablation_defaults(cls, given: Any) -> Any:
        """Other edits and other uses of them are of 15 % (Tables 4 and 15); without a discriminator it is SimCSE."""
        if not isinstance(given, Mapping):
            return given
        chosen: dict[str, Any] = {}
        objective = given.get("objective", "detection")
        if given.get("edit", "replace") != "replace" or objective in AUGMENTED:
            chosen["masking_ratio"] = 0.15
        if objective in ("none", *AUGMENTED):
            chosen["pooler"] = "tanh"
        return {**chosen, **given}

    @model_validator(mode="after")
    def _possible(self) -> "Config":
        following, replaced = self.edited != "same", self.edit == "replace"
        wrong = {
            f"edited={self.edited}, objective={self.objective} exist in the unsup setting only":
                self.setting == "sup" and (following or self.objective in AUGMENTED),
            f"edited={self.edited} needs running text, sentences={NEIGHBOURS}FILE; {self.sentences} has no order":
                following and not self.sentences.startswith(NEIGHBOURS),
            f"objective={self.objective} restores replaced tokens: edit must be replace":
                not replaced and self.objective in ("masked-language", "corrective"),
            f"edited={self.edited}, contrastive={self.contrastive} need a discriminator (objective, weight above 0)":
                not self.conditional and (following or not self.contrastive),
            "static_corruption holds generated replacements (edit=replace) of the same sentence only":
                self.static_corruption and not (self.generated and replaced and not following),
        }  # fmt: skip
        for problem in (message for message, broken in wrong.items() if broken):
            raise ValueError(problem)
        return self

    @property
    def conditional(self) -> bool:
        """Whether there is a discriminator."""
        return self.objective not in ("none", *AUGMENTED) and self.replaced_token_weight > 0

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The kinds of edit that are made."""
        return EDITS if self.edit == "all" else (self.edit,)

    @property
    def generated(self) -> bool:
        """Whether a generator writes into the edited text."""
        edits = self.objective in AUGMENTED or (
            self.conditional and self.objective != "masked-language"
        )
        return edits and self.edit != "delete"


class Method(plugin.Method[Config]):
    """Encoder, pooler and discriminator train in full; the encoder alone is used at test time."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {CONTRASTIVE: config.sentences if config.setting == "unsup" else config.triplets}

    @classmethod
    def models(cls, config: Config) -> list[str]:
        return [config.encoder, *([config.generator] if config.generated else [])]

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        return static_corruption(config)

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        trained = ("encoder.*", "pooler.*", "discriminator.*", "head.*")
        losses = {CONTRASTIVE: 1.0} if config.contrastive else {}
        if config.conditional:
            losses[CONDITIONAL] = config.replaced_token_weight
        return [config.stage(CONTRASTIVE, trains=trained, losses=losses)]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        width = self.encoder.hidden_size
        self.pooler = BatchNormHead(width) if config.pooler == "batchnorm" else TanhHead(width)
        if config.conditional:
            self.discriminator = kit.encoder()
            self.head = self._build_head(kit, width)
        if config.conditional and config.objective == "masked-language":
            self.masker = Masker(self.tokenizer, config.masking_ratio)
        elif config.conditional or config.objective in AUGMENTED:
            self.editor = (
                StaticCorruption(kit)
                if config.static_corruption
                else editor(config, kit, config.edits)
            )

    def _build_head(self, kit: Kit, width: int) -> nn.Module:
        if self.config.objective == "detection":
            return nn.Linear(width, 2 * len(self.config.edits))
        vocabulary = kit.vocabulary_head()
        return (
            CorrectiveHead(vocabulary, width)
            if self.config.objective == "corrective"
            else vocabulary
        )

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch[CONTRASTIVE]
        views = texts.view(0).repeated(2) if self.config.setting == "unsup" else texts
        if self.config.objective in AUGMENTED:
            return {CONTRASTIVE: self._augmented(views)}
        vectors = self.pooler(self.encoder.cls(views))
        columns = views.split(vectors)
        found = {CONTRASTIVE: info_nce(*columns, temperature=self.config.temperature)}
        if self.config.conditional:
            following = texts.view(1).repeated(2) if self.config.edited != "same" else views
            edited = {"same": [views], "next": [following], "same+next": [views, following]}[
                self.config.edited
            ]
            found[CONDITIONAL] = torch.stack(
                [self._predict(text, vectors) for text in edited]
            ).mean()
        return found

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)

    def _predict(self, texts: TextBatch, vectors: Tensor) -> Tensor:
        """The discriminator's loss on edited texts, with a sentence vector (not detached) in each row's slot 0."""
        read = partial(self.discriminator, edit=first_replaced(vectors))
        if self.config.objective == "masked-language":
            masked = self.masker(texts.input_ids)
            states = read(texts.replaced(masked.input_ids, texts.attention_mask))
            return masked_language_loss(self.head, states, texts.input_ids, masked.chosen)
        edited: Edited = self.editor(texts)
        states = read(edited.batch)
        if isinstance(self.head, CorrectiveHead):
            return corrective_loss(self.head, states, texts.input_ids, edited)
        logits = self.head(states).unflatten(-1, (-1, 2))
        own = logits[torch.arange(len(logits), device=logits.device), :, edited.kinds]
        return replaced_token_loss(own, edited, self.config.rtd_reduction)

    def _augmented(self, views: TextBatch) -> Tensor:
        """SimCSE with one edited copy of every sentence, as further positive (a second term) or as hard negative."""
        edited = self.editor(views.view(0)).batch
        vectors = self.pooler(torch.cat([self.encoder.cls(views), self.encoder.cls(edited)]))
        plain, changed = vectors[: len(views.input_ids)], vectors[len(views.input_ids) :]
        anchors, positives, temperature = plain[0::2], plain[1::2], self.config.temperature
        if self.config.objective == "negatives":
            return info_nce(anchors, positives, changed, temperature=temperature)
        terms = [
            info_nce(anchors, other, temperature=temperature) for other in (positives, changed)
        ]
        return torch.stack(terms).mean()
