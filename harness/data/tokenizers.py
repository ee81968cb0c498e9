"""Tokenizers of encoders, with the tokens that stand around a sentence."""

from typing import Any

import transformers

from harness.data.hub import model_folder, model_shape
from harness.errors import UserError, explained

VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
"""A tokenizer needs one of these files. Where there is none, transformers silently builds a
tokenizer that knows no word."""


def load_tokenizer(encoder: str, *, ends: bool = True) -> Any:
    """The tokenizer of an encoder, without truncation. Raises UserError when it has none.

    ends: whether a decoder reads a token behind each sentence, whose state can stand for it.
    """
    folder = model_folder(encoder)
    # Checked first: transformers would not complain (see VOCABULARIES).
    if not any(path for name in VOCABULARIES for path in folder.glob(name)):
        raise UserError(f'encoder "{encoder}" has no tokenizer: {folder} has no {VOCABULARIES[0]}')
    with explained(f'encoder "{encoder}" has no usable tokenizer: '):
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, use_fast=True, trust_remote_code=False
        )
        # Batches cut and pad, because only they know a method's template and limits.
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
        _add_roles(tokenizer, int(model_shape(encoder)["vocab_size"]), ends=ends)
    return tokenizer


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
