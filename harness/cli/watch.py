"""Running trials and what they have printed: `harness watch` and `harness logs`."""

import codecs
import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.live import Live

from harness.cli import completion, options
from harness.cli.output import Screen, echo
from harness.errors import UserError
from harness.inputs import opened_itself, why
from harness.sweeps.screen.live_view import live_view, running_sweeps
from harness.targets.stores import opened
from harness.trials.output import printable
from harness.trials.running import running_trials
from harness.trials.store import Store

REFRESH_SECONDS = 2.0
"""Time between two looks at the store"""


def watch(
    store: options.StoreOption = None,
    once: Annotated[bool, typer.Option("--once", help="Print what runs now, and stop.")] = False,
) -> None:
    """Show what runs on a store: trials with their dev curves, cost so far, and time left.

    It reads the store alone, so it also shows what runs on other machines that share the folder.
    Ctrl-C stops the watching, and nothing else.

    Example: harness watch --store /shared/trials
    """
    results, console = opened(store), Screen()
    if once or not sys.stdout.isatty():
        console.say(_view(results))
        return
    with Live(console=console, auto_refresh=False, transient=False) as live:
        try:
            while True:
                live.update(_view(results), refresh=True)
                time.sleep(REFRESH_SECONDS)
        except KeyboardInterrupt:
            return


def _view(store: Store) -> RenderableType:
    sweeps, running = running_sweeps(store), running_trials(store)
    if not sweeps and not running:
        return f"Nothing runs on the store {store.place}; see `harness list trials`."
    return live_view(sweeps, running)


GROWTH_SECONDS = 1.0
"""Time between two looks at a log that grows"""
PIECE = 2**20
"""Bytes of a log that are printed at a time; a stranger's may have any number"""


def logs(
    key: Annotated[
        str,
        typer.Argument(
            help="A trial's key or its first characters (`harness list trials`).",
            autocompletion=completion.keys,
        ),
    ],
    store: options.StoreOption = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on as long as the trial runs.")
    ] = False,
) -> None:
    """Print what a trial has printed, with its warnings, in all of its attempts.

    Example: harness logs 3f2a --follow
    """
    results = opened(store)
    for text in _texts(_whole_key(key, results), results, follow=follow):
        echo(text, nl=False)


def _whole_key(prefix: str, store: Store) -> str:
    """The key of the one trial with a log whose key starts with `prefix`.

    Raises UserError when there is none, or when there are several.
    """
    keys = sorted(each for each in store.logged() if each.startswith(prefix))
    if len(keys) > 1:
        shown = ", ".join(each[: len(prefix) + 4] for each in keys[:5])
        raise UserError(
            f'{len(keys)} trials with a log have keys that start with "{prefix}": {shown}; '
            "give more characters"
        )
    if not keys:
        record = store.find(prefix)
        raise UserError(
            f"the trial {record.key[:10]} has no log in {store.place}: it printed before logs were "
            "kept, or elsewhere, or `harness clean` has removed it"
        )
    return keys[0]


def _texts(key: str, store: Store, *, follow: bool) -> Iterator[str]:
    """The output of a trial as a terminal may show it, and with `follow` what is still added."""
    decoder, path, position = codecs.getincrementaldecoder("utf-8")("replace"), None, 0
    while True:
        # It is asked before the log is read, so that nothing is missed at the end.
        runs = follow and store.owner(key) is not None
        path = store.kept_log(key) if path is None or not runs else path
        try:
            with opened_itself(path) as file:
                # A new attempt shortens a long log.
                file.seek(position if file.seek(0, 2) >= position else 0)
                while piece := file.read(PIECE):
                    yield printable(decoder.decode(piece))
                position = file.tell()
        except FileNotFoundError:
            pass  # it has not printed anything yet
        except OSError as error:
            raise UserError(f"the log {path} cannot be read: {why(error)}") from None
        if not runs:
            return
        time.sleep(GROWTH_SECONDS)
