"""A slow copy of an encoder and a queue of its vectors: more negatives than a batch has (ESimCSE; baselines.md, 9)."""

import copy
from typing import Literal

import torch
from torch import Tensor, nn

from harness.encoders.backbone import Encoder

Start = Literal["pretrained", "random"]


class MomentumEncoder(nn.Module):
    """A copy that follows an encoder as a moving average, without gradients and always in evaluation mode."""

    def __init__(self, encoder: Encoder, momentum: float, start: Start = "pretrained") -> None:
        """`momentum`: share of the copy that stays at an update, 0 to 1. `start`: the encoder's weights, or random ones
        as in ESimCSE's released code, which copied before it had loaded them."""
        super().__init__()
        self.momentum = momentum
        self.encoder = copy.deepcopy(encoder)
        if start == "random":
            model = self.encoder.model
            model.load_state_dict(type(model)(model.config).state_dict(), strict=False)  # BERT's has a pooler as well
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> "MomentumEncoder":
        """Evaluation mode whatever the method around it is in."""
        return super().train(False)

    @torch.no_grad()
    def follow(self, encoder: Encoder) -> None:
        """copy <- momentum * copy + (1 - momentum) * encoder."""
        for mine, theirs in zip(self.encoder.parameters(), encoder.parameters(), strict=True):
            mine.lerp_(theirs, 1 - self.momentum)


class VectorQueue:
    """The last vectors of an epoch, oldest first."""

    def __init__(self, size: int) -> None:
        """`size`: most vectors kept."""
        self.size = size
        self.vectors: Tensor | None = None
        """(vectors, H); None: empty"""
        self._epoch = 0

    def start(self, epoch: int) -> None:
        """Forget everything when this is another epoch than before."""
        if epoch != self._epoch:
            self.vectors, self._epoch = None, epoch

    def append(self, vectors: Tensor) -> None:
        """Put (rows, H) behind the others, and drop the oldest beyond `size`."""
        kept = vectors.detach() if self.vectors is None else torch.cat([self.vectors, vectors.detach()])
        self.vectors = kept[max(0, len(kept) - self.size) :]
