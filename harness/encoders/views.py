"""Two views of a sentence that are the same teach nothing, so they are refused."""

from torch import Tensor

from harness.data.batching import TextBatch
from harness.encoders.reach import Reach
from harness.errors import UserError

SMALLEST = 0.01
"""The least difference between two views, as a share of their length.

Rounding in bf16 makes less, and a dropout of 0.001 makes more."""


def check_views(name: str, states: Tensor, batch: TextBatch, reach: Reach) -> None:
    """Raise UserError when the copies of each row of a batch came out of an encoder as equals.

    name: of the encoder. states: (rows, length, H), or (rows, 1, H) of one position. The CPU waits
    here for a GPU, so this is for the first pass alone.
    """
    prefix, mixture = reach.get("prefix"), reach.get("mixture")
    given = [*(prefix.keys[:1] if prefix else ()), *([] if mixture is None else [mixture])]
    # Views that meet other prompts or modules are other views, if only by a little.
    if any(not one.equal(other) for one, other in (_copies(each, batch) for each in given)):
        return
    real = states.detach().float()
    if states.shape[1] > 1:
        real = real * batch.attention_mask[:, :, None]
    one, other = _copies(real, batch)
    if (one - other).norm() < SMALLEST * one.norm():
        raise UserError(
            f'two views of a sentence are the same in encoder "{name}", which drops nothing at '
            f"random: set encoder_dropout, for example to 0.1, or train on labelled data"
        )


def _copies(values: Tensor, batch: TextBatch) -> tuple[Tensor, Tensor]:
    """The values of the first two copies of each row, (rows / copies, ...)."""
    by_row = values.view(-1, batch.copies, *values.shape[1:])
    return by_row[:, 0], by_row[:, 1]
