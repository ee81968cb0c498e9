"""The computations of DCPCSE; `__init__.py` declares the method."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from harness import plugin
from harness.data.templates import hard_prompt
from harness.data.tokens import Template
from harness.encoders.reach import Reach
from harness.losses.info_nce import cosines, info_nce
from harness.losses.masked_language import masked_pass_loss
from harness.modules.heads import TanhHead
from harness.modules.prompts import DeepPrompts, ShallowPrompts
from harness.plugin import Kit, Stage, TextBatch
from harness.views.masking import Masker

from . import Config, Declaration


class Method(Declaration, plugin.Method[Config]):
    """Prompts and head train, and with the masked-LM loss the vocabulary head does.

    The encoder is frozen, but its dropout stays on: it makes the two views differ.
    """

    @classmethod
    def training_template(cls, config: Config, tokenizer: Any) -> Template:
        if config.prompts == "shallow":
            return hard_prompt(tokenizer, config.template)
        plain = Template.plain(tokenizer)
        # Trained vectors stand in the place of the padding.
        return replace(plain, begin=(tokenizer.pad_token_id,) * config.front + plain.begin)

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.prompts: DeepPrompts | ShallowPrompts
        if config.in_layers:
            self.prompts = DeepPrompts(
                self.encoder,
                config.prompt_length,
                shift=config.position_shift,
                shared=config.prompts == "layer-shared",
            )
        else:
            self.prompts = ShallowPrompts(self.encoder, self.template, front=config.front)
        self.head = TanhHead(self.encoder.hidden_size)
        if config.mlm:
            self.masker = Masker(self.tokenizer, config.masking_ratio)
            self.vocabulary = kit.vocabulary_head()

    @property
    def training_pieces(self) -> int:
        """The limit is for [CLS] X [SEP]; what stands around them comes on top."""
        return self.config.max_length - 2

    @property
    def longest(self) -> int:
        return self.encoder.longest - self.prompts.position_offset

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"]
        if self.config.setting == "unsup":
            texts = texts.repeated(2)  # two views, (2 * items) rows
        prompts = self.prompts.reach(texts)
        views = texts.split(self.head(self._states(texts, prompts)))
        found = {
            "contrastive": info_nce(  # l_CL, section 2.2 of the paper
                *views,
                temperature=self.config.temperature,
                hard_negative_weight=self.config.hard_negative_weight,
            )
        }
        if self.config.hinge_weight:
            found["hinge"] = energy_hinge(*views, margin=self.config.hinge_margin)
        if self.config.mlm:
            # l_MLM, section 2.2: a second pass with the same prompts, dropout mask included.
            encode = partial(self.encoder, **prompts)
            found["masked_language"] = masked_pass_loss(encode, self.vocabulary, self.masker, texts)
        return found

    def embed(self, batch: TextBatch) -> Tensor:
        """The head stays in the sup setting only (dcpcse.md, section 1.2)."""
        states = self._states(batch, self.prompts.reach(batch))
        return self.head(states) if self.config.setting == "sup" else states

    def _states(self, batch: TextBatch, prompts: Reach) -> Tensor:
        """The state at [CLS], or at the mask of shallow prompts, (rows, H)."""
        if self.config.prompts == "shallow":
            where = self.template.mask_positions(batch.attention_mask)
            return self.encoder.at(batch, where, **prompts)
        if self.config.front and not self.encoder.family.decoder:
            return self.encoder.at(batch, self.config.front, **prompts)
        return self.encoder.cls(batch, **prompts)


def energy_hinge(
    anchors: Tensor, positives: Tensor, hard_negatives: Tensor, *, margin: float
) -> Tensor:
    """Mean over i of max(0, margin - cos(anchor_i, positive_i) + the highest other cosine).

    It is the energy-based hinge loss of PromCSE (dcpcse.md, section 2): the energy of a pair is
    minus its cosine, without a temperature. The other cosines of anchor_i are those with the
    positives of all other anchors, and with all hard negatives.

    anchors, positives, hard_negatives: (N, width). margin: on the scale of cosines.
    """
    similarity = cosines(anchors, torch.cat([positives, hard_negatives]))
    own = torch.eye(*similarity.shape, dtype=torch.bool, device=similarity.device)
    highest = similarity.masked_fill(own, -torch.inf).amax(dim=1)
    return (margin - similarity.diagonal() + highest).clamp(min=0).mean()
