"""A frozen masked language model that writes corruptions (DiffCSE's and D2CSE's generator)."""

import torch
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM

from harness.data.hub import model_folder
from harness.errors import UserError

ROWS_AT_ONCE = 32
"""Rows whose vocabulary logits exist at the same time; all rows' would be the largest tensor of a training step."""


class Generator(nn.Module):
    """A masked language model without gradients. As in the released code its dropout is on while training."""

    def __init__(self, name: str, vocabulary_size: int) -> None:
        """Raises UserError when the model has no masked-LM head or another vocabulary than the encoder."""
        super().__init__()
        folder = model_folder(name)
        try:
            self.model, loading = AutoModelForMaskedLM.from_pretrained(
                folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False, output_loading_info=True
            )
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f'generator "{name}" cannot be loaded: {str(error).splitlines()[0]}') from error
        if loading["missing_keys"]:
            missing = ", ".join(sorted(loading["missing_keys"])[:3])
            raise UserError(f'generator "{name}" has no masked-LM head (missing weights: {missing})')
        if self.model.config.vocab_size != vocabulary_size:
            raise UserError(
                f'generator "{name}" has {self.model.config.vocab_size} word pieces, the encoder {vocabulary_size}: '
                "they must share a tokenizer"
            )
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The best piece at every position, (rows, length)."""
        parts = zip(torch.split(input_ids, ROWS_AT_ONCE), torch.split(attention_mask, ROWS_AT_ONCE), strict=True)
        return torch.cat([self._best(ids, mask) for ids, mask in parts])

    def _best(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits.max(dim=-1).indices  # four times as fast as argmax on a CPU in bf16
