"""D2CSE: shared deep prompts on a frozen encoder, trained contrastively and by conditional replaced-token detection.

Lee, arXiv 2304.08991; d2cse.md. One frozen encoder with one table of prompts is sentence encoder and discriminator.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from harness import method
from harness.data.batching import TextBatch
from harness.encoders.backbone import KeyValues
from harness.encoders.heads import BatchNormHead
from harness.encoders.prompts import DeepPrompts
from harness.kit import Kit
from harness.method import Stage
from harness.objectives.infonce import info_nce
from harness.objectives.replaced_tokens import corrupt, mask_tokens, replaced_token_loss

DISTILLED = {"bert": "distilbert-base-uncased", "roberta": "distilroberta-base"}


class Config(method.TrainingConfig):
    """Table 7 of the paper; field defaults: unsupervised BERT base."""

    setting: Literal["unsup", "sup"] = "unsup"
    learning_rate: float = Field(0.021, gt=0, description="of every trainable tensor")
    batch_size: int = Field(144, ge=2)
    epochs: float = Field(2, gt=0)
    prompt_length: int = Field(16, ge=1, description="prompt positions per layer")
    cls_prompt: bool = Field(False, description="train one vector instead of the word embedding of [CLS]")
    masking_ratio: float = Field(0.3, ge=0, le=1)
    replaced_token_weight: float = Field(0.005, ge=0, description="lambda of the papers")
    generator: str = Field("", description="masked language model; default: the encoder's distilled sibling")
    discriminator_prompts: Literal["same", "fresh"] = Field(
        "same", description="dropout of the prompts in the second pass: the first pass's, or drawn anew"
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

    @model_validator(mode="before")
    @classmethod
    def _choose_generator(cls, given: Any) -> Any:
        """The released siblings are known; any other encoder writes its own corruptions."""
        if not isinstance(given, Mapping) or given.get("generator"):
            return given
        encoder = given.get("encoder", cls.model_fields["encoder"].default)
        family = Path(str(encoder)).name.split("-")[0]
        return {**given, "generator": DISTILLED.get(family, encoder)}


class Method(method.Method):
    """Prompts, pooler, detection head and (optionally) one [CLS] vector train; the encoder is frozen."""

    config_type = Config

    @classmethod
    def data(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences if config.setting == "unsup" else config.triplets}

    @classmethod
    def models(cls, config: Config) -> list[str]:
        return [config.encoder, config.generator]

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [
            Stage(
                name="prompts",
                trains=dict.fromkeys(("prompts.*", "pooler.*", "detector.*", "cls_vector"), "learning_rate"),
                streams={"contrastive": config.batch_size},
                losses={"contrastive": 1.0, "replaced_tokens": config.replaced_token_weight},
                epochs=config.epochs,
                max_steps=config.max_steps,
            )
        ]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.prompts = DeepPrompts(self.encoder, config.prompt_length)
        self.pooler = BatchNormHead(self.encoder.hidden_size)
        self.detector = nn.Linear(self.encoder.hidden_size, 2)
        self.generator = kit.generator(config.generator)
        tokenizer = kit.tokenizer
        self.mask_id, self.vocabulary_size = tokenizer.mask_token_id, len(tokenizer)
        self.special_ids: Tensor
        self.register_buffer("special_ids", torch.tensor(sorted(tokenizer.all_special_ids)), persistent=False)
        self.cls_vector = None
        if config.cls_prompt:
            words = self.encoder.model.get_input_embeddings().weight
            self.cls_vector = nn.Parameter(words[tokenizer.cls_token_id].detach().clone())

    @property
    def longest(self) -> int:
        return self.encoder.longest - self.prompts.length

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"]
        if self.config.setting == "unsup":
            texts = texts.repeated(2)
        prompts = self.prompts(len(texts.input_ids))
        sentences = self.pooler(self._encode(texts, prompts))
        views = sentences.unflatten(0, (-1, texts.views)).unbind(1)
        return {
            "contrastive": info_nce(*views, temperature=self.config.temperature),
            "replaced_tokens": self._detect(texts, sentences, prompts),
        }

    def embed(self, batch: TextBatch) -> Tensor:
        return self._encode(batch, self.prompts(len(batch.input_ids)))

    def _encode(self, batch: TextBatch, prompts: KeyValues) -> Tensor:
        plain = self.cls_vector is not None and self.config.roberta_cls_prompt_positions == "plain"
        offset = 0 if plain and "roberta" in self.encoder.model.config.model_type else prompts.length
        return self.encoder.cls(batch, prefix=prompts, position_offset=offset, first_word=self.cls_vector)

    def _detect(self, batch: TextBatch, sentences: Tensor, prompts: KeyValues) -> Tensor:
        """Which tokens were replaced, judged by the same encoder with the sentence vector in slot 0 (not detached)."""
        masked = mask_tokens(
            batch.input_ids, self.special_ids, self.mask_id, self.vocabulary_size, self.config.masking_ratio
        )
        edited, labels = corrupt(self.generator, batch, masked)
        if self.config.discriminator_prompts == "fresh":
            prompts = self.prompts(len(batch.input_ids))
        states = self.encoder(edited, prefix=prompts, position_offset=prompts.length, first_embedding=sentences)
        return replaced_token_loss(self.detector(states), labels)
