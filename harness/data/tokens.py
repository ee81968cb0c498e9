"""Tokenizers, and corpora as word pieces, which are kept on disk and memory-mapped by trials.

Tokenizers are compared by what they do.
"""

import itertools
import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from torch import Tensor

from harness.arrays import SharedArrays
from harness.data.corpora import source
from harness.data.hub import model_folder, model_shape
from harness.data.texts import Scratch, slices
from harness.errors import UserError, explained
from harness.files import cache_folder, digest_of
from harness.inputs import read_text

VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
"""A tokenizer needs one of these files. Where there is none, transformers silently builds a
tokenizer that knows no word."""
_SAMPLES = (
    "A man is playing a guitar.",
    "a man isn't playing 3.14159 guitars; 2 + 2 = 4, 50 %",
    "UPPER CASE, ÄÖÜ ß, naïve cafe\N{COMBINING ACUTE ACCENT}",
    "  Spaces   stand\tin front,\nbetween and behind.  ",
    "日本語の文 и русский текст and a \N{GRINNING FACE}",
    "[CLS] [SEP] [MASK] <s> </s> <mask> <pad> ##ing \N{FULLWIDTH LATIN CAPITAL LETTER A}",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "",
)
"""Sentences whose word pieces show whether two tokenizers are the same"""


def load_tokenizer(encoder: str, *, ends: bool = True) -> Any:
    """The tokenizer of an encoder, without truncation.

    ends: whether a decoder reads a token behind each sentence, whose state can stand for it.
    Raises UserError when the encoder has none, and when it cannot be read.
    """
    folder = model_folder(encoder)
    _check_readable(encoder, folder)
    with explained(f'encoder "{encoder}" has no usable tokenizer: '):
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, use_fast=True, trust_remote_code=False
        )
        if getattr(tokenizer, "backend_tokenizer", None) is None:
            raise UserError(
                f'encoder "{encoder}": transformers has its tokenizer '
                f"({type(tokenizer).__name__}) in Python alone; save it as a tokenizer.json, or "
                f"choose an encoder that has one"
            )
        # Batches cut and pad, because only they know a method's template and limits.
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
        _add_roles(tokenizer, int(model_shape(encoder)["vocab_size"]), ends=ends)
    return tokenizer


def tokenizer_digest(tokenizer: Any) -> str:
    """A digest of what a tokenizer does with a text.

    It covers the vocabulary, the rules in front and behind, and the added tokens, from whichever
    files they were read; and how this version of the library applies them to a few sentences.
    """
    backend = tokenizer.backend_tokenizer
    return digest_of([backend.to_str(), probed(tokenizer), tokenizers.__version__])


def probed(tokenizer: Any) -> list[list[str]]:
    """The word pieces of a few sentences, without special tokens around them."""
    backend = tokenizer.backend_tokenizer
    return [
        found.tokens for found in backend.encode_batch(list(_SAMPLES), add_special_tokens=False)
    ]


def check_same_tokenizer(first: Any, second: Any, names: tuple[str, str]) -> None:
    """Raise UserError unless two tokenizers give every text the same numbers.

    names: what they belong to, for the message.
    """
    one, other = (
        {number: piece for piece, number in each.get_vocab().items()} for each in (first, second)
    )
    whose = " and ".join(names)
    for number in sorted({*one, *other}):
        if one.get(number) != other.get(number):
            raise UserError(
                f"{whose} must share a tokenizer, but word piece {number} is "
                f"{one.get(number)!r} for the one and {other.get(number)!r} for the other"
            )
    for text, mine, theirs in zip(_SAMPLES, probed(first), probed(second), strict=True):
        if mine != theirs:
            raise UserError(
                f"{whose} must share a tokenizer, but the one cuts {text!r} into {mine} and the "
                f"other into {theirs}"
            )


def check_embedded(encoder: str, tokenizer: Any, vocabulary: int) -> None:
    """Raise UserError when there are more word pieces than embeddings.

    vocabulary: the word embeddings of the encoder.
    """
    # A decoder may have no embedding for its padding token; another one pads then (`_add_roles`).
    padding = str(tokenizer.init_kwargs.get("pad_token"))
    numbers = {number for piece, number in tokenizer.get_vocab().items() if piece != padding}
    pieces = 1 + max({*numbers, *tokenizer.all_special_ids}, default=-1)
    if pieces > vocabulary:
        raise UserError(
            f'encoder "{encoder}": its tokenizer has {pieces} word pieces, and its model has '
            f"{vocabulary} word embeddings (vocab_size in config.json); take the tokenizer that "
            f"belongs to the weights, or give the model an embedding for every word piece"
        )


