"""Sentence vectors of an encoder that never changes, for a whole corpus at once."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from harness.choices import Pooling
from harness.data.batching import TextBatch, pad
from harness.data.tokens import Template, Tokens, load_tokenizer, tokenised
from harness.device import token_groups
from harness.encoders.backbone import Encoder
from harness.encoders.pooling import pooled
from harness.plugin.kit import Kit


def corpus_vectors(
    kit: Kit, corpus: str, pooling: Pooling, max_length: int, model: str | None = None
) -> np.ndarray:
    """The vectors of every text of a corpus, (items, columns, width) float32.

    model: another encoder than that of the configuration, which reads by its own tokenizer.
    """
    tokens = kit.tokens(corpus)
    vectors: np.ndarray | None = None
    for places, group in vector_groups(kit, corpus, pooling, max_length, model):
        if vectors is None:  # the first group tells the width
            vectors = np.empty((len(tokens) * tokens.columns, group.shape[1]), np.float32)
        vectors[places] = group.cpu().numpy()
    assert vectors is not None
    return vectors.reshape(len(tokens), tokens.columns, -1)


@torch.inference_mode()
def vector_groups(
    kit: Kit, corpus: str, pooling: Pooling, max_length: int, model: str | None = None
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Every text of a corpus through a frozen encoder, in groups of similar length.

    Yields (places, vectors): place = item * columns + column, and vectors are (group, width)
    float32 on the kit's device. There is no dropout. Texts longer than `max_length` tokens,
    special ones included, are cut on the right. model: as in `corpus_vectors`.
    """
    if model is None:
        encoder, tokenizer, tokens = kit.encoder(), kit.tokenizer, kit.tokens(corpus)
    else:
        decoding, ends = kit.config.decoding, kit.config.ends_sentences
        tokenizer = load_tokenizer(model, ends=ends)
        tokens = Tokens.of(tokenised(corpus, tokenizer).read(), tokenizer.pad_token_id)
        encoder = Encoder(model, decoding=decoding, as_stored=kit.as_stored, device=kit.device)
    encoder, template = encoder.to(kit.device).eval(), Template.plain(tokenizer)
    limit = min(max_length, encoder.longest) - len(template)
    columns = tokens.columns
    by_column = [np.diff(starts) for starts in tokens.starts]
    lengths = np.stack(by_column, axis=1).clip(max=limit).ravel()
    # Long texts first, as `token_groups` wants them. Equally long neighbours need no padding.
    order = np.argsort(-lengths, kind="stable")
    for group in token_groups(lengths[order] + len(template), kit.device):
        places = order[group]
        rows = [tokens.row(place % columns, place // columns)[:limit] for place in places]
        ids, mask = pad(rows, template, tokens.pad_id)
        batch = TextBatch(ids, mask, torch.from_numpy(places)).to(kit.device)
        yield places, pooled(encoder, batch, pooling)
