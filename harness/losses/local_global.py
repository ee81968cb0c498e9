"""The loss of IS-BERT: a sentence's vector knows the vectors of its own tokens (isbert.md)."""

import math

import torch
from torch import Tensor
from torch.nn import functional


def local_global_loss(local: Tensor, mask: Tensor, whole: Tensor) -> Tensor:
    """Minus the Jensen-Shannon estimate of mutual information (isbert.md, section 1).

    local: (rows, length, width), a vector for each token. mask: (rows, length), 1 for a token.
    whole: (rows, width), a vector for each sentence. Both means run over pairs of a token and a
    sentence: the sentence that has the token, and all others of the batch. With a single row there
    are no others, and their mean counts as 0.
    """
    # Autocast would multiply in bf16.
    with torch.autocast(local.device.type, enabled=False):
        if local.dtype != torch.float64:
            local, whole = local.float(), whole.float()
        scores = torch.einsum("rlw,sw->rls", local, whole)
    own = torch.eye(len(local), dtype=torch.bool, device=local.device)[:, None, :]
    real = mask.bool()[:, :, None]
    positive = math.log(2) - functional.softplus(-scores)
    negative = functional.softplus(scores) - math.log(2)
    return _mean(negative, real & ~own) - _mean(positive, real & own)


def _mean(values: Tensor, wanted: Tensor) -> Tensor:
    return (values * wanted).sum() / wanted.sum().clamp(min=1)
