"""The options of a sweep on the command line, of which each verb takes what it needs."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from harness.cli import completion
from harness.cli.options import SetOption, StoreOption, TrackOption, set_values
from harness.targets.options import SweepOptions

P = ParamSpec("P")


def sweep_options(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names or paths of methods (without any: all methods of the space), then the "
            "search space (a name from `harness list spaces`, or a YAML file). With --paper: "
            "methods only.",
            autocompletion=completion.targets,
        ),
    ] = None,
    set_: SetOption = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            "--encoder",
            help="An encoder to use instead of the encoders of the space.",
            autocompletion=completion.encoders,
        ),
    ] = None,
    configurations: Annotated[
        int | None,
        typer.Option(
            "--configurations", help="At most so many configurations per search and round."
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds",
            metavar="0,1,2",
            help="Seeds to use instead of the final seeds of the space.",
        ),
    ] = None,
    subsets: Annotated[
        str | None,
        typer.Option(
            "--subsets",
            metavar="0,1,2",
            help="Label subsets to use instead of the final ones of the space.",
        ),
    ] = None,
    published: Annotated[
        bool,
        typer.Option(
            "--published",
            help="Do not search: give the papers' own values, and each variant, the final seeds.",
        ),
    ] = False,
    paper: Annotated[
        str | None,
        typer.Option(
            "--paper",
            metavar="P",
            help="Run what a published table of this paper still lacks: clsr, d2cse, dcpcse, "
            "diffaug or diffcse. With --table.",
        ),
    ] = None,
    table: Annotated[
        int | None, typer.Option("--table", metavar="N", min=1, help="The number of the table.")
    ] = None,
    store: StoreOption = None,
    cpus_per_trial: Annotated[
        float, typer.Option("--cpus-per-trial", help="CPU cores of one trial.")
    ] = 1,
    gpus_per_trial: Annotated[
        str | None,
        typer.Option(
            "--gpus-per-trial",
            metavar="NUMBER|auto",
            help="GPUs of one trial; trials share a GPU when it is a fraction. With `auto`, the "
            "measured memory of the first trial decides how many trials share one. Default: 1 "
            "where there are GPUs.",
        ),
    ] = None,
    memory_per_trial: Annotated[
        float | None,
        typer.Option(
            "--memory-per-trial",
            metavar="GIB",
            help="Host memory of one trial in GiB; a trial that takes more fails. Default: what "
            "the machine has.",
        ),
    ] = None,
    trial_timeout: Annotated[
        str | None,
        typer.Option(
            "--trial-timeout",
            metavar="DURATION",
            help="The longest that one trial may take, such as 90s, 30m or 2h; a trial that takes "
            "longer fails.",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="Run on this Ray cluster; `auto` is the one of this machine. Default: "
            "RAY_ADDRESS, or else a Ray of the sweep's own.",
        ),
    ] = None,
    dashboard: Annotated[
        bool | None,
        typer.Option(
            "--dashboard/--no-dashboard",
            help="Show the trials in Ray's dashboard, and print its address. Default: only on a "
            "cluster.",
        ),
    ] = None,
    track: TrackOption = None,
    local: Annotated[
        bool | None,
        typer.Option(
            "--local/--no-local",
            help="Run the trials in this process, one after the other, without Ray. Default: "
            "where one trial runs at a time, and for short sweeps.",
        ),
    ] = None,
) -> SweepOptions:
    """The options of a sweep as the command line gives them; the verbs have a part of them."""
    of_table = paper is not None or table is not None
    *methods, space = targets if targets and not of_table else [*(targets or ()), None]
    return SweepOptions(
        space=space,
        methods=[name for name in methods if name is not None],
        paper=paper,
        table=table,
        encoders=encoder or (),
        values=set_values(set_),
        configurations=configurations,
        seeds=seeds or (),
        subsets=subsets or (),
        published=published,
        store=store,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial=gpus_per_trial,
        memory_per_trial=memory_per_trial,
        trial_timeout=trial_timeout,
        address=address,
        dashboard=dashboard,
        track=track,
        local=local,
    )


def with_sweep_options(
    *names: str,
) -> Callable[[Callable[Concatenate[SweepOptions, P], None]], Callable[..., None]]:
    """A decorator that gives a verb these parameters of `sweep_options` in front of its own.

    The verb is called with the SweepOptions that they make.
    """
    shared = inspect.signature(sweep_options).parameters

    def decorate(verb: Callable[Concatenate[SweepOptions, P], None]) -> Callable[..., None]:
        _, *own = inspect.signature(verb).parameters.values()

        @functools.wraps(verb)
        def command(**texts: Any) -> None:
            options = sweep_options(**{name: texts.pop(name) for name in names})
            verb(options, **texts)  # type: ignore[call-arg]

        parameters = (*(shared[name] for name in names), *own)
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        )
        return command

    return decorate
