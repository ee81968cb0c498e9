"""Heads: the module between an encoder and a contrastive loss."""

from torch import Tensor, nn

from harness.choices import HeadName


class TanhHead(nn.Module):
    """Linear(H, H) and tanh, with fresh weights from N(0, 0.02) and a zero bias.

    It is SimCSE's head (simcse.md, section 1.5), not the pretrained pooler of BERT.
    """

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
    """Linear(H, 2H), BatchNorm, ReLU, Linear(2H, H), BatchNorm without affine parameters.

    It is DiffCSE's head (diffcse.md, section 1.1). The linear layers have no biases. The batch
    statistics run over all rows of the batch, all views together. 4 H^2 + 4 H parameters.
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__(
            nn.Linear(hidden_size, 2 * hidden_size, bias=False),
            nn.BatchNorm1d(2 * hidden_size),
            nn.ReLU(),
            nn.Linear(2 * hidden_size, hidden_size, bias=False),
            nn.BatchNorm1d(hidden_size, affine=False),
        )
        # As transformers starts the layers of BERT; torch's own Linear starts differently.
        for layer in self:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=0.02)


def named_head(name: HeadName, hidden_size: int) -> TanhHead | BatchNormHead:
    """A fresh head of one of the two kinds."""
    return TanhHead(hidden_size) if name == "tanh" else BatchNormHead(hidden_size)
