"""Losses over pairs of sentences whose similarity people have scored (scored_pairs.md)."""

import torch
from torch import Tensor
from torch.nn import functional


def cosine_mse(first: Tensor, second: Tensor, similarities: Tensor) -> Tensor:
    """The mean squared difference of cosines and gold similarities (SBERT's regression).

    first, second: (items, width). similarities: (items,), on the scale of cosines.
    """
    cosines = functional.cosine_similarity(first.float(), second.float())
    return functional.mse_loss(cosines, similarities.float())


def cosent(first: Tensor, second: Tensor, scores: Tensor, *, scale: float) -> Tensor:
    """log(1 + sum of exp(scale * (cos_j - cos_i)) over all items i, j with score_i > score_j).

    first, second: (items, width). scores: (items,), of which only the order counts. It is 0 where
    all scores are equal.
    """
    cosines = functional.cosine_similarity(first.float(), second.float())
    return ordering(cosines, scores, scale=scale)


def ordering(similarities: Tensor, scores: Tensor, *, scale: float) -> Tensor:
    """The same of any similarities in the place of cosines: (items,)."""
    differences = scale * (similarities[None, :] - similarities[:, None])  # [i, j]: s_j - s_i
    ordered = scores[:, None] > scores[None, :]
    # The 0 is the 1 of log(1 + ...); logsumexp does not overflow. A choice of the ordered ones by
    # their places would let the CPU wait for their number.
    others = differences.masked_fill(~ordered, -torch.inf).flatten()
    terms = torch.cat([differences.new_zeros(1), others])
    return torch.logsumexp(terms, dim=0)
