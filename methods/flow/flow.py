"""An invertible map from vectors to a standard normal distribution.

It is Glow on an image of one pixel, as BERT-flow has it (frozen_maps.md, section 1.2).
"""

import math

import torch
from torch import Tensor, nn

from harness.choices import Permutation

SCALE_FACTOR = 3.0
"""A scale is exp(SCALE_FACTOR * its parameter)"""


class Flow(nn.Module):
    """Levels of flow steps. After each level but the last, half of the channels leave.

    The output is what is left in the end, then all that left, the first to leave first. With a
    width of 768 and three levels: 192 that stay, then 384 that left after the first level and 192
    after the second.
    """

    def __init__(
        self, width: int, *, levels: int, steps: int, coupling_width: int, permutation: Permutation
    ) -> None:
        """width: of the vectors. steps: flow steps in a level, which are not steps of training.

        coupling_width: of the hidden layers of the coupling networks.
        """
        super().__init__()
        self.steps_per_level = steps
        self.steps = nn.ModuleList(
            FlowStep(width >> level, coupling_width, permutation)
            for level in range(levels)
            for _ in range(steps)
        )

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """(rows, width) -> (rows, width), and the log-determinant of the map.

        The latter is the logarithm of the absolute value of the Jacobian determinant: a scalar,
        because it is the same for all vectors.
        """
        left: list[Tensor] = []
        log_determinant = vectors.new_zeros(())
        for number, step in enumerate(self.steps):
            if number and number % self.steps_per_level == 0:  # a level ends
                middle = vectors.shape[1] // 2
                left.append(vectors[:, middle:])
                vectors = vectors[:, :middle]
            vectors, change = step(vectors)
            log_determinant = log_determinant + change
        return torch.cat([vectors, *left], dim=1), log_determinant

    def bits_per_dimension(self, vectors: Tensor) -> Tensor:
        """Minus the log-likelihood of vectors (rows, width), over width * ln 2; a scalar.

        It is the mean of the rows (frozen_maps.md, section 1.3).
        """
        latent, log_determinant = self(vectors)
        normal = -0.5 * (latent.square() + math.log(2 * math.pi)).sum(dim=1)
        bits: Tensor = -(normal.mean() + log_determinant) / (vectors.shape[1] * math.log(2))
        return bits


class FlowStep(nn.Module):
    """ActNorm, a permutation of the channels, and an additive coupling.

    The coupling leaves the first half as it is, and adds a network of it to the second half.
    """

    def __init__(self, width: int, coupling_width: int, permutation: Permutation) -> None:
        super().__init__()
        self.norm = ActNorm(width)
        self.mixing = InvertibleMap(width) if permutation == "invertible" else None
        self.middle = width // 2
        self.network = nn.Sequential(
            _small_linear(self.middle, coupling_width),
            ActNorm(coupling_width),
            nn.ReLU(),
            _small_linear(coupling_width, coupling_width),
            ActNorm(coupling_width),
            nn.ReLU(),
            # It starts at 0, so that a fresh coupling leaves the vectors as they are.
            ScaledZeroLinear(coupling_width, width - self.middle),
        )

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """(rows, width) -> the same, and the log-determinant.

        Only ActNorm and a learned permutation contribute to it: that of the coupling is 0, and a
        reversal has the determinant 1 or -1.
        """
        vectors = self.norm(vectors)  # the first of all sets its scale
        log_determinant = SCALE_FACTOR * self.norm.log_scale.sum()
        if self.mixing is None:
            # A reversal swaps the halves, so that the next coupling changes the other one.
            vectors = vectors.flip(1)
        else:
            vectors = self.mixing(vectors)
            log_determinant = log_determinant + self.mixing.log_diagonal.sum()
        first, second = vectors[:, : self.middle], vectors[:, self.middle :]
        return torch.cat([first, second + self.network(first)], dim=1), log_determinant


class ActNorm(nn.Module):
    """(x + bias) * exp(3 * log_scale) for every channel.

    The first vectors in training set bias and scale so that they get mean 0 and variance 1.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))
        self.log_scale = nn.Parameter(torch.zeros(width))
        # Not a buffer: to read a buffer on a GPU, the CPU would have to wait for it.
        self.fresh = True
        """Whether the first vectors are still to come"""

    def get_extra_state(self) -> Tensor:
        """State besides the parameters that torch saves: whether no vectors have come yet."""
        return torch.tensor(self.fresh)

    def set_extra_state(self, state: Tensor) -> None:
        """The inverse of `get_extra_state`."""
        self.fresh = bool(state)

    def forward(self, vectors: Tensor) -> Tensor:
        """(rows, width) -> (rows, width)."""
        if self.fresh and self.training:
            self._fit(vectors.detach())
        return (vectors + self.bias) * (SCALE_FACTOR * self.log_scale).exp()

    @torch.no_grad()
    def _fit(self, vectors: Tensor) -> None:
        self.fresh = False
        # 1e-6 keeps the scale of a constant channel finite.
        self.bias.copy_(-vectors.mean(dim=0))
        self.log_scale.copy_(-(vectors.std(dim=0, correction=0) + 1e-6).log() / SCALE_FACTOR)


class InvertibleMap(nn.Module):
    """A learned matrix P L U that starts as a random rotation (Kingma and Dhariwal 2018).

    P and the signs of U's diagonal stay as they are. L has ones on its diagonal, and the
    logarithms of U's diagonal are parameters, so that the determinant is never 0.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        rotation, _ = torch.linalg.qr(torch.randn(width, width))
        order, lower, upper = torch.linalg.lu(rotation)
        self.order: Tensor
        self.signs: Tensor
        self.register_buffer("order", order)
        self.register_buffer("signs", upper.diagonal().sign())
        self.lower = nn.Parameter(lower.tril(-1))
        self.upper = nn.Parameter(upper.triu(1))
        self.log_diagonal = nn.Parameter(upper.diagonal().abs().log())

    def forward(self, vectors: Tensor) -> Tensor:
        """(rows, width) -> (rows, width)."""
        # The parameters are whole matrices, of which one triangle counts.
        lower = self.lower.tril(-1) + torch.eye(
            len(self.lower), dtype=self.lower.dtype, device=self.lower.device
        )
        upper = self.upper.triu(1) + torch.diag(self.signs * self.log_diagonal.exp())
        return vectors @ (self.order @ lower @ upper).T


class ScaledZeroLinear(nn.Linear):
    """A linear layer whose output is multiplied by exp(3 * log_scale); everything starts at 0."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)
        self.log_scale = nn.Parameter(torch.zeros(outputs))

    def forward(self, vectors: Tensor) -> Tensor:
        """(rows, inputs) -> (rows, outputs)."""
        return super().forward(vectors) * (SCALE_FACTOR * self.log_scale).exp()


def _small_linear(inputs: int, outputs: int) -> nn.Linear:
    """N(0, 0.05) weights; the ActNorm that follows has the bias."""
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=0.05)
    return layer
