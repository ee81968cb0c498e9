"""The losses of RankCSE on lists of similarities: row i has those of item i with all N items."""

import math

import torch
from torch import Tensor
from torch.nn import functional


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """The cosine of every row of one, (N, width), with every row of the other: (N, N) float32."""
    # Autocast would multiply in bf16, in which cosines near 1 have steps of 0.004.
    with torch.autocast(left.device.type, enabled=False):
        first, second = (functional.normalize(each.float(), dim=1) for each in (left, right))
        return first @ second.T


def ranking_consistency(scores: Tensor) -> Tensor:
    """Mean over i of the Jensen-Shannon divergence of two distributions over the batch.

    scores: (N, N), cos(z_i, z'_j) / tau_1. One distribution is the softmax of row i, which looks
    from view 1 at views 2, the other that of column i (rankcse.md, section 2).
    """
    log_p, log_q = scores.log_softmax(1), scores.T.log_softmax(1)
    log_m = torch.logaddexp(log_p, log_q) - math.log(2)
    both = log_p.exp() * (log_p - log_m) + log_q.exp() * (log_q - log_m)
    return both.sum(1).mean() / 2


def list_net(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean over i of the cross entropy of two distributions over the other items.

    student, teacher: (N, N), similarities over their temperatures. An item's similarity with itself
    is left out (rankcse.md, section 3.1). Of a single item it is 0.
    """
    ours, theirs = without_diagonal(student), without_diagonal(teacher)
    return -(theirs.softmax(1) * ours.log_softmax(1)).sum(1).mean()


def without_diagonal(square: Tensor) -> Tensor:
    """(N, N) -> (N, N - 1). A mask would let the CPU wait for a GPU."""
    count = len(square)
    # Behind the first number, each N + 1 numbers end on the diagonal.
    return square.flatten()[1:].view(count - 1, count + 1)[:, :-1].reshape(count, count - 1)


def list_mle(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean over i of minus the log likelihood of the teacher's order of the batch (Plackett-Luce).

    student: (N, N), similarities over the temperature. teacher: (N, N), of which the order of a
    row counts; equal ones keep that of the batch (rankcse.md, section 3.2).
    """
    order = teacher.argsort(dim=1, descending=True, stable=True)
    ranked = student.gather(1, order).flip(1)  # the last comes first, and sees itself alone
    return (ranked.logcumsumexp(1) - ranked).sum(1).mean()
