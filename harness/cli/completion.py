"""Words that a shell offers while a command is typed: methods, spaces, encoders and keys."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from harness.errors import UserError

Offers = list[tuple[str, str]]
"""A word, and what it means"""


def _offered(
    words: Callable[[Any], Iterable[tuple[str, str]]], *, paths: bool = False
) -> Callable[[Any, str], Offers]:
    """A callback for Typer's `autocompletion`; a shell shows nothing where a mistake is met.

    words: gives them for a context of Typer, with their meanings. paths: whether files and folders
    are offered, too.
    """

    def offer(ctx: Any, incomplete: str) -> Offers:
        offers: Offers = []
        with suppress(UserError, OSError):
            offers += [pair for pair in words(ctx) if pair[0].startswith(incomplete)]
        if paths and incomplete:
            with suppress(OSError):
                offers += _paths(incomplete)
        return offers

    return offer


def _paths(incomplete: str) -> Iterable[tuple[str, str]]:
    """The files and folders whose paths begin like this."""
    folder, slash, name = incomplete.rpartition("/")
    with os.scandir(f"{folder}{slash}" or ".") as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.startswith(name):
                yield f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}", ""


def _methods(_: Any) -> Iterable[tuple[str, str]]:
    from harness.plugin import registry

    for name, source in sorted(registry.sources().items()):
        yield name, " ".join(registry.docstring_line(source).split())


def _spaces(_: Any) -> Iterable[tuple[str, str]]:
    from harness.sweeps.spaces.overrides import shipped_spaces

    return ((name, "a search space") for name in shipped_spaces())


def _encoders(_: Any) -> Iterable[tuple[str, str]]:
    from harness.data.hub import known

    return ((name, "") for name in known("models"))


def _keys(ctx: Any) -> Iterable[tuple[str, str]]:
    """The trials of the store that `--store` names."""
    from harness.targets.stores import opened

    columns = ("key", "role", "method", "setting", "encoder", "seed")
    for row in opened(ctx.params.get("store")).read(columns).table.to_pylist():
        yield row["key"][:10], "{role}: {method} {setting} {encoder} seed {seed}".format_map(row)


def _papers(_: Any) -> Iterable[tuple[str, str]]:
    from harness.report.papers import papers

    return ((name, "a paper") for name in papers())


papers = _offered(_papers, paths=True)
methods = _offered(_methods, paths=True)
targets = _offered(lambda ctx: [*_methods(ctx), *_spaces(ctx)], paths=True)
encoders = _offered(_encoders)
keys = _offered(_keys)
models = _offered(lambda ctx: [*_encoders(ctx), *_keys(ctx)], paths=True)
shown = _offered(lambda ctx: [*_methods(ctx), *_keys(ctx)], paths=True)
