"""Cost of trials: steps, and seconds on a device, as estimated or as the store's trials took."""

import json
import operator
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from harness.errors import UserError
from harness.sweeps.devices import NOTHING, UNKNOWN, Bounds, Device, beside, joined, seconds_of
from harness.sweeps.operations import Part, parts_of_trial
from harness.sweeps.spaces.search import Search
from harness.trials.store import Store, rows_with
from harness.trials.trial import Trial

_COLUMNS = (
    "method", "encoder", "setting", "role", "configuration", "seed", "wall_seconds", "host",
    "device",
)  # fmt: skip
RECENT = 6
"""Trials of the store that are looked at for each kind"""
SPREAD = 1.15
"""Factor, up and down, by which a trial may differ from the store's at least"""


@dataclass(frozen=True)
class Price:
    """Cost of some trials, unknown where a model or a corpus is not here."""

    steps: Bounds
    seconds: Bounds
    """On the device that was asked for"""
    elsewhere: Bounds
    """Seconds on the other device"""
    measured: bool = False
    """Whether the seconds follow from trials of the store"""

    @property
    def bounds(self) -> tuple[Bounds, Bounds, Bounds]:
        """Its parts, in their order."""
        return self.steps, self.seconds, self.elsewhere

    def __add__(self, other: "Price") -> "Price":
        steps, seconds, elsewhere = map(operator.add, self.bounds, other.bounds)
        return Price(steps, seconds, elsewhere, self.measured and other.measured)

    def times(self, least: float, most: float) -> "Price":
        """The price of so many trials of the kind."""
        steps, seconds, elsewhere = (part.times(least, most) for part in self.bounds)
        return Price(steps, seconds, elsewhere, self.measured)

    def within(self, seconds: float) -> "Price":
        """The price of the trials for which so many seconds suffice."""
        shorter = [
            Bounds(min(part.least, seconds), min(part.most, seconds))
            for part in (self.seconds, self.elsewhere)
        ]
        return replace(self, seconds=shorter[0], elsewhere=shorter[1])


FREE = Price(NOTHING, NOTHING, NOTHING, measured=True)


def spanned(prices: Sequence[Price]) -> Price:
    """From the cheapest to the dearest of several trials, of which there is one at least."""
    steps, seconds, elsewhere = map(joined, zip(*(each.bounds for each in prices), strict=True))
    return Price(steps, seconds, elsewhere, all(each.measured for each in prices))


def _steps_alone(trial: Trial) -> Price:
    """The price of a trial on a model whose sizes are not known."""
    steps = trial.declared.steps
    return Price(UNKNOWN if steps is None else Bounds(steps, steps), UNKNOWN, UNKNOWN)


class Prices:
    """The prices of trials on one device, and beside it on another."""

    def __init__(
        self,
        searches: Iterable[Search],
        store: Store,
        device: Device | None,
        other: Device | None,
        cores: float,
    ) -> None:
        """device: None where none is known. cores: CPU cores of a trial."""
        self.device, self.other, self.cores = device, other, cores
        names = sorted({search.name for search in searches})
        self._finished = store.read(_COLUMNS, {"status": ["finished"], "method": names}).table
        self._factors: dict[tuple[str, ...], Bounds] = {}
        self._made: dict[str, Part] = {}
        """Name of a shared part -> the part, as an earlier line of the plan makes it"""

    def of(self, trial: Trial) -> Price:
        """The price of a trial that shares nothing."""
        if (parts := parts_of_trial(trial)) is None:
            return _steps_alone(trial)
        return self._price(trial, parts)

    def operations(self, trial: Trial) -> float | None:
        """The operations of a trial; None: not known."""
        if (parts := parts_of_trial(trial)) is None:
            return None
        return sum(part.work for part in parts)

    def of_all(self, trials: Iterable[Trial]) -> Price:
        """The price of trials, of which what they share is paid once, for the longest of them."""
        whole, longest = FREE, dict[str, tuple[Trial, Part]]()
        for trial in trials:
            if (parts := parts_of_trial(trial)) is None:
                whole += _steps_alone(trial)
                continue
            for part in parts:
                before = longest.get(part.shared)
                if part.shared and (before is None or part.work > before[1].work):
                    longest[part.shared] = trial, part
            whole += self._price(trial, [part for part in parts if not part.shared])
        for name, (trial, part) in longest.items():
            rest = part.without(self._made.get(name, Part()))
            if rest.work > 0:
                whole += self._price(trial, [rest], whole=False)
                self._made[name] = part
        return whole

    def _price(self, trial: Trial, parts: Sequence[Part], *, whole: bool = True) -> Price:
        """whole: whether there is also what a trial takes beside its work."""
        least = [replace(part, operations=part.operations * part.least,
                         steps=int(part.steps * part.least)) for part in parts]  # fmt: skip
        steps = Bounds(sum(part.steps for part in least), sum(part.steps for part in parts))

        def on(device: Device | None) -> Bounds:
            if device is None:
                return UNKNOWN
            fewest, most = (seconds_of(trial, each, device, self.cores) for each in (least, parts))
            return Bounds(fewest.least, most.most) + (beside(device) if whole else NOTHING)

        seconds, factor = on(self.device), self._factor(trial)
        # What is known of a trial of the kind includes that it may end early.
        if factor.known:
            seconds = Bounds(seconds.middle * factor.least, seconds.middle * factor.most)
        return Price(steps, seconds, on(self.other), factor.known)

    def _factor(self, trial: Trial) -> Bounds:
        """The seconds of the store's trials of this kind over their estimates, if it has any.

        They are of the same method, setting and encoder, and ran on the device.
        """
        kind = (trial.declared.name, trial.config.setting, trial.config.encoder)
        if kind not in self._factors:
            self._factors[kind] = UNKNOWN  # not for the trials of the store themselves
            if ratios := list(islice(self._ratios(trial.method, *kind), RECENT)):
                self._factors[kind] = Bounds(min(ratios) / SPREAD, max(ratios) * SPREAD)
        return self._factors[kind]

    def _ratios(self, plugin: str, name: str, setting: str, encoder: str) -> Iterator[float]:
        """The seconds of each trial of a kind over their estimate, the last one first."""
        kind = {"method": [name], "setting": [setting], "encoder": [encoder]}
        for row in reversed(rows_with(self._finished, kind).to_pylist()):
            if not self._ran_there(row) or not row["wall_seconds"]:
                continue
            try:
                stored = Trial(plugin, json.loads(row["configuration"]), row["seed"], row["role"])
            except (UserError, ValueError):
                continue  # of another version of the method
            estimate = self.of(stored).seconds
            if estimate.known:
                yield row["wall_seconds"] / estimate.middle

    def _ran_there(self, row: dict[str, Any]) -> bool:
        """Whether a trial ran on the device, and on a CPU also on this machine."""
        assert self.device is not None
        if self.device.is_gpu:
            return self.device.name in (row["device"] or "").lower().split()
        return bool(row["host"] == platform.node() and (row["device"] or "").startswith("cpu"))
