"""The computations of BERT-whitening; `__init__.py` declares the method."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from harness import plugin
from harness.encoders.pooling import pooled
from harness.errors import UserError
from harness.plugin import Kit, TextBatch
from harness.plugin.corpus_vectors import vector_groups

from . import Config, Declaration

SMALLEST = 1e-10
"""The smallest variance, as a share of the largest, that is not a rounding error.

A LayerNorm leaves one direction without variance, up to the rounding of float32 (1e-15 to 3e-14
was measured). The smallest true variances have 1e-7 or more."""


class Method(Declaration, plugin.FrozenMethod[Config]):
    """Nothing trains: the map has a closed form."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        width = self.encoder.hidden_size
        if config.dimensions is not None and config.dimensions > width:
            raise UserError(f"dimensions = {config.dimensions} are more than the encoder's {width}")
        fitted = kit.artefact("whitening")
        self.mean: Tensor
        self.map: Tensor
        self.register_buffer("mean", torch.tensor(fitted["mean"]))
        self.register_buffer("map", torch.tensor(fitted["map"][:, : config.dimensions]))

    def base(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, self.config.pooling)

    def transform(self, vectors: Tensor) -> Tensor:
        # e' = (e - mu) W, then unit length (frozen_maps.md, section 2)
        return functional.normalize((vectors.double() - self.mean) @ self.map, dim=1).float()


def whitening(config: Config, kit: Kit) -> Mapping[str, np.ndarray]:
    """`mean` (width,) and `map` (width, width) of a corpus, in float64."""
    # Mean and scatter are merged group by group, so that one group of vectors is kept at a time.
    count, mean, scatter = 0, torch.zeros(()), torch.zeros(())
    for _, vectors in vector_groups(kit, config.corpus, config.pooling, config.max_length):
        rows = vectors.double()
        share = len(rows) / (count + len(rows))
        shift = rows.mean(dim=0) - mean
        centred = rows - rows.mean(dim=0)
        scatter = scatter + centred.T @ centred + torch.outer(shift, shift) * (count * share)
        mean = mean + shift * share
        count += len(rows)
    # The covariance divides by n - 1 (frozen_maps.md, section 2); a corpus has two items or more.
    return {"mean": mean.cpu().numpy(), "map": whitening_map((scatter / (count - 1)).cpu().numpy())}


def whitening_map(covariance: np.ndarray) -> np.ndarray:
    """W = U S^-1/2 of a covariance U S U^T, both (width, width), the largest variance first.

    Directions without variance are mapped to 0.
    """
    directions, variances, _ = np.linalg.svd(covariance)
    scales = np.where(variances > SMALLEST * variances[0], variances, np.inf) ** -0.5
    scaled: np.ndarray = directions * scales
    return scaled
