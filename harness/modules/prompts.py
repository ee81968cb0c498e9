"""Continuous prompts: trained keys and values in every layer, or trained word vectors.

DCPCSE and D2CSE use the deep ones, SCPCSE the shallow ones (dcpcse.md, sections 1.1 and 3).
"""

import torch
from torch import Tensor, nn

from harness.data.batching import TextBatch
from harness.data.tokens import Template
from harness.encoders import plain_attention
from harness.encoders.backbone import Encoder
from harness.encoders.families import key_shape
from harness.encoders.reach import KeyValues, Reach, WordVectors


class DeepPrompts(nn.Module):
    """A table of key/value pairs for every layer, as in P-tuning v2.

    The table has the shape (length, 2 * layers * width) and starts from N(0, 0.02). The width is
    that of all heads of keys: H, and less where heads of queries share them.
    """

    def __init__(self, encoder: Encoder, length: int, *, shift: bool = True) -> None:
        """length: prompt positions in a layer. shift: whether the text starts behind them.

        Raises UserError for an encoder that has no place for them.
        """
        super().__init__()
        encoder.family.need_prefix("deep prompts")
        self.position_offset = length if shift else 0
        """Number that is added to the positions of the text"""
        self.layers, self.heads, size = key_shape(encoder.model.config)
        self.dropout = encoder.family.dropout
        # Keys and values of all layers are one tensor, as in the released code.
        self.table = nn.Parameter(torch.empty(length, 2 * self.layers * self.heads * size))
        nn.init.normal_(self.table, std=0.02)

    @property
    def length(self) -> int:
        """Prompt positions in a layer."""
        return self.table.shape[0]

    def forward(self, rows: int) -> KeyValues:
        """The prompts of `rows` rows. In training every row has a dropout mask of its own.

        Slot 2m of a position is the key of layer m, slot 2m+1 its value.
        """
        # Dropout comes after the expansion, so that the two views of a sentence get two masks.
        table = self.table.expand(rows, *self.table.shape)
        dropped = plain_attention.dropped(table, self.dropout, training=self.training)
        by_slot = dropped.view(rows, self.length, 2 * self.layers, self.heads, -1)
        slots: tuple[Tensor, ...] = by_slot.permute(2, 0, 3, 1, 4).unbind(0)
        return KeyValues(slots[0::2], slots[1::2])

    def reach(self, batch: TextBatch) -> Reach:
        """Injection of the prompts for the rows of a batch. Every call draws new dropout masks."""
        return {"prefix": self(len(batch.input_ids)), "position_offset": self.position_offset}


class ShallowPrompts(nn.Module):
    """Trained word vectors in the place of the pieces of a hard prompt.

    [CLS], [SEP] and the mask keep their own embeddings. The vectors, (prompt pieces, H), start as
    copies of the word embeddings of the pieces.
    """

    position_offset = 0
    """The prompts are part of the text, so its positions do not shift"""

    def __init__(self, encoder: Encoder, template: Template) -> None:
        """template: the hard prompt, with [CLS] as its first and [SEP] as its last piece."""
        super().__init__()
        self.template = template
        pieces = (*template.begin, *template.end)
        inner = range(1, len(pieces) - 1)  # between [CLS] and [SEP]
        self.places = [place for place in inner if pieces[place] != template.mask_id]
        words = encoder.model.get_input_embeddings().weight
        # Copies: the embeddings themselves are frozen, and the text may hold the same pieces.
        start = words[[pieces[place] for place in self.places]]
        self.vectors = nn.Parameter(start.detach().clone())

    def forward(self, attention_mask: Tensor) -> WordVectors:
        """The same vectors for every row, each at the place of its piece in the row.

        attention_mask: (rows, length).
        """
        places = torch.tensor(self.places).to(attention_mask.device, non_blocking=True)
        behind = (places >= len(self.template.begin)).long()
        # The pieces behind the sentence stand as far right as the sentence is long.
        sentence = attention_mask.sum(dim=1, keepdim=True) - len(self.template)
        return WordVectors(places + behind * sentence, self.vectors)

    def reach(self, batch: TextBatch) -> Reach:
        """Injection of the prompts for the rows of a batch."""
        return {"words": self(batch.attention_mask)}
