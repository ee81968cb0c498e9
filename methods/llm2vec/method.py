"""The computations of LLM2Vec; `__init__.py` declares the method."""

from collections.abc import Mapping

import torch
from torch import Tensor

from harness import plugin
from harness.encoders.families import attentions
from harness.encoders.pooling import mean
from harness.losses.info_nce import info_nce
from harness.losses.masked_language import next_token_loss
from harness.plugin import Kit, Stage, TextBatch
from harness.views.masking import Masker

from . import Config, Declaration

BLANK = "_"
"""Word piece that masks where a tokenizer has no mask token (llm2vec.md, section 1)"""


class Method(Declaration, plugin.Method[Config]):
    """The encoder, or low-rank changes of it, train in both stages."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        if config.stage1_steps:
            self.vocabulary = kit.next_token_head()
            blank = self.tokenizer.convert_tokens_to_ids(BLANK)
            self.masker = Masker(
                self.tokenizer,
                config.masking_ratio,
                mask_id=blank if self.tokenizer.mask_token_id is None else None,
                everywhere=config.masking_strategy == "all",
            )

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        for attention in attentions(self.encoder.model):
            attention.train(self.training and stage.name == "contrastive")
        if stage.name == "masked":  # llm2vec.md, section 1, eq. 1
            texts = batch["masked"]
            masked = self.masker(texts.input_ids)
            states = self.encoder(texts.replaced(masked.input_ids, texts.attention_mask))
            loss = next_token_loss(self.vocabulary, states, texts.input_ids, masked.chosen)
            return {"masked": loss}
        texts = batch["contrastive"].repeated(2)
        views = texts.split(self.embed(texts))  # (items, H) each
        return {"contrastive": info_nce(*views, temperature=self.config.temperature)}

    def embed(self, batch: TextBatch) -> Tensor:
        """The mean without what stands in front; of an empty sentence, what stands last there."""
        texts = batch.attention_mask
        begin = (texts.sum(dim=1, keepdim=True) - 1).clamp(max=len(self.template.begin))
        inside = torch.arange(texts.shape[1], device=texts.device) >= begin
        return mean(self.encoder(batch), texts * inside)
