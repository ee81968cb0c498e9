"""`harness plan`: what a sweep would do."""

from harness.cli import options


def plan(
    targets: options.Targets,
    set_: options.Set = None,
    encoder: options.Encoder = None,
    trials: options.Trials = None,
    seeds: options.Seeds = None,
    subsets: options.Subsets = None,
    store: options.Store = None,
    cpus_per_trial: options.Cpus = 1,
) -> None:
    """Show a sweep's resolved trials, what the store already has, and the estimated cost; runs nothing.

    Example: harness plan methods/d2cse search_spaces/unsup.yaml
    """
    import os
    import sys

    from rich import box
    from rich.console import Console
    from rich.table import Table

    from harness.sweep.plan import Line
    from harness.sweep.plan import plan as make
    from harness.sweep.terminal import duration

    searches = options.searches(targets, set_, encoder, trials, seeds, subsets)
    made = make(searches, options.opened(store))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("search", "round", "varied", "trials", "stored", "updates", "each"):
        table.add_column(
            column, justify="right" if column in ("trials", "stored", "updates", "each") else "left"
        )

    def cells(line: Line) -> list[str]:
        trials = "decided by the round before" if line.trials is None else str(line.trials)
        steps = "?" if line.steps is None else str(line.steps)
        return [
            line.search,
            line.round,
            "\n".join(f"{name}: {value}" for name, value in line.varied.items()),
            trials,
            str(line.stored),
            steps,
            "?" if line.seconds is None else duration(line.seconds),
        ]

    for line in made.lines:
        table.add_row(*cells(line))
    console.print(table)
    for search in searches:
        console.print(f"{search.label}: {_fixed(search.config.model_dump())}", soft_wrap=True)
    slots = max(1, int((os.cpu_count() or 1) / cpus_per_trial))
    seconds = made.seconds(slots)
    cost = (
        f"about {duration(seconds)}"
        if seconds is not None
        else "unknown (an encoder or corpus is not here)"
    )
    console.print(f"\n{made.to_run} trials to run; estimated time with {slots} at a time: {cost}")
    for sentence in made.missing:
        console.print(f"Not here yet: {sentence}", soft_wrap=True)


def _fixed(values: dict[str, object]) -> str:
    return ", ".join(
        f"{name}={value}" for name, value in values.items() if name not in ("setting", "encoder")
    )
