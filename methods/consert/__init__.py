"""ConSERT: contrastive views made by augmentations of the embedding layer's output, with or without NLI labels.

Yan et al., ACL 2021; consert.md; semisupervised.md. The semi-supervised setting is DiffAug's (contrastive on Wiki1M
sentences, binary classification of NLI triplets); the supervised one is ConSERT's own joint training, where both
losses see labelled NLI pairs.
"""

from collections.abc import Mapping
from typing import ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from harness import plugin
from harness.encoders.backbone import Reach
from harness.encoders.pooling import Pooling, mean, pooled
from harness.errors import UserError
from harness.losses.nli import PairClassifier, labels_of, pair_loss, triplet_loss
from harness.losses.nt_xent import nt_xent
from harness.plugin import Kit, Optimisation, Setting, Stage, TextBatch
from harness.plugin.semisupervised import (
    CLASSIFICATION,
    CONTRASTIVE,
    LABELLED,
    SemiSupervisedConfig,
    schedule,
)
from harness.views.augmentations import Augmentation, adversarial, augmented

LARGE = {"max_length": 40}
UNSUPERVISED_LARGE = {
    **LARGE,
    "first_view": "none",
    "encoder_dropout": 0.1,
    "evaluation_interval": 100,
}


class Config(SemiSupervisedConfig):
    """The released recipes; field defaults: unsupervised BERT base. Their 10 (large: 25) epochs are over 89,192 STS
    texts, which include the test sets; on Wiki1M it is one (DiffAug's tables)."""

    setting: Setting = "unsup"
    learning_rate: float = Field(5e-7, gt=0)
    batch_size: int = Field(96, ge=2, description="sentences, or labelled pairs in the sup setting")
    max_length: int = Field(64, ge=4, le=512)
    temperature: float = Field(0.1, gt=0)
    warmup_ratio: float = Field(0.1, ge=0, le=1)
    weight_decay: float = Field(0.01, ge=0)
    evaluation_interval: int = Field(200, ge=1)
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
    pairs: str = Field(
        "nli-pairs",
        description="corpus of the sup setting: premise, hypothesis, one of three labels",
    )

    published: ClassVar = {
        ("unsup", "bert-large-uncased"): UNSUPERVISED_LARGE,
        ("semisup", "bert-large-uncased"): UNSUPERVISED_LARGE,
        ("sup", "*"): {
            "learning_rate": 2e-5, "first_view": "none", "second_view": "token-cutoff", "second_rate": 0.1,
            "encoder_dropout": 0.1,
        },
        ("sup", "bert-large-uncased"): LARGE,
    }  # fmt: skip

    @model_validator(mode="after")
    def _adversarial_needs_labels(self) -> Self:
        if self.setting != "sup" and "adversarial" in (self.first_view, self.second_view):
            raise UserError(
                f"consert: the adversarial view needs the labels of the sentences that it changes; setting "
                f"{self.setting} learns contrastively from unlabelled ones (setting sup has labels)"
            )
        return self


class Method(plugin.Method[Config]):
    """Everything trains; no head."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        if config.setting == "sup":
            return {LABELLED: config.pairs}
        unlabelled = {CONTRASTIVE: config.sentences}
        return (
            {**unlabelled, LABELLED: config.triplets} if config.setting == "semisup" else unlabelled
        )

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        supervised = config.setting == "sup"
        contrastive = (
            {CONTRASTIVE: config.contrastive_weight}
            if config.contrastive_weight or not supervised
            else {}
        )
        stage = config.stage(
            CONTRASTIVE,
            streams={LABELLED if supervised else CONTRASTIVE: config.batch_size},
            losses={**contrastive, CLASSIFICATION: 1.0} if supervised else contrastive,
            optimisation=Optimisation(optimiser="adamw-uncorrected"),
        )
        return schedule(config, stage)

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder(dropout=config.encoder_dropout)
        if config.setting != "unsup":
            classes = 3 if config.setting == "sup" else 2
            self.classifier = PairClassifier(
                self.encoder.hidden_size, classes, squared_maximum=True
            )

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        found = {}
        outputs: list[Tensor] = []
        if LABELLED in batch:
            found[CLASSIFICATION] = self._classify(batch[LABELLED], outputs)
        if CONTRASTIVE in stage.losses:
            texts = batch[LABELLED if self.config.setting == "sup" else CONTRASTIVE]
            found[CONTRASTIVE] = self._contrast(texts, found.get(CLASSIFICATION), outputs)
        return found

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, self.config.test_pooling)

    def embed_dev(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, "mean")

    def _classify(self, texts: TextBatch, outputs: list[Tensor]) -> Tensor:
        """The NLI softmax on a clean pass, whose embedding output is left in `outputs`."""

        def keep(output: Tensor) -> Tensor:
            outputs.append(output)
            return output

        vectors = texts.split(mean(self.encoder(texts, edit=keep), texts.attention_mask))
        if self.config.setting == "sup":
            return pair_loss(self.classifier, vectors[0], vectors[1], labels_of(texts))
        return triplet_loss(self.classifier, *vectors)

    def _contrast(
        self, texts: TextBatch, classification: Tensor | None, outputs: list[Tensor]
    ) -> Tensor:
        """Of sentences, or of premises plus hypotheses; both directions are summed, where NT-Xent takes their mean."""
        config, views = self.config, []
        for name, rate in (
            (config.first_view, config.first_rate),
            (config.second_view, config.second_rate),
        ):
            if name == "adversarial" and classification is not None:
                reach = Reach(edit=adversarial(classification, outputs[0], config.noise_norm))
            else:
                reach = augmented(name, texts.attention_mask, rate)
            views.append(texts.split(mean(self.encoder(texts, **reach), texts.attention_mask)))
        losses = [
            2 * nt_xent(one, other, temperature=config.temperature)
            for one, other in zip(*views, strict=True)
        ]
        return torch.stack(losses).sum()
