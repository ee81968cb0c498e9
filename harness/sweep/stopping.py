"""The end of a sweep that is interrupted: its running trials write their checkpoints first."""

import time
from collections.abc import Collection
from contextlib import suppress

from harness.claims import owner_of
from harness.trials.run import GIVE_WAY
from harness.trials.store import Store

PATIENCE_SECONDS = 60.0
"""Longest wait for the checkpoints; schedulers kill a job some minutes after their first signal"""
_POLL_SECONDS = 0.2
"""Time between two looks"""


def let_give_way(store: Store, keys: Collection[str]) -> None:
    """Ask the trials with these keys to give way, and wait until they have, at most a minute.

    A trial that does not train at the moment, for example because it is being tested, is not
    waited for longer than that.
    """
    left = [key for key in keys if owner_of(store.claim(key)) is not None]
    for key in left:
        with suppress(OSError):  # it ended this moment, or the disk is full
            (store.running(key) / GIVE_WAY).touch()
    until = time.monotonic() + PATIENCE_SECONDS
    while left and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        left = [key for key in left if owner_of(store.claim(key)) is not None]
