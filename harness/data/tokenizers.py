"""Tokenizers of encoders, with the tokens around a sentence, compared by what they do."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tokenizers
import transformers

from harness.data.hub import model_folder, model_shape
from harness.errors import UserError, explained
from harness.files import digest_of
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
    known = {number for piece, number in tokenizer.get_vocab().items() if piece != padding}
    pieces = 1 + max({*known, *tokenizer.all_special_ids}, default=-1)
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
    found = next(iter(sorted(folder.glob("*.model"))), None)
    if found is not None and find_spec("sentencepiece") is None:
        raise UserError(  # transformers would ask for another package
            f'encoder "{encoder}": its vocabulary {found.name} is read with sentencepiece, which '
            f"is not installed: pip install sentencepiece"
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
