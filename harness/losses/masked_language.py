"""Losses over tokens: that of a masked language model, and that of the next token.

SimCSE and DCPCSE have the first as an auxiliary loss, and DiffCSE as an ablation (simcse.md,
section 2.4; dcpcse.md, section 2; diffcse.md, section 2). The second is for decoders.
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from harness.data.batching import TextBatch
from harness.views.masking import Masked, Masker


def masked_language_loss(
    head: nn.Module, states: Tensor, originals: Tensor, chosen: Tensor
) -> Tensor:
    """Mean over the chosen positions of the cross entropy over the vocabulary.

    It is 0 when no position was chosen. head: states -> logits. states: (rows, length, H);
    originals, chosen: (rows, length).
    """
    # The only wait for a GPU, which alone knows how many were chosen; a mask as an index waits for
    # it at every use, and in the backward pass.
    places = chosen.flatten().nonzero().squeeze(1)
    logits: Tensor = head(states.flatten(0, 1)[places])
    if len(logits) == 0:
        # A mean over nothing would be nan. This zero keeps the graph, and that of the head, so that
        # every batch gives the same parameters a gradient.
        return logits.float().sum()
    return functional.cross_entropy(logits.float(), originals.flatten()[places])


def next_token_loss(head: nn.Module, states: Tensor, originals: Tensor, chosen: Tensor) -> Tensor:
    """Mean over the chosen positions of the cross entropy, from the state one position before.

    A piece at position 0 has none before it, and does not count. With all real tokens chosen it is
    the loss of a causal language model; with masked ones, that of masked next-token prediction
    (llm2vec.md, section 1). Arguments as above.
    """
    return masked_language_loss(head, states[:, :-1], originals[:, 1:], chosen[:, 1:])


def masked_pass_loss(
    encode: Callable[[TextBatch], Tensor], head: nn.Module, masker: Masker, texts: TextBatch
) -> Tensor:
    """The loss of a pass over a copy of the texts that is masked anew.

    encode: texts -> states (rows, length, H). The texts themselves stay whole.
    """
    masked: Masked = masker(texts.input_ids)
    states = encode(texts.replaced(masked.input_ids, texts.attention_mask))
    return masked_language_loss(head, states, texts.input_ids, masked.chosen)
