"""Hard prompts: what stands around a sentence when its embedding is the state at a mask.

The method with hard prompts is PromptBERT (promptbert.md, section 1).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harness.choices import MASK, SENTENCE, complete_template
from harness.data.batching import TextBatch
from harness.data.hub import model_shape
from harness.data.tokens import Template, piece_ids
from harness.device import constant
from harness.errors import UserError

PUBLISHED = {
    "bert": ('This sentence of "{s}" means [MASK].', 'This sentence : "{s}" means [MASK].'),
    "roberta": ("This sentence : ' {s} ' means [MASK].", "The sentence : ' {s} ' means [MASK]."),
}
"""Family of encoders -> PromptBERT's templates of the first and of the second view"""


def published_templates(encoder: str) -> tuple[str, str]:
    """PromptBERT's templates of the first and of the second view, for the family of an encoder.

    DiffAug has the first one for both views (diffaug.md, section 1.6). Raises UserError when there
    is no such encoder.
    """
    return PUBLISHED["roberta" if "roberta" in model_shape(encoder)["model_type"] else "bert"]


def hard_prompt(tokenizer: Any, text: str) -> Template:
    """A `TemplateText` in word pieces, special tokens included.

    [MASK] in the text stands for the tokenizer's own mask token. Raises ValueError unless the text
    has one {s} and a [MASK], and UserError where the tokenizer has no mask token.
    """
    require_mask(tokenizer, "a hard prompt")
    before, after = complete_template(text).split(SENTENCE)
    # The space before the sentence belongs to the sentence's first piece (`leading_space`).
    begin = (tokenizer.cls_token_id, *_pieces(tokenizer, before.rstrip()))
    end = (*_pieces(tokenizer, after), tokenizer.sep_token_id)
    # Only a byte-level tokenizer gives a word other pieces when a space stands before it.
    byte_level = piece_ids(tokenizer, ["a"]) != piece_ids(tokenizer, [" a"])
    return Template(
        begin,
        end,
        leading_space=byte_level and before.endswith(" "),
        mask_id=tokenizer.mask_token_id,
    )


def first_prompt(tokenizer: Any, encoder: str, text: str | None) -> Template:
    """The hard prompt `text`, or without one the published one of the first view."""
    return hard_prompt(tokenizer, text or published_templates(encoder)[0])


def running_prompt(tokenizer: Any, text: str) -> Template:
    """A prompt of a decoder in word pieces, behind what the tokenizer puts in front of a text.

    The pieces around the sentence are those of a running text (prompteol.md, section 2). text: with
    one {s}.
    """
    before, after = text.split(SENTENCE)
    # A letter stands for the sentence. A space in front of it belongs to the sentence.
    whole = tokenizer.backend_tokenizer.encode(f"{before}a{after}", add_special_tokens=False)
    pieces = [*zip(whole.ids, whole.offsets, strict=True)]
    begin = tuple(piece for piece, (_, stop) in pieces if stop <= len(before.rstrip()))
    end = tuple(piece for piece, (start, _) in pieces if start > len(before))
    bare, spaced = piece_ids(tokenizer, ["a", " a"])
    space = bare != spaced == whole.ids[len(begin) : len(whole.ids) - len(end)]
    return Template(Template.plain(tokenizer).begin + begin, end, leading_space=space)


def require_mask(tokenizer: Any, user: str) -> None:
    """Raise UserError when a tokenizer has no mask token. user: what needs it."""
    if tokenizer.mask_token_id is None:
        name = Path(tokenizer.name_or_path).name
        raise UserError(
            f'{user} needs a mask token, and encoder "{name}" has none: choose a masked language '
            f"model such as BERT, or another method"
        )


def _pieces(tokenizer: Any, text: str) -> tuple[int, ...]:
    """The word pieces of a part of a template, in which each [MASK] is one piece."""
    if MASK not in text:
        return tuple(piece_ids(tokenizer, [text])[0]) if text else ()
    before, after = text.split(MASK, maxsplit=1)
    # No space before the mask: a byte-level tokenizer would make it a piece of its own.
    return (
        *_pieces(tokenizer, before.rstrip()),
        tokenizer.mask_token_id,
        *_pieces(tokenizer, after),
    )


def rewrapped(batch: TextBatch, old: Template, new: Template, pad_id: int) -> TextBatch:
    """Take the sentences of a batch out of the template `old` and put them into `new`."""
    device, changed = batch.input_ids.device, len(new) - len(old)
    pieces = batch.attention_mask.sum(dim=1, keepdim=True) - len(old)
    host_mask = None
    if batch.room is None:
        lengths = batch.mask_on_host.numpy().sum(axis=1, keepdims=True) + changed
        width = int(lengths.max())
        host_mask = (torch.arange(width) < torch.from_numpy(lengths)).long()
    else:
        width = batch.input_ids.shape[1] + changed
    positions = torch.arange(width, device=device).expand(len(pieces), -1)
    # Positions counted from the sentence's first piece, and from the first piece behind it.
    inside = positions - len(new.begin)
    behind = inside - pieces
    source = (inside + len(old.begin)).clamp(0, batch.input_ids.shape[1] - 1)
    ids = batch.input_ids.gather(1, source)
    ids = torch.where(inside < 0, _looked_up(new.begin, positions), ids)
    ids = torch.where(behind >= 0, _looked_up(new.end, behind), ids)
    mask = (behind < len(new.end)).long()
    found = batch.replaced(torch.where(mask.bool(), ids, pad_id), mask, host_mask)
    return found if batch.room is None else replace(found, room=batch.room + changed * len(mask))


def _looked_up(pieces: tuple[int, ...], index: Tensor) -> Tensor:
    """pieces[index] for every element; an index that is out of range gives any piece."""
    table = constant(pieces or (0,), index.device)
    return table[index.clamp(0, len(pieces) - 1)]
