"""A slow copy of an encoder and a queue of its vectors: more negatives than a batch has.

ESimCSE uses both (esimcse.md, section 2).
"""

import copy
from typing import Self

import torch
from torch import Tensor, nn

from harness.choices import MomentumStart
from harness.encoders.backbone import Encoder


class MomentumEncoder(nn.Module):
    """A copy that follows an encoder as a moving average.

    It has no gradients and is always in evaluation mode.
    """

    def __init__(
        self, encoder: Encoder, momentum: float, start: MomentumStart = "pretrained"
    ) -> None:
        """Copy the encoder.

        momentum: the share of the copy that `follow` keeps, 0 to 1. start: the encoder's weights,
        or random ones as in ESimCSE's released code, which copied before it had loaded them.
        """
        super().__init__()
        self.momentum = momentum
        self.encoder = copy.deepcopy(encoder)
        if start == "random":
            model = self.encoder.model
            fresh = type(model)(model.config)
            # Not strict: a fresh BERT also has a pooler, which the encoder was loaded without.
            model.load_state_dict(fresh.state_dict(), strict=False)
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Self:
        """Evaluation mode, also while the method around it trains."""
        return super().train(False)

    @torch.no_grad()
    def follow(self, encoder: Encoder) -> None:
        """copy <- momentum * copy + (1 - momentum) * encoder."""
        mine: list[Tensor] = [*self.encoder.parameters()]
        torch._foreach_lerp_(mine, [*encoder.parameters()], 1 - self.momentum)


class VectorQueue(nn.Module):
    """The last vectors of an epoch, the oldest first."""

    def __init__(self, size: int, width: int) -> None:
        """size: the most vectors that are kept; 0: none. width: of a vector."""
        super().__init__()
        self.size = size
        self.stored: Tensor
        self.register_buffer("stored", torch.zeros(size, width))
        # Not buffers: to read a buffer on a GPU, the CPU would have to wait for it.
        self._filled, self._epoch = 0, 0

    @property
    def vectors(self) -> Tensor | None:
        """(vectors, width); None when the queue is empty."""
        return self.stored[self.size - self._filled :] if self._filled else None

    def start(self, epoch: int) -> None:
        """Empty the queue when this is another epoch than before. Epochs count from 0."""
        if epoch != self._epoch:
            self._filled, self._epoch = 0, epoch

    def append(self, vectors: Tensor) -> None:
        """Put vectors (rows, width) behind the others, and drop the oldest beyond `size`."""
        rows = vectors.detach().to(self.stored.dtype)
        self.stored = torch.cat([self.stored, rows])[len(rows) :]
        self._filled = min(self.size, self._filled + len(rows))

    def get_extra_state(self) -> Tensor:
        """State that torch saves besides the buffer: the number of vectors, and the epoch."""
        return torch.tensor([self._filled, self._epoch])

    def set_extra_state(self, state: Tensor) -> None:
        """The inverse of `get_extra_state`."""
        self._filled, self._epoch = (int(number) for number in state)
