"""From hidden states to one vector per sentence."""

from torch import Tensor

from harness.choices import Pooling
from harness.data.batching import TextBatch
from harness.encoders.backbone import Encoder


def mean(states: Tensor, attention_mask: Tensor) -> Tensor:
    """Mean over the real tokens, special tokens included: (rows, length, H) -> (rows, H).

    attention_mask: (rows, length). Of a row without any, it is 0.
    """
    mask = attention_mask.unsqueeze(-1).to(states.dtype)
    return (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


def pooled(encoder: Encoder, batch: TextBatch, pooling: Pooling) -> Tensor:
    """The sentence vectors of a plain encoder, (rows, H); plain_encoders.md, section 1.

    `first-last` averages the last layer and the first Transformer layer (SimCSE's corrected code);
    `first-last-embeddings` averages it and the embedding output (the code behind the published
    56.70).
    """
    if pooling == "cls":
        return encoder.cls(batch)
    if pooling == "mean":
        return mean(encoder(batch), batch.attention_mask)
    layers = encoder.layers(batch)
    # layers[0] is the embedding output, layers[k] the output of Transformer layer k.
    other = {
        "first-last": layers[1],
        "first-last-embeddings": layers[0],
        "last-two": layers[-2],
    }[pooling]
    return mean((other + layers[-1]) / 2, batch.attention_mask)
