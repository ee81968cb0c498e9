"""The actor through which Ray's dashboard lists trials under their names.

A worker runs many trials one after the other, and Tune names neither workers nor their tasks. So
this actor has a task for each trial, with the name of the trial, which does nothing but wait until
the trial has ended. It imports nothing of harness, so that it takes little memory.
"""

import asyncio
from collections import defaultdict


class TrialTasks:
    """One task for each trial that runs; a task fails when its trial fails."""

    def __init__(self) -> None:
        self._ended: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self._reasons: dict[int, str] = {}

    async def run(self, number: int) -> None:
        """Wait until trial `number` has ended. Raises RuntimeError with its reason, if any."""
        await self._ended[number].wait()
        del self._ended[number]
        if reason := self._reasons.pop(number, None):
            raise RuntimeError(reason)

    async def end(self, number: int, reason: str | None) -> None:
        """Trial `number` has ended. `reason`: why it has failed; None when it has not."""
        if reason is not None:
            self._reasons[number] = reason
        self._ended[number].set()
