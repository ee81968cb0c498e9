"""Deep prompts: trainable keys and values in front of every layer's (P-tuning v2; dcpcse.md, 1.1)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.encoders.backbone import Encoder, KeyValues


class DeepPrompts(nn.Module):
    """A table of key/value pairs, N(0, 0.02) at the start; 2 * layers * H * length parameters."""

    def __init__(self, encoder: Encoder, length: int) -> None:
        """`length`: prompt positions per layer."""
        super().__init__()
        config = encoder.model.config
        self.layers, self.heads = int(config.num_hidden_layers), int(config.num_attention_heads)
        self.dropout = float(config.hidden_dropout_prob)
        self.table = nn.Parameter(torch.empty(length, 2 * self.layers * encoder.hidden_size))
        nn.init.normal_(self.table, std=0.02)

    @property
    def length(self) -> int:
        """Prompt positions per layer."""
        return self.table.shape[0]

    def forward(self, rows: int) -> KeyValues:
        """The prompts of `rows` rows; in training every row has its own dropout mask.

        Slot 2m of a position is layer m's key, slot 2m+1 its value.
        """
        table = self.table.expand(rows, *self.table.shape)
        dropped = functional.dropout(table, self.dropout, self.training)
        shaped = dropped.view(rows, self.length, 2 * self.layers, self.heads, -1).permute(2, 0, 3, 1, 4)
        slots: tuple[Tensor, ...] = shaped.unbind(0)
        return KeyValues(slots[0::2], slots[1::2])
