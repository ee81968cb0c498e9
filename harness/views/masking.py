"""BERT's masking of word pieces.

It is used in diffcse.md, section 1.2; dcpcse.md, section 2; simcse.md, section 2.4; llm2vec.md,
section 1.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Masked:
    """Masked word pieces, and which positions were chosen; both (rows, length)."""

    input_ids: Tensor
    chosen: Tensor
    """bool; also true where the piece stayed as it was"""


class Masker(nn.Module):
    """Chooses each piece that is not special with probability `ratio`.

    Of the chosen pieces, 80 % become the mask token, 10 % become a random piece of the vocabulary,
    and 10 % stay.
    """

    def __init__(
        self, tokenizer: Any, ratio: float, *, mask_id: int | None = None, everywhere: bool = False
    ) -> None:
        """ratio: 0 to 1. tokenizer: of transformers.

        mask_id: the piece that masks; None: the tokenizer's mask token, which it must have.
        everywhere: all of the chosen pieces are masked.
        """
        super().__init__()
        self.ratio, self.everywhere = ratio, everywhere
        self.mask_id: int = tokenizer.mask_token_id if mask_id is None else mask_id
        self.vocabulary_size = len(tokenizer)
        self.special_ids: Tensor
        # Not saved: the tokenizer has them.
        special = torch.tensor(sorted(tokenizer.all_special_ids))
        self.register_buffer("special_ids", special, persistent=False)

    def forward(self, input_ids: Tensor) -> Masked:
        """input_ids: (rows, length)."""
        # Everything is drawn for all positions. To draw for the chosen ones alone, the CPU would
        # have to wait until the GPU knows how many there are.
        candidates = ~torch.isin(input_ids, self.special_ids)
        chosen = (torch.rand(input_ids.shape, device=input_ids.device) < self.ratio) & candidates
        if self.everywhere:
            return Masked(torch.where(chosen, self.mask_id, input_ids), chosen)
        how = torch.rand(input_ids.shape, device=input_ids.device)
        random_ids = torch.randint(self.vocabulary_size, input_ids.shape, device=input_ids.device)
        masked = torch.where(chosen & (how < 0.8), self.mask_id, input_ids)
        return Masked(torch.where(chosen & (how >= 0.9), random_ids, masked), chosen)
