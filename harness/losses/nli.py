"""Natural language inference as a softmax over pair features (SBERT, ConSERT, DiffAug's stage 1 and auxiliary loss)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.data.batching import TextBatch
from harness.errors import UserError


class PairClassifier(nn.Module):
    """A linear layer on [u, v, |u - v|], with `squared_maximum` also on max(u, v)^2 (ConSERT); N(0, 0.02) weights, zero
    bias. width * 3 (or 4) * classes + classes parameters."""

    def __init__(self, width: int, classes: int, *, squared_maximum: bool = False) -> None:
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
            "pairs: the corpus must have premise, hypothesis and label (nli-pairs, or such a .parquet file)"
        )
    return pairs.labels


def pair_loss(classifier: PairClassifier, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy of labelled pairs; labels: (rows,)."""
    return functional.cross_entropy(classifier(first, second).float(), labels)


def triplet_loss(
    classifier: PairClassifier, premises: Tensor, entailments: Tensor, contradictions: Tensor
) -> Tensor:
    """Mean cross entropy over the 2B pairs of B triplets: (premise, entailment) is 1, (premise, contradiction) 0; there
    is no neutral (diffaug.md, section 3)."""
    logits = torch.cat([classifier(premises, entailments), classifier(premises, contradictions)])
    labels = torch.arange(1, -1, -1, device=logits.device).repeat_interleave(len(premises))
    return functional.cross_entropy(logits.float(), labels)
