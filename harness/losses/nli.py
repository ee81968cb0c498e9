"""Natural language inference as a softmax over features of a pair.

SBERT and ConSERT train with it, and so do DiffAug's stage 1 and its auxiliary loss.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.data.batching import TextBatch
from harness.errors import UserError


class PairClassifier(nn.Module):
    """A linear layer on [u, v, |u - v|], and with `squared_maximum` on max(u, v)^2 as well.

    Its weights start from N(0, 0.02), its biases from 0. 3 * width * classes + classes parameters
    (4 * width with `squared_maximum`, which is ConSERT's).
    """

    def __init__(self, width: int, classes: int, *, squared_maximum: bool = False) -> None:
        """width: of u and of v."""
        super().__init__()
        self.squared_maximum = squared_maximum
        self.linear = nn.Linear(width * (4 if squared_maximum else 3), classes)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """first, second: (rows, width) -> logits (rows, classes)."""
        features = [first, second, (first - second).abs()]
        if self.squared_maximum:
            features.append(torch.maximum(first, second).square())
        logits: Tensor = self.linear(torch.cat(features, dim=1))
        return logits


def labels_of(pairs: TextBatch) -> Tensor:
    """The labels of a batch of pairs, (items,). Raises UserError where their corpus has none."""
    if pairs.labels is None or pairs.views != 2:
        raise UserError(
            "pairs: the corpus must have premise, hypothesis and label "
            "(nli-pairs, or such a .parquet file)"
        )
    return pairs.labels


def pair_loss(classifier: PairClassifier, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy of labelled pairs. first, second: (items, width); labels: (items,)."""
    return functional.cross_entropy(classifier(first, second).float(), labels)


def triplet_loss(
    classifier: PairClassifier, premises: Tensor, entailments: Tensor, contradictions: Tensor
) -> Tensor:
    """Mean cross entropy over the two pairs of every triplet (diffaug.md, section 3).

    (premise, entailment) has label 1 and (premise, contradiction) has label 0; there are no
    neutral pairs. All vectors: (items, width).
    """
    logits = torch.cat([classifier(premises, entailments), classifier(premises, contradictions)])
    # Ones for all entailments, then zeros for all contradictions.
    labels = torch.arange(1, -1, -1, device=logits.device).repeat_interleave(len(premises))
    return functional.cross_entropy(logits.float(), labels)
