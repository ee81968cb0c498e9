"""Continuous prompts (dcpcse.md, sections 1.1 and 3): keys and values in every layer, or word vectors among the text's."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.data.tokens import Template
from harness.encoders.attention import KeyValues
from harness.encoders.backbone import Encoder, WordVectors


class DeepPrompts(nn.Module):
    """P-tuning v2: a table of key/value pairs, N(0, 0.02) at the start; 2 * layers * H * length parameters."""

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
        shaped = dropped.view(rows, self.length, 2 * self.layers, self.heads, -1).permute(
            2, 0, 3, 1, 4
        )
        slots: tuple[Tensor, ...] = shaped.unbind(0)
        return KeyValues(slots[0::2], slots[1::2])


class ShallowPrompts(nn.Module):
    """Trained word vectors in the place of a hard prompt's pieces; H parameters for each.

    [CLS], [SEP] and the mask keep their own. The vectors start as copies of the pieces' word embeddings.
    """

    def __init__(self, encoder: Encoder, template: Template) -> None:
        super().__init__()
        self.template = template
        pieces = (*template.begin, *template.end)
        self.places = [
            place for place in range(1, len(pieces) - 1) if pieces[place] != template.mask_id
        ]
        words = encoder.model.get_input_embeddings().weight
        self.vectors = nn.Parameter(
            words[[pieces[place] for place in self.places]].detach().clone()
        )

    def forward(self, attention_mask: Tensor) -> WordVectors:
        """The same vectors for every row, each where the row has the piece; attention_mask: (rows, length)."""
        places = torch.tensor(self.places, device=attention_mask.device)
        behind = (places >= len(self.template.begin)).long()
        sentence = attention_mask.sum(dim=1, keepdim=True) - len(self.template)
        return WordVectors(places + behind * sentence, self.vectors)
