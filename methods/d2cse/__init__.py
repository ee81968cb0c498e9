"""D2CSE: shared deep prompts on a frozen encoder, trained contrastively and by conditional replaced-token detection.

Lee, arXiv 2304.08991; d2cse.md. One frozen encoder with one table of prompts is sentence encoder and discriminator.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from harness import plugin
from harness.encoders.attention import KeyValues
from harness.encoders.backbone import Reach, WordVectors, first_replaced
from harness.losses.info_nce import info_nce
from harness.losses.replaced_tokens import replaced_token_loss
from harness.modules.heads import BatchNormHead
from harness.modules.prompts import DeepPrompts
from harness.plugin import Artefact, Kit, Stage, TextBatch
from harness.plugin.replaced_tokens import ReplacedTokenConfig, editor
from harness.plugin.static_corruption import StaticCorruption, static_corruption
from harness.views.corruption import Edited


class Config(ReplacedTokenConfig):
    """Table 7 of the paper; field defaults: unsupervised BERT base."""

    learning_rate: float = Field(
        0.021, gt=0, description="of every trainable tensor but a copied discriminator's"
    )
    batch_size: int = Field(144, ge=2)
    prompt_length: int = Field(16, ge=1, description="prompt positions per layer")
    cls_prompt: bool = Field(
        False, description="train one vector instead of the word embedding of [CLS]"
    )
    discriminator: Literal["shared", "plain", "copy", "unconditional"] = Field(
        "shared",
        description="Table 6: shared (d): encoder and prompts are the sentence encoder's; plain (a): no prompts; copy "
        "(b): a second encoder without prompts, trained in full; unconditional (c): shared, without sentence vector",
    )
    discriminator_learning_rate: float = Field(
        7e-6, gt=0, description="of a copied discriminator; DiffCSE's rate"
    )
    discriminator_prompts: Literal["same", "fresh"] = Field(
        "same",
        description="dropout of the prompts in the second pass: the first pass's, or drawn anew",
    )
    roberta_cls_prompt_positions: Literal["shifted", "plain"] = "shifted"

    published: ClassVar = {
        ("unsup", "bert-large-uncased"): {"learning_rate": 0.034},
        ("unsup", "roberta-base"): {"learning_rate": 0.044, "batch_size": 128, "cls_prompt": True},
        ("sup", "*"): {
            "learning_rate": 0.055, "batch_size": 256, "epochs": 10, "prompt_length": 12, "cls_prompt": True,
        },
        ("sup", "roberta-base"): {"learning_rate": 0.024},
    }  # fmt: skip


class Method(plugin.Method[Config]):
    """Prompts, pooler, detection head and (optionally) one [CLS] vector train; the sentence encoder is frozen."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences if config.setting == "unsup" else config.triplets}

    @classmethod
    def models(cls, config: Config) -> list[str]:
        return [config.encoder, config.generator]

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        return static_corruption(config)

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        prompts = ("prompts.*", "pooler.*", "detector.*", "cls_vector")
        stage = config.stage(
            "prompts",
            trains={
                **dict.fromkeys(prompts, "learning_rate"),
                "discriminator.*": "discriminator_learning_rate",
            },
            streams={"contrastive": config.batch_size},
            losses={"contrastive": 1.0, "replaced_tokens": config.replaced_token_weight},
        )
        return [stage]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.prompts = DeepPrompts(self.encoder, config.prompt_length)
        self.pooler = BatchNormHead(self.encoder.hidden_size)
        self.detector = nn.Linear(self.encoder.hidden_size, 2)
        self.editor = StaticCorruption(kit) if config.static_corruption else editor(config, kit)
        self.discriminator = kit.encoder() if config.discriminator == "copy" else None
        self.cls_vector = None
        if config.cls_prompt:
            words = self.encoder.model.get_input_embeddings().weight
            self.cls_vector = nn.Parameter(words[self.tokenizer.cls_token_id].detach().clone())

    @property
    def longest(self) -> int:
        return self.encoder.longest - self.prompts.length

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"]
        if self.config.setting == "unsup":
            texts = texts.repeated(2)
        prompts = self.prompts(len(texts.input_ids))
        sentences = self.pooler(self._encode(texts, prompts))
        views = texts.split(sentences)
        return {
            "contrastive": info_nce(*views, temperature=self.config.temperature),
            "replaced_tokens": self._detect(texts, sentences, prompts),
        }

    def embed(self, batch: TextBatch) -> Tensor:
        return self._encode(batch, self.prompts(len(batch.input_ids)))

    def _encode(self, batch: TextBatch, prompts: KeyValues) -> Tensor:
        plain = self.cls_vector is not None and self.config.roberta_cls_prompt_positions == "plain"
        offset = (
            0 if plain and "roberta" in self.encoder.model.config.model_type else prompts.length
        )
        return self.encoder.cls(
            batch, prefix=prompts, position_offset=offset, words=self._cls_prompt(batch)
        )

    def _cls_prompt(self, batch: TextBatch) -> WordVectors | None:
        if self.cls_vector is None:
            return None
        return WordVectors(torch.zeros_like(batch.input_ids[:, :1]), self.cls_vector[None])

    def _detect(self, batch: TextBatch, sentences: Tensor, prompts: KeyValues) -> Tensor:
        """Which tokens were replaced, judged with the sentence vector (not detached) in slot 0 of each row."""
        edited: Edited = self.editor(batch)
        reach: Reach = {}
        if self.config.discriminator in ("shared", "unconditional"):
            fresh = self.config.discriminator_prompts == "fresh"
            reach = {"prefix": self.prompts(len(batch.input_ids)) if fresh else prompts}
            reach["position_offset"] = prompts.length
        if self.config.discriminator != "unconditional":
            reach["edit"] = first_replaced(sentences)
        states = (self.discriminator or self.encoder)(edited.batch, **reach)
        return replaced_token_loss(self.detector(states), edited, self.config.rtd_reduction)
