"""`harness watch`: shows the sweeps and trials that run on a store, wherever they run."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options

if TYPE_CHECKING:
    from rich.console import RenderableType

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
    import time

    from rich.live import Live

    from harness.cli.screen import Screen

    found, console = options.opened(store), Screen()
    if once or not sys.stdout.isatty():
        console.print(_view(found), soft_wrap=True)
        return
    with Live(console=console, auto_refresh=False, transient=False) as live:
        try:
            while True:
                live.update(_view(found), refresh=True)
                time.sleep(REFRESH_SECONDS)
        except KeyboardInterrupt:
            return


def _view(store: "Store") -> "RenderableType":
    from harness.sweep.screen.live_view import live_view
    from harness.sweep.screen.sweep_state import running_sweeps
    from harness.trials.running import running_trials

    sweeps, running = running_sweeps(store), running_trials(store)
    if not sweeps and not running:
        return f"Nothing runs on the store {store.place}; see `harness list trials`."
    return live_view(sweeps, running)
