"""ConSERT: contrastive views by augmentations of the embedding output, with or without labels.

Yan et al., ACL 2021; consert.md; semisupervised.md. The semi-supervised setting is DiffAug's:
contrastive learning on Wiki1M sentences, binary classification of NLI triplets. The supervised
one is ConSERT's own joint training, in which both losses see labelled NLI pairs.
"""

from collections.abc import Collection
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from harness import plugin
from harness.choices import Augmentation, Pooling
from harness.data.shapes import Accepts
from harness.errors import UserError
from harness.plugin import Optimisation, Selection, Stage

WITH_RATE = ("token-cutoff", "feature-cutoff", "dropout")
"""Views that remove a share of the sentence"""
LARGE = {"max_length": 40}
UNSUPERVISED_LARGE = {
    **LARGE,
    "first_view": "none",
    "encoder_dropout": 0.1,
    "evaluation_interval": 100,
}


class Config(plugin.SemiSupervisedConfig):
    """consert.md, sections 1, 3 and 4; the field defaults are those of unsupervised BERT base.

    The recipes train for 10 epochs (25 for large encoders) on 89,192 STS texts, which include the
    test sets. On Wiki1M the default is one epoch, as for DiffAug's tables.
    """

    learning_rate: float = Field(5e-7, gt=0)
    batch_size: int = Field(96, ge=2, description="sentences, or labelled pairs in the sup setting")
    max_length: int = Field(64, ge=4, le=512)
    temperature: float = Field(0.1, gt=0)
    warmup_ratio: float = Field(0.1, ge=0, le=1)
    weight_decay: float = Field(0.01, ge=0)
    evaluation_interval: int = Field(200, ge=1)
    patience: int | None = Field(
        10, ge=1, description="evaluations in a row without a gain that end the training; null: no"
    )
    contrastive_weight: float = Field(
        0.15, ge=0, description="also where it is the only loss; sup: 0 for labels alone"
    )
    first_view: Augmentation = Field(
        "feature-cutoff", description="adversarial only in the sup setting"
    )
    second_view: Augmentation = "shuffle"
    first_rate: float = Field(
        0.2, ge=0, le=1, description="share that view 1's cutoff or dropout removes"
    )
    second_rate: float = Field(
        0.2, ge=0, le=1, description="share that view 2's cutoff or dropout removes"
    )
    noise_norm: float = Field(1.0, gt=0, description="length of the adversarial noise of a token")
    encoder_dropout: float = Field(
        0.0, ge=0, lt=1, description="in every layer; 0.1 in the recipes with dropout"
    )
    test_pooling: Pooling = Field(
        "last-two", description="of the final test; training and dev: mean of the last layer"
    )
    pairs: Annotated[str, Accepts("labelled pairs")] = Field(
        "nli-pairs",
        description="corpus of the sup setting: premise, hypothesis, one of three labels",
    )

    published: ClassVar = {
        ("unsup", "bert-large-uncased"): UNSUPERVISED_LARGE,
        ("semisup", "bert-large-uncased"): UNSUPERVISED_LARGE,
        ("sup", "*"): {
            "learning_rate": 2e-5, "first_view": "none", "second_view": "token-cutoff",
            "second_rate": 0.1, "encoder_dropout": 0.1, "patience": None,
        },
        ("sup", "bert-large-uncased"): LARGE,
    }  # fmt: skip

    @property
    def unused(self) -> Collection[str]:
        unused, views = {*super().unused}, (self.first_view, self.second_view)
        if self.setting == "sup" and not self.contrastive_weight:
            unused |= {"first_view", "second_view", "temperature"}
            views = ("none", "none")
        if "adversarial" not in views:
            unused.add("noise_norm")
        if views[0] not in WITH_RATE:
            unused.add("first_rate")
        if views[1] not in WITH_RATE:
            unused.add("second_rate")
        return unused

    @model_validator(mode="after")
    def _views_differ(self) -> Self:
        unchanged = self.first_view == self.second_view == "none"
        if unchanged and self.contrastive_weight and not self.encoder_dropout:
            raise UserError(
                "consert: two views that nothing changes are the same: choose another view, or "
                "encoder_dropout above 0"
            )
        return self

    @model_validator(mode="after")
    def _adversarial_needs_labels(self) -> Self:
        if self.setting != "sup" and "adversarial" in (self.first_view, self.second_view):
            raise UserError(
                f"consert: the adversarial view needs the labels of the sentences that it "
                f"changes; setting {self.setting} learns contrastively from unlabelled ones "
                f"(setting sup has labels)"
            )
        return self

    @model_validator(mode="after")
    def _adversarial_needs_whole_weights(self) -> Self:
        # Sharded weights are gathered for one backward pass of a step, and this view needs two.
        views = (self.first_view, self.second_view)
        if self.engine == "deepspeed" and self.zero == 3 and "adversarial" in views:
            raise UserError(
                "consert: the adversarial view needs gradients within a step, which zero=3 does "
                "not give; choose zero=2 or engine=ddp"
            )
        return self


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"labelled": config.pairs} if config.setting == "sup" else config.corpora()

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        uncorrected = Optimisation(optimiser="adamw-uncorrected")
        patient = Selection(patience=config.patience, epoch_ends=True)
        losses = {"contrastive": config.contrastive_weight}
        if config.setting != "sup":
            stage = config.stage(
                "contrastive", losses=losses, optimisation=uncorrected, selection=patient
            )
            return config.stages_around(stage)
        # Without a weight the loss is left out, which saves its forward passes.
        joint = {**(losses if config.contrastive_weight else {}), "classification": 1.0}
        streams = {"labelled": config.batch_size}
        return [
            config.stage(
                "contrastive",
                streams=streams,
                losses=joint,
                optimisation=uncorrected,
                selection=patient,
            )
        ]
