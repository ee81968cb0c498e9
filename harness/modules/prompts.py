"""Continuous prompts: trained keys and values in every layer, or trained word vectors.

DCPCSE and D2CSE use the deep ones, SCPCSE the shallow ones (dcpcse.md, sections 1.1 and 3); those
that layers share and those at the input alone are of DCPCSE's second version (section 1.5).
"""

import torch
from torch import Tensor, nn

from harness.data.batching import TextBatch
from harness.data.tokens import Template
from harness.device import constant
from harness.encoders import plain_attention
from harness.encoders.backbone import Encoder
from harness.encoders.families import key_shape
from harness.encoders.reach import KeyValues, Reach, WordVectors


class DeepPrompts(nn.Module):
    """A table of key/value pairs for every layer, as in P-tuning v2.

    The table has the shape (length, 2 * layers * width), or (length, 2 * width) where the layers
    share one pair for each position. It starts from N(0, 0.02). The width is that of all heads of
    keys: H, and less where heads of queries share them.
    """

    def __init__(
        self, encoder: Encoder, length: int, *, shift: bool = True, shared: bool = False
    ) -> None:
        """length: prompt positions in a layer. shift: whether the text starts behind them.

        shared: whether all layers have the same pairs. Raises UserError for an encoder that has no
        place for them.
        """
        super().__init__()
        encoder.family.need_prefix("deep prompts")
        self.position_offset = length if shift else 0
        """Number that is added to the positions of the text"""
        self.layers, self.heads, size = key_shape(encoder.model.config)
        self.dropout = encoder.family.dropout
        # Keys and values of all layers are one tensor, as in the released code.
        self.copies = self.layers if shared else 1
        pairs = self.layers // self.copies
        self.table = nn.Parameter(torch.empty(length, 2 * pairs * self.heads * size))
        nn.init.normal_(self.table, std=0.02)

    @property
    def length(self) -> int:
        """Prompt positions in a layer."""
        return self.table.shape[0]

    def forward(self, rows: int) -> KeyValues:
        """The prompts of `rows` rows. In training every row has a dropout mask of its own.

        Slot 2m of a position is the key of layer m, slot 2m+1 its value. Each layer has its own
        mask, also where the pairs are shared.
        """
        # Dropout comes after the expansion, so that the two views of a sentence get two masks.
        table = self.table.repeat(1, self.copies).expand(rows, -1, -1)
        dropped = plain_attention.dropped(table, self.dropout, training=self.training)
        by_slot = dropped.view(rows, self.length, 2 * self.layers, self.heads, -1)
        slots: tuple[Tensor, ...] = by_slot.permute(2, 0, 3, 1, 4).unbind(0)
        return KeyValues(slots[0::2], slots[1::2])

    def reach(self, batch: TextBatch) -> Reach:
        """Injection of the prompts for the rows of a batch. Every call draws new dropout masks."""
        return {"prefix": self(len(batch.input_ids)), "position_offset": self.position_offset}


class ShallowPrompts(nn.Module):
    """Trained word vectors in the place of the pieces of a hard prompt, or in front of a text.

    [CLS], [SEP] and the mask keep their own embeddings. The vectors, (prompt pieces, H), start as
    copies of the word embeddings of the pieces, and those in front of a text from N(0, 0.02).
    """

    position_offset = 0
    """The prompts are part of the text, so its positions do not shift"""

    def __init__(self, encoder: Encoder, template: Template, *, front: int = 0) -> None:
        """template: the hard prompt, with [CLS] as its first and [SEP] as its last piece.

        front: so many pieces, with which the template begins before [CLS], give way to the vectors;
        0: the pieces of the hard prompt do.
        """
        super().__init__()
        self.template = template
        pieces = (*template.begin, *template.end)
        inner = range(1, len(pieces) - 1)  # between [CLS] and [SEP]
        prompt = [place for place in inner if pieces[place] != template.mask_id]
        self.places = list(range(front)) or prompt
        words = encoder.model.get_input_embeddings().weight
        # Copies: the embeddings themselves are frozen, and the text may hold the same pieces.
        start = words[[pieces[place] for place in self.places]]
        self.vectors = nn.Parameter(start.detach().clone())
        if front:
            nn.init.normal_(self.vectors, std=0.02)

    def forward(self, attention_mask: Tensor) -> WordVectors:
        """The same vectors for every row, each at the place of its piece in the row.

        attention_mask: (rows, length).
        """
        places = constant(tuple(self.places), attention_mask.device)
        behind = (places >= len(self.template.begin)).long()
        # The pieces behind the sentence stand as far right as the sentence is long.
        sentence = attention_mask.sum(dim=1, keepdim=True) - len(self.template)
        return WordVectors(places + behind * sentence, self.vectors)

    def reach(self, batch: TextBatch) -> Reach:
        """Injection of the prompts for the rows of a batch."""
        return {"words": self(batch.attention_mask)}
