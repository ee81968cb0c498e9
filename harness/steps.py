"""The steps of what takes long, as a function tells them to whoever waits for it."""

from typing import Protocol


class Steps(Protocol):
    """Hears what is being done, and how far it is."""

    def __call__(self, step: str, done: int = 0, total: int = 0) -> None:
        """Hear of a step.

        step: in words, which stay the same while it goes on. done, total: how many of its
        items are done, and of how many; 0 where nothing is counted.
        """


def unheard(step: str, done: int = 0, total: int = 0) -> None:
    """Hear of a step, and tell nobody."""


def prefixed(prefix: str, steps: Steps) -> Steps:
    """Steps with a prefix in front, for one of several things of a kind."""
    return lambda step, done=0, total=0: steps(f"{prefix}: {step}", done, total)
