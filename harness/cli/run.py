"""`harness run`: one configuration."""

from typing import Annotated

import typer

from harness.cli import options


def run(
    method: options.Method,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="A model's Hub name or folder.")
    ] = None,
    set_: options.Set = None,
    seed: Annotated[int, typer.Option("--seed", help="Of every random source.")] = 0,
    store: options.Store = None,
) -> None:
    """Train one configuration in this process, score it on dev and test, and store it.

    Example: harness run simcse --encoder tiny-bert --set suite=graded --set sentences=graded-sentences
    """
    from rich.console import Console

    from harness.cli.show import print_record
    from harness.plugin import registry
    from harness.trials.run import attempt
    from harness.trials.trial import Trial, key, resolve

    options.numbers(str(seed), "--seed")
    values = options.values(set_) | ({"encoder": encoder} if encoder else {})
    resolve(registry.load(method), values)
    trial = Trial(method, values, seed)
    found = options.opened(store)
    found.check_writable()
    record = found.get(key(trial))
    console = Console(highlight=False)
    if record is not None and record["status"] == "finished":
        console.print("Already in the store:")
    else:
        console.print(f"{trial.label}: {trial.config.model_dump()}", soft_wrap=True)
        record = attempt(
            trial,
            lambda now: console.print(
                f"step {now.step}/{now.total_steps}, loss {now.loss:.3f}, {now.sentences_per_second:.0f} sentences/s"
                + (f", dev {now.dev:.2f}" if now.dev is not None else "")
            ),
            found.weights(key(trial)),
        )
        found.write(record)
    print_record(record, console, method)
    if record["status"] != "finished":
        raise typer.Exit(1)
