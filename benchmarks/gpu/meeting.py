"""Meeting point at which the forward passes of several trials wait for one another."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fused_pass import FusedEncoder, RandomState, Request
from torch import Tensor


class Meeting:
    """Meeting point of the passes of several trials, each in a thread of its own.

    One trial runs at a time, with its own random numbers. The last one that asks runs the pass.
    """

    def __init__(self, encoder: FusedEncoder, states: Sequence[RandomState]) -> None:
        self.encoder, self.states = encoder, states
        self._turn, self._changed = 0, threading.Condition()
        self._asked: list[Request] = []
        self._found: list[Any] = []
        self._failed: int | None = None
        """The first trial that could not go on"""

    def run(self, computations: Sequence[Callable[[], Tensor]]) -> list[Tensor]:
        """The results of the trials' computations, in which they meet."""
        self._turn, self._failed = 0, None
        with ThreadPoolExecutor(len(computations)) as threads:
            futures = [
                threads.submit(self._one, number, computation)
                for number, computation in enumerate(computations)
            ]
        if self._failed is not None:
            futures[self._failed].result()  # raises what the trial has raised
        return [future.result() for future in futures]

    def _one(self, number: int, computation: Callable[[], Tensor]) -> Tensor:
        ended = False
        try:
            self._wait(number)
            result = computation()
            self._leave(number)
            ended = True
            return result
        finally:
            if not ended:  # the others must not wait for it
                with self._changed:
                    self._failed = number if self._failed is None else self._failed
                    self._changed.notify_all()

    def ask(self, number: int, request: Request) -> Any:
        """The answer of the encoder to a trial's request."""
        self._asked.append(request)
        last = number == len(self.states) - 1
        if last:
            self.states[number].keep()
            self._found, self._asked = self.encoder(self._asked), []
            self.states[number].use()
        self._leave(number)
        self._wait(number)
        return self._found[number]

    def _wait(self, number: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._failed is not None or self._turn == number)
            if self._failed is not None:
                raise RuntimeError("another trial failed")
        self.states[number].use()

    def _leave(self, number: int) -> None:
        self.states[number].keep()
        with self._changed:
            self._turn = (number + 1) % len(self.states)
            self._changed.notify_all()
