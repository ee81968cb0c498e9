"""Brings the records of several stores together in one of them.

A trial that several machines ran is compared: of two results of one key the one that is there first
stays, and another result is named. What has finished goes before what has not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import UserError
from harness.files import content_digest
from harness.steps import Steps, unheard
from harness.trials.record import RANK, Record, record_of
from harness.trials.store import LAST_CHARACTER, Store
from harness.trials.store_folders import WEIGHTS_SUFFIX


@dataclass(frozen=True)
class Conflict:
    """Two stores with different results of one trial."""

    key: str
    store: str
    """The store whose result is not taken"""
    difference: str
    """The first difference"""


@dataclass
class Merged:
    """The outcome of a merge."""

    new: int = 0
    """Records that the store did not have, or had only unfinished"""
    known: int = 0
    """Records that it had already"""
    conflicts: list[Conflict] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    """(name in a source, reason) of what could not be read, and so is not in the store"""


def merge(sources: Sequence[Store], into: Store, steps: Steps = unheard) -> Merged:
    """Write what the sources have and `into` has not; the sources stay as they are.

    The trained weights of new records come along where they are kept. A merge that is stopped is
    simply done again. steps: hears how many records of a source are merged, and how many files of
    weights. Raises UserError when `into` cannot be written.
    """
    into.check_writable()
    merged = Merged()
    for source in sources:
        reading = source.read(())
        damaged = dict(reading.unreadable)
        heard = partial(steps, f"merging records of {source.place}", total=reading.table.num_rows)
        taken = set[str]()
        finished = _new_finished(source, into, damaged, taken)
        if first := next(finished, None):  # all of them may be damaged
            into.add(chain([first], finished))
        heard(done := len(taken))
        for part in _parts(source, damaged):
            part = part.filter(pc.invert(pc.is_in(part["key"], pa.array([*taken], pa.string()))))
            _compare(source, into, part, merged, taken)
            heard(done := done + part.num_rows)
        _take_files(source, into, steps)
        merged.new += len(taken)
        merged.unreadable += sorted(damaged.items())
    return merged


def _parts(store: Store, damaged: dict[str, str]) -> Iterator[pa.Table]:
    """The rows in the order of their keys, a part at a time, so that any store fits.

    damaged: gets the name and the reason of what cannot be read.
    """
    for digit in "0123456789abcdef":
        reading = store.read(between=(digit, digit + LAST_CHARACTER))
        # Of a damaged row, the key may be all that can be read.
        damaged.update(reading.unreadable)
        if reading.table.num_rows:
            yield reading.table.sort_by("key")


def _new_finished(
    source: Store, into: Store, damaged: dict[str, str], taken: set[str]
) -> Iterator[pa.Table]:
    """Finished records that `into` has not; `taken` gets their keys."""
    ours = into.read(()).table["key"]
    for part in _parts(source, damaged):
        new = pc.and_(pc.equal(part["status"], "finished"), pc.invert(pc.is_in(part["key"], ours)))
        part = part.filter(new)
        taken.update(part["key"].to_pylist())
        if part.num_rows:
            yield part


def _compare(source: Store, into: Store, part: pa.Table, merged: Merged, taken: set[str]) -> None:
    """Take what has finished in the source alone, and name what has finished differently."""
    if not part.num_rows:
        return
    first, last = part["key"][0].as_py(), part["key"][-1].as_py()
    stored = into.read(between=(first, last)).table
    stored = stored.filter(pc.is_in(stored["key"], part["key"]))
    ours = {row["key"]: record_of(row) for row in stored.to_pylist()}
    for theirs in map(record_of, part.to_pylist()):
        mine = ours.get(theirs.key)  # None: it is new, or ours is damaged
        if mine is None or RANK[theirs.status] > RANK[mine.status]:
            into.write(theirs)
            taken.add(theirs.key)
            continue
        merged.known += 1
        if theirs.finished and (name := mine.difference(theirs)):
            shown = _shown(name, mine, theirs)
            merged.conflicts.append(Conflict(mine.key, source.place, shown))


def _shown(name: str, ours: Record, theirs: Record) -> str:
    """The difference of two results, with the two values where they are numbers."""
    one, other = getattr(ours, name), getattr(theirs, name)
    if name in ("dev", "test", "details"):
        for metric in sorted(one.keys() | other.keys()):
            if one.get(metric) != other.get(metric):
                return f"{name} {metric} is {one.get(metric)} here and {other.get(metric)} there"
    if name in ("history", "uncertainty"):
        return f"its {name} is another one"
    return f"{name} is {one} here and {other} there"


def _take_files(source: Store, into: Store, steps: Steps) -> None:
    """Copy the kept weights that the records of both stores name, where `into` lacks them.

    An earlier merge may have been stopped before them. The kept cosines of test pairs come, too;
    whoever compares checks them by their scores.
    """
    theirs, ours = _digests(source), _digests(into)
    same = {key: digest for key, digest in theirs.items() if ours.get(key, "") == digest}
    new = sorted(source.kept_names() - into.kept_names())
    names = [name for name in new if name.partition(".")[0] in same]
    for done, name in enumerate(names):
        steps(f"copying the weights of {source.place}", done, len(names))
        path = source.kept(name)
        of_weights = path.suffix == WEIGHTS_SUFFIX
        if path.is_file() and (not of_weights or content_digest(path) == same[path.stem]):
            into.keep(name, path)


def _digests(store: Store) -> dict[str, str | None]:
    """Key -> the digest of the weights that a record names."""
    table = store.read(("weights_digest",)).table
    return dict(zip(*(table[name].to_pylist() for name in ("key", "weights_digest")), strict=True))


def check_places(sources: Sequence[Store], into: Store) -> None:
    """Raises UserError for a source without a store, and for one that is the target."""
    for source in sources:
        if source.address == into.address:
            raise UserError(f"{source.place} is both merged and merged into")
        if not Path(source.folder).is_dir() and not source.read(()).table.num_rows:
            raise UserError(f"there is no store {source.place}")