def _check_readable(encoder: str, folder: Path) -> None:
    """Raise UserError when there is no vocabulary, or nothing here that could read it."""
    # Checked first: transformers would not complain (see VOCABULARIES).
    if not any(path for name in VOCABULARIES for path in folder.glob(name)):
        raise UserError(f'encoder "{encoder}" has no tokenizer: {folder} has no {VOCABULARIES[0]}')
    if (folder / VOCABULARIES[0]).is_file():
        return
    vocabulary = next(iter(sorted(folder.glob("*.model"))), None)
    if vocabulary is not None and find_spec("sentencepiece") is None:
        raise UserError(  # transformers would ask for another package
            f'encoder "{encoder}": its vocabulary {vocabulary.name} is read with sentencepiece, '
            f"which is not installed: pip install sentencepiece"
        )
    settings = folder / "tokenizer_config.json"
    kind = _class_of(settings) if settings.is_file() else None
    if kind is not None and not any(hasattr(transformers, name) for name in (kind, f"{kind}Fast")):
        raise UserError(
            f'encoder "{encoder}": {settings} names the tokenizer_class {kind}, which transformers '
            f"does not have; save its tokenizer as a {VOCABULARIES[0]}"
        )


def _class_of(settings: Path) -> str | None:
    """The class that a tokenizer_config.json names, if it names one."""
    with explained(f"{settings} cannot be read: "):
        content = json.loads(read_text(settings))
    named = content.get("tokenizer_class") if isinstance(content, dict) else None
    return named if isinstance(named, str) else None


def _add_roles(tokenizer: Any, vocabulary: int, *, ends: bool) -> None:
    """Let tokens of a decoder's tokenizer play the roles of [PAD], [CLS] and [SEP].

    vocabulary: word embeddings of the encoder, which may have none for a token of the tokenizer.
    In front stands what the tokenizer puts there by itself, which may be nothing. Behind stands the
    same, or else, if a token must be there, the token that ends a text.
    """
    padding = tokenizer.pad_token_id
    if padding is None or padding >= vocabulary:  # it is masked, so that any token will do
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(tokenizer.eos_token_id or 0)
    if tokenizer.cls_token_id is not None or tokenizer.sep_token_id is not None:
        return
    bare, whole = (
        tokenizer.backend_tokenizer.encode("a", add_special_tokens=special).ids
        for special in (False, True)
    )
    start = whole.index(bare[0]) if bare else 0
    before, behind = whole[:start], whole[start + len(bare) :]
    if before:
        tokenizer.cls_token = tokenizer.convert_ids_to_tokens(before[0])
    if behind:
        tokenizer.sep_token = tokenizer.convert_ids_to_tokens(behind[-1])
    elif ends:
        tokenizer.sep_token = tokenizer.eos_token


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
    """The mask token, whose state is the embedding, the last one's where there are several; None:
    there is no mask"""

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
        """The position of the last mask in each row, (rows,).

        attention_mask: (rows, length).
        """
        if self.mask_id not in self.end:
            last = len(self.begin) - 1 - self.begin[::-1].index(self.mask_id)
            return torch.full_like(attention_mask[:, 0], last)
        # Rows differ in length and padding is on the right, so the end part is found from its end.
        return attention_mask.sum(dim=1) - 1 - self.end[::-1].index(self.mask_id)


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
        return np.asarray(self.ids[column][starts[item] : starts[item + 1]])

    def labels_of(self, items: np.ndarray) -> Tensor | None:
        """The label of each of these items, (items,); None: the corpus has no labels."""
        return None if self.labels is None else torch.from_numpy(self.labels[items])

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
    origin = source(corpus_name)
    paths = origin.paths()
    spaced = "-spaced" if leading_space else ""
    name = f"{origin.digest(paths)}{spaced}-{tokenizer_digest(tokenizer)}"
    folder = cache_folder() / "tokens" / name

    def build() -> dict[str, np.ndarray]:
        corpus = origin.corpus(paths)
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
