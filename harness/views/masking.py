"""BERT's masking, and the masked-language-model loss on it (diffcse.md, section 1.2; dcpcse.md, section 2; simcse.md, section 2.4)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


class Masker(nn.Module):
    """Chooses each non-special token with probability `ratio`; of the chosen 80 % become the mask token, 10 % a random
    piece of the vocabulary, 10 % stay."""

    def __init__(self, tokenizer: Any, ratio: float) -> None:
        super().__init__()
        self.ratio, self.mask_id, self.vocabulary_size = (
            ratio,
            tokenizer.mask_token_id,
            len(tokenizer),
        )
        self.special_ids: Tensor
        self.register_buffer(
            "special_ids", torch.tensor(sorted(tokenizer.all_special_ids)), persistent=False
        )

    def forward(self, input_ids: Tensor) -> "Masked":
        """input_ids: (rows, length)."""
        candidates = ~torch.isin(input_ids, self.special_ids)
        chosen = (torch.rand(input_ids.shape, device=input_ids.device) < self.ratio) & candidates
        how = torch.rand(input_ids.shape, device=input_ids.device)
        random_ids = torch.randint(self.vocabulary_size, input_ids.shape, device=input_ids.device)
        masked = torch.where(chosen & (how < 0.8), self.mask_id, input_ids)
        return Masked(torch.where(chosen & (how >= 0.9), random_ids, masked), chosen)


@dataclass(frozen=True)
class Masked:
    """Masked word pieces, and which positions were chosen (also where the piece stayed); both (rows, length)."""

    input_ids: Tensor
    chosen: Tensor
