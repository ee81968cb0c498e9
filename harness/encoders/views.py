"""Two views of a sentence that are the same teach nothing, so they are refused."""

from torch import Tensor

from harness.data.batching import TextBatch
from harness.errors import UserError

SMALLEST = 0.01
"""The least mean difference between two views, as a share of their size.

Rounding in bf16 makes less; a dropout of 0.001 makes more."""


def check_views(name: str, states: Tensor, batch: TextBatch) -> None:
    """Raise UserError when the copies of each row of a batch came out of an encoder as equals.

    name: of the encoder. states: (rows, length, H), or (rows, 1, H) of one position. The CPU waits
    here for a GPU, so this is for the first pass alone.
    """
    real = states.detach().float()
    if states.shape[1] > 1:
        real = real * batch.attention_mask[:, :, None]
    first, second = real.view(-1, batch.copies, *real.shape[1:])[:, :2].unbind(1)
    if (first - second).norm() < SMALLEST * first.norm():
        raise UserError(
            f'two views of a sentence are the same in encoder "{name}", which drops nothing at '
            f"random: set encoder_dropout, for example to 0.1, or train on labelled data"
        )
