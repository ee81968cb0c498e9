"""Corpora as word pieces: tokenised once per tokenizer, kept on disk, memory-mapped by every trial."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.arrays import shared_arrays
from harness.data.corpora import source
from harness.files import cache_folder, digest_files

LONGEST = 512
"""Word pieces kept of a sentence; no method trains on more."""


@dataclass(frozen=True)
class Template:
    """The word pieces around every sentence: ([CLS], [SEP]), or a hard prompt."""

    begin: tuple[int, ...]
    end: tuple[int, ...]
    leading_space: bool = False
    """Whether a space stands before the sentence, where the tokenizer marks one (byte-level ones do)"""
    mask_id: int | None = None
    """The piece whose state is the embedding; None: there is no mask"""

    @classmethod
    def plain(cls, tokenizer: Any) -> "Template":
        """The tokenizer's own special tokens, where it has them."""
        special = (tokenizer.cls_token_id, tokenizer.sep_token_id)
        begin, end = (() if piece is None else (piece,) for piece in special)
        return cls(begin, end)

    def __len__(self) -> int:
        return len(self.begin) + len(self.end)

    def without_leading_space(self) -> "Template":
        """The same around sentences whose first word is not marked as following a space."""
        return replace(self, leading_space=False)

    def mask_positions(self, attention_mask: Tensor) -> Tensor:
        """Where the mask is in each row, (rows,); attention_mask: (rows, length)."""
        if self.mask_id in self.begin:
            return torch.full_like(attention_mask[:, 0], self.begin.index(self.mask_id))
        from_end: Tensor = attention_mask.sum(dim=1) - len(self.end) + self.end.index(self.mask_id)
        return from_end


@dataclass(frozen=True)
class Tokens:
    """Bare word pieces of a corpus (no special ones); sentence k of column c is ids[c][starts[c][k]:starts[c][k+1]]."""

    ids: list[np.ndarray]
    starts: list[np.ndarray]
    labels: np.ndarray | None
    pad_id: int

    def __len__(self) -> int:
        return len(self.starts[0]) - 1

    @property
    def columns(self) -> int:
        """Texts per item."""
        return len(self.ids)

    def row(self, column: int, item: int) -> np.ndarray:
        """The word pieces of one text."""
        starts = self.starts[column]
        pieces: np.ndarray = np.asarray(self.ids[column][starts[item] : starts[item + 1]])
        return pieces

    def item_lengths(self, limit: int) -> np.ndarray:
        """(items,): word pieces of each item's longest text, at most `limit`."""
        longest: np.ndarray = np.max([np.diff(starts) for starts in self.starts], axis=0)
        shortened: np.ndarray = np.minimum(longest, limit)
        return shortened


def piece_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Word pieces of each text without special tokens and without a limit."""
    encodings = tokenizer.backend_tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def tokenised(
    corpus_name: str, tokenizer: Any, tokenizer_digest: str, *, leading_space: bool = False
) -> Tokens:
    """The corpus as word pieces; tokenised on the first call for this tokenizer, then read from the cache."""
    found = source(corpus_name)
    paths = found.paths()
    kind = f"{found.read.__name__}-spaced" if leading_space else found.read.__name__
    folder = cache_folder() / "tokens" / f"{digest_files(paths)}-{kind}-{tokenizer_digest}"

    def build() -> dict[str, np.ndarray]:
        corpus = found.read(paths)
        arrays: dict[str, np.ndarray] = {} if corpus.labels is None else {"labels": corpus.labels}
        for number, column in enumerate(corpus.columns):
            texts = [f" {text}" for text in column] if leading_space else column
            arrays[f"ids{number}"], arrays[f"starts{number}"] = flattened(
                piece_ids(tokenizer, texts)
            )
        return arrays

    arrays = shared_arrays(folder, build)
    columns = sum(name.startswith("ids") for name in arrays)
    return Tokens(
        [arrays[f"ids{number}"] for number in range(columns)],
        [arrays[f"starts{number}"] for number in range(columns)],
        arrays.get("labels"),
        tokenizer.pad_token_id,
    )


def flattened(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of word pieces one after the other, and where each starts (one more than there are rows)."""
    cut = [row[:LONGEST] for row in rows]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in cut])]).astype(np.int64)
    return np.fromiter((piece for row in cut for piece in row), np.int32, int(starts[-1])), starts
