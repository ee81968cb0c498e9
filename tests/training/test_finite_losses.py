"""A loss that is not finite is named with its step and its stage."""

import math

import pytest
import torch

from harness.errors import TrialFailure
from harness.plugin.stage import Stage
from harness.training.finite_losses import FiniteLosses

ONE = Stage("one", {}, {}, {"first": 1.0})
TWO = Stage("two", {}, {}, {"first": 1.0, "second": 0.5})


def note(watch: FiniteLosses, stage: Stage, step: int, *values: float) -> None:
    losses = dict(zip(stage.losses, map(torch.tensor, values), strict=True))
    watch.note(stage, step, losses)


def test_at_once_the_step_itself_fails() -> None:
    watch = FiniteLosses(at_once=True)
    note(watch, TWO, 1, 0.5, 2.0)
    with pytest.raises(TrialFailure) as failure:
        note(watch, TWO, 2, 0.5, math.inf)
    assert str(failure.value) == 'the loss "second" is inf in step 2 (stage "two")'


def test_read_later_the_first_bad_step_is_named() -> None:
    """As on a GPU: the numbers of many steps are read together."""
    watch = FiniteLosses(at_once=False)
    note(watch, ONE, 1, 0.5)
    watch.check()
    note(watch, ONE, 2, 0.5)
    note(watch, TWO, 3, 1.0, math.nan)
    note(watch, TWO, 4, math.nan, math.nan)
    with pytest.raises(TrialFailure) as failure:
        watch.check()
    assert str(failure.value) == 'the loss "second" is nan in step 3 (stage "two")'


def test_what_was_read_is_not_read_again() -> None:
    watch = FiniteLosses(at_once=False)
    watch.check()
    note(watch, ONE, 1, 0.5)
    watch.check()
    watch.check()
