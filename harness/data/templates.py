"""Hard prompts: what stands around a sentence when its embedding is the state at a mask."""

from typing import Annotated, Any

import torch
from pydantic import AfterValidator
from torch import Tensor

from harness.data.batching import TextBatch
from harness.data.hub import model_shape
from harness.data.tokens import Template, piece_ids

SENTENCE, MASK = "{s}", "[MASK]"
PUBLISHED = {
    "bert": ('This sentence of "{s}" means [MASK].', 'This sentence : "{s}" means [MASK].'),
    "roberta": ("This sentence : ' {s} ' means [MASK].", "The sentence : ' {s} ' means [MASK]."),
}


def published_templates(encoder: str) -> tuple[str, str]:
    """PromptBERT's for the first and the second view (promptbert.md, section 1); DiffAug has the first for both."""
    return PUBLISHED["roberta" if "roberta" in model_shape(encoder)["model_type"] else "bert"]


def _complete(text: str) -> str:
    if text.count(SENTENCE) != 1 or text.count(MASK) != 1:
        raise ValueError(f"a template has one {SENTENCE} and one {MASK}")
    return text


TemplateText = Annotated[str, AfterValidator(_complete)]
"""A hard prompt as configurations hold it, such as `This sentence of "{s}" means [MASK].`"""


def hard_prompt(tokenizer: Any, text: str) -> Template:
    """A `TemplateText` in word pieces, special tokens included; [MASK] stands for the tokenizer's own mask token.

    There is no space before the mask: a byte-level tokenizer would make it a piece of its own. Raises ValueError
    unless there are one {s} and one [MASK].
    """
    before, after = _complete(text).split(SENTENCE)
    begin = (tokenizer.cls_token_id, *_pieces(tokenizer, before.rstrip()))
    end = (*_pieces(tokenizer, after), tokenizer.sep_token_id)
    byte_level = piece_ids(tokenizer, ["a"]) != piece_ids(tokenizer, [" a"])
    return Template(
        begin,
        end,
        leading_space=byte_level and before.endswith(" "),
        mask_id=tokenizer.mask_token_id,
    )


def _pieces(tokenizer: Any, text: str) -> tuple[int, ...]:
    """Word pieces, with [MASK] as one."""
    if MASK not in text:
        return tuple(piece_ids(tokenizer, [text])[0]) if text else ()
    before, after = text.split(MASK)
    return (
        *_pieces(tokenizer, before.rstrip()),
        tokenizer.mask_token_id,
        *_pieces(tokenizer, after),
    )


def rewrapped(batch: TextBatch, old: Template, new: Template, pad_id: int) -> TextBatch:
    """The same sentences in another template."""
    device = batch.input_ids.device
    pieces = batch.attention_mask.sum(dim=1, keepdim=True) - len(old)
    place = torch.arange(int(pieces.max()) + len(new), device=device).expand(len(pieces), -1)
    inside = place - len(new.begin)
    behind = inside - pieces
    source = (inside + len(old.begin)).clamp(0, batch.input_ids.shape[1] - 1)
    ids = batch.input_ids.gather(1, source)
    ids = torch.where(inside < 0, _looked_up(new.begin, place), ids)
    ids = torch.where(behind >= 0, _looked_up(new.end, behind), ids)
    mask = (behind < len(new.end)).long()
    return batch.replaced(torch.where(mask.bool(), ids, pad_id), mask)


def _looked_up(pieces: tuple[int, ...], index: Tensor) -> Tensor:
    table = torch.tensor(pieces, device=index.device)
    return table[index.clamp(0, len(pieces) - 1)]
