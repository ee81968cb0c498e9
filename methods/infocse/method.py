"""The computations of InfoCSE; `__init__.py` declares the method."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from harness import plugin
from harness.encoders.plain_attention import replace_dropout
from harness.losses.info_nce import info_nce
from harness.losses.masked_language import masked_language_loss
from harness.modules.heads import named_head
from harness.plugin import Kit, Stage, TextBatch
from harness.views.masking import Masker

from . import Config, Declaration


class AuxiliaryNetwork(nn.ModuleList):
    """Fresh layers of BERT's kind, with N(0, 0.02) weights, as wide as an encoder."""

    def __init__(self, encoder: BertConfig, layers: int) -> None:
        """encoder: the configuration of the encoder."""
        width = encoder.hidden_size
        config = BertConfig(
            hidden_size=width,
            num_attention_heads=encoder.num_attention_heads,
            intermediate_size=getattr(encoder, "intermediate_size", 4 * width),
            attn_implementation="eager",
        )
        super().__init__(BertLayer(config) for _ in range(layers))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        replace_dropout(self)

    def forward(self, states: Tensor, attention_mask: Tensor) -> Tensor:
        """(rows, length, H) -> (rows, length, H); attention_mask: (rows, length)."""
        padding = attention_mask[:, None, None] == 0
        unseen = padding * torch.finfo(states.dtype).min
        for layer in self:
            states = layer(states, unseen)
        return states


class Method(Declaration, plugin.Method[Config]):
    """Encoder, head, auxiliary network and vocabulary train. The encoder alone is tested."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        shape = self.encoder.model.config
        depth = config.lower_layers or max(1, shape.num_hidden_layers // 2)
        self.lower = kit.encoder(config.encoder, dropout=0.0, depth=depth)
        self.head = named_head(config.head, self.encoder.hidden_size)
        self.auxiliary = AuxiliaryNetwork(shape, config.auxiliary_layers)
        self.vocabulary = kit.vocabulary_head()
        self.masker = Masker(self.tokenizer, config.masking_ratio)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        rows = batch["contrastive"].repeated(2)
        sentences = self.encoder.cls(rows)
        first, second = rows.split(self.head(sentences))  # (items, H) each
        masked = self.masker(rows.input_ids)
        with torch.no_grad():
            words = self.lower(rows.replaced(masked.input_ids, rows.attention_mask))
        # Only through the sentence vector does this loss train the encoder (infocse.md, section 1).
        states = torch.cat([sentences[:, None], words[:, 1:]], dim=1)
        states = self.auxiliary(states, rows.attention_mask)
        return {
            "contrastive": info_nce(first, second, temperature=self.config.temperature),
            "reconstruction": masked_language_loss(
                self.vocabulary, states, rows.input_ids, masked.chosen
            ),
        }

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)
