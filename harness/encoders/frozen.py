"""Sentence vectors of an encoder that never changes, for a whole corpus at once."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from harness.data.batching import TextBatch, pad, token_groups
from harness.data.tokens import Template
from harness.encoders.pooling import Pooling, pooled

if TYPE_CHECKING:
    from harness.kit import Kit

SHARE_OF_MEMORY = 0.5
"""Of a GPU's free memory, what a table of vectors may take."""


def corpus_vectors(kit: "Kit", corpus: str, pooling: Pooling, max_length: int) -> np.ndarray:
    """Every text of a corpus as `vector_groups` gives it, (items, columns, width) float32."""
    tokens = kit.tokens(corpus)
    vectors: np.ndarray | None = None
    for places, found in vector_groups(kit, corpus, pooling, max_length):
        if vectors is None:
            vectors = np.empty((len(tokens) * tokens.columns, found.shape[1]), np.float32)
        vectors[places] = found.cpu().numpy()
    assert vectors is not None
    return vectors.reshape(len(tokens), tokens.columns, -1)


@torch.inference_mode()
def vector_groups(kit: "Kit", corpus: str, pooling: Pooling, max_length: int) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Every text of a corpus through the pretrained encoder, without dropout, a group of equally long ones at a time:
    (places, vectors), where place = item * columns + column and vectors are (group, width) float32 on the kit's device.

    Texts longer than `max_length` tokens, special ones included, are cut on the right.
    """
    encoder = kit.encoder().to(kit.device).eval()
    tokens, template = kit.tokens(corpus), Template.plain(kit.tokenizer)
    limit = min(max_length, encoder.longest) - len(template)
    columns = tokens.columns
    lengths = np.stack([np.diff(starts) for starts in tokens.starts], axis=1).clip(max=limit).ravel()
    order = np.argsort(-lengths, kind="stable")
    for group in token_groups(lengths[order] + len(template), kit.device):
        places = order[group]
        rows = [tokens.row(place % columns, place // columns)[:limit] for place in places]
        ids, mask = pad(rows, template, tokens.pad_id)
        batch = TextBatch(ids, mask, torch.from_numpy(places)).to(kit.device)
        yield places, pooled(encoder, batch, pooling)


class VectorTable:
    """Vectors made beforehand, looked up by number: on the GPU where they fit, else read from the disk's cache."""

    def __init__(self, vectors: np.ndarray, device: torch.device) -> None:
        """`vectors`: (rows, ..., width), memory-mapped."""
        self.device = device
        self.on_disk = vectors
        self.on_device: Tensor | None = None
        if device.type == "cuda" and vectors.nbytes < SHARE_OF_MEMORY * torch.cuda.mem_get_info(device)[0]:
            self.on_device = torch.tensor(vectors, device=device)

    def __call__(self, rows: Tensor) -> Tensor:
        """rows: any shape -> (*rows, ..., width) on the device."""
        if self.on_device is not None:
            return self.on_device[rows]
        return torch.from_numpy(self.on_disk[rows.cpu().numpy()]).to(self.device)
