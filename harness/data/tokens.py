"""Corpora as word pieces: tokenised once per tokenizer, kept on disk, memory-mapped by trials."""

import itertools
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.arrays import SharedArrays
from harness.data.corpora import source
from harness.data.texts import slices
from harness.data.tokenizers import tokenizer_digest
from harness.files import cache_folder
from harness.scratch import Scratch

LONGEST = 512  # the positions of BERT
"""Most word pieces that are kept of a sentence; no method trains on more"""
TEXTS_AT_ONCE = 2_000
"""Texts that are tokenised at once: enough for all cores, and few, because what the library gives
takes 100 bytes and more for each piece"""


@dataclass(frozen=True)
class Template:
    """The word pieces around every sentence: [CLS] and [SEP], or a hard prompt."""

    begin: tuple[int, ...]
    end: tuple[int, ...]
    leading_space: bool = False
    """Whether a space stands before the sentence and changes its first piece.

    It does so with byte-level tokenizers."""
    mask_id: int | None = None
    """The mask token, whose state is the embedding; None: there is no mask"""

    @classmethod
    def plain(cls, tokenizer: Any) -> "Template":
        """The template of the tokenizer's own [CLS] and [SEP], where it has them."""
        special = (tokenizer.cls_token_id, tokenizer.sep_token_id)
        begin, end = (() if piece is None else (piece,) for piece in special)
        return cls(begin, end)

    def __len__(self) -> int:
        return len(self.begin) + len(self.end)

    def without_leading_space(self) -> "Template":
        """The same template around sentences that no space stands before."""
        return replace(self, leading_space=False)

    def mask_positions(self, attention_mask: Tensor) -> Tensor:
        """The position of the mask in each row, (rows,).

        attention_mask: (rows, length).
        """
        if self.mask_id in self.begin:
            return torch.full_like(attention_mask[:, 0], self.begin.index(self.mask_id))
        # Rows differ in length and padding is on the right, so the end part is found from its end.
        from_end: Tensor = attention_mask.sum(dim=1) - len(self.end) + self.end.index(self.mask_id)
        return from_end


@dataclass(frozen=True)
class Tokens:
    """The bare word pieces of a corpus, without special tokens."""

    ids: list[np.ndarray]
    """For each column, the pieces of all its texts, one text after the other"""
    starts: list[np.ndarray]
    """For each column, (items + 1,): text k of column c is ids[c][starts[c][k]:starts[c][k + 1]]"""
    labels: np.ndarray | None
    """(items,): the label of each item; None: the corpus has no labels"""
    pad_id: int
    """The tokenizer's padding token"""

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], pad_id: int) -> "Tokens":
        """The corpus whose arrays `tokenised` names."""
        columns = sum(name.startswith("ids") for name in arrays)
        return cls(
            [arrays[f"ids{number}"] for number in range(columns)],
            [arrays[f"starts{number}"] for number in range(columns)],
            arrays.get("labels"),
            pad_id,
        )

    def __len__(self) -> int:
        return len(self.starts[0]) - 1

    @property
    def columns(self) -> int:
        """The number of texts of an item."""
        return len(self.ids)

    def row(self, column: int, item: int) -> np.ndarray:
        """The word pieces of one text of one item."""
        starts = self.starts[column]
        pieces: np.ndarray = np.asarray(self.ids[column][starts[item] : starts[item + 1]])
        return pieces

    def item_lengths(self, limit: int) -> np.ndarray:
        """The number of word pieces of each item's longest text, at most `limit`; (items,)."""
        longest: np.ndarray = np.max([np.diff(starts) for starts in self.starts], axis=0)
        shortened: np.ndarray = np.minimum(longest, limit)
        return shortened


def piece_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The word pieces of each text, without special tokens and without a limit."""
    # The fast call leaves out the places of the pieces in the text, which nothing here needs.
    encodings = tokenizer.backend_tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def tokenised(corpus_name: str, tokenizer: Any, *, leading_space: bool = False) -> SharedArrays:
    """The corpus as word pieces, which `Tokens.of` reads.

    The first process tokenises it; later ones read the cache. `leading_space`: put a space before
    every sentence. Raises UserError when the corpus is missing, and on reading when it is damaged.
    """
    found = source(corpus_name)
    paths = found.paths()
    spaced = "-spaced" if leading_space else ""
    name = f"{found.digest(paths)}{spaced}-{tokenizer_digest(tokenizer)}"
    folder = cache_folder() / "tokens" / name

    def build() -> dict[str, np.ndarray]:
        corpus = found.corpus(paths)
        arrays: dict[str, np.ndarray] = {} if corpus.labels is None else {"labels": corpus.labels}
        for number, column in enumerate(corpus.columns):
            texts = (f" {text}" for text in column) if leading_space else column
            arrays[f"ids{number}"], arrays[f"starts{number}"] = word_pieces(tokenizer, texts)
        return arrays

    encoder = Path(tokenizer.name_or_path).name
    return SharedArrays(folder, f"the word pieces of {corpus_name} for {encoder}", build)


def word_pieces(tokenizer: Any, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """The pieces of texts, and where each text starts: (pieces,) int32 and (texts + 1,) int64.

    Every text is cut to `LONGEST` pieces. The pieces of a large corpus are on disk, and only the
    starts are in memory. Raises UserError when the disk is full.
    """
    scratch, lengths = Scratch(), array("q", [0])
    for part in slices(texts, TEXTS_AT_ONCE):
        rows = [row[:LONGEST] for row in piece_ids(tokenizer, part)]
        lengths.extend(map(len, rows))
        # 32 bits hold any vocabulary and take half the space of numpy's own 64 on disk.
        pieces = np.fromiter(itertools.chain.from_iterable(rows), np.int32, sum(map(len, rows)))
        scratch.append(pieces.tobytes())
    return scratch.array(np.int32), np.cumsum(np.frombuffer(lengths, np.int64))
