"""Heads between an encoder and a loss."""

from torch import Tensor, nn


class TanhHead(nn.Module):
    """Linear(H, H) and tanh, fresh N(0, 0.02) weights and zero bias: SimCSE's training head, not BERT's pooler."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, hidden_size)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(self, states: Tensor) -> Tensor:
        """(rows, H) -> (rows, H)."""
        projected: Tensor = self.linear(states)
        return projected.tanh()


class BatchNormHead(nn.Sequential):
    """Linear(H, 2H) - BatchNorm - ReLU - Linear(2H, H) - BatchNorm without affine (diffcse.md, section 1.1); no biases.

    Batch statistics run over all rows of the batch, all views together. 4 H^2 + 4 H parameters.
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__(
            nn.Linear(hidden_size, 2 * hidden_size, bias=False),
            nn.BatchNorm1d(2 * hidden_size),
            nn.ReLU(),
            nn.Linear(2 * hidden_size, hidden_size, bias=False),
            nn.BatchNorm1d(hidden_size, affine=False),
        )
        for layer in self:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=0.02)
