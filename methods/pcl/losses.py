"""The losses of PCL beside SimCSE's. Vectors of all views of all items are (items, views, H)."""

import torch
from torch import Tensor
from torch.nn import functional

from harness.losses.info_nce import cosines


def similarities(
    anchors: Tensor, positives: Tensor, negatives: Tensor, *, temperature: float
) -> Tensor:
    """Cosines over the temperature, (items, positives + items - 1) (pcl.md, section 2).

    anchors: (items, H). positives: (items, positives, H), of which each anchor has its own.
    negatives: (items, H), of which each anchor has those of all other items.
    """
    near = functional.cosine_similarity(anchors[:, None].float(), positives.float(), dim=2)
    far = cosines(anchors, negatives)
    others = far.triu(1)[:, 1:] + far.tril(-1)[:, :-1]  # without the diagonal
    return torch.cat([near, others], dim=1) / temperature


def peer_positive(views: Tensor, *, temperature: float) -> Tensor:
    """All further views of an item are positives of its first one (pcl.md, section 2)."""
    first, further = views[:, 0], views[:, 1:]
    shares = similarities(first, further, first, temperature=temperature).softmax(dim=1)
    targets = torch.zeros_like(shares)
    targets[:, : further.shape[1]].fill_(1)  # an assignment would copy the number to a GPU
    # The shares take the place of logits, as in the released code.
    return functional.binary_cross_entropy_with_logits(shares, targets)


def peer_network(views: Tensor, peers: Tensor, *, temperature: float) -> Tensor:
    """Divergences of a network from its peer, across both and within each (pcl.md, section 3)."""
    first, further, peer, peers_further = views[:, 0], views[:, 1:], peers[:, 0], peers[:, 1:]
    pairs = (
        ((first, peers_further, peer), (peer, further, first)),
        ((first, further, first), (peer, peers_further, peer)),
    )
    divergences = []
    for parts, peers_parts in pairs:
        own, other = (
            similarities(*each, temperature=temperature).log_softmax(dim=1)
            for each in (parts, peers_parts)
        )
        divergences.append((other.exp() * (other - own)).mean())
    return torch.stack(divergences).sum()
