"""The options of a sweep on the command line, of which each verb takes what it needs."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec, get_type_hints

import typer

from harness.cli import completion
from harness.cli.options import PaperOption, SetOption, StoreOption, TrackOption, set_values
from harness.sweeps.spaces.overrides import whole_numbers
from harness.targets.options import SweepOptions

P = ParamSpec("P")


class Declared:
    """The options by their names, as Typer reads them; those of SweepOptions but for the first."""

    targets: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names or paths of methods (without any: all methods of the space), then the "
            "search space (a name from `harness list spaces`, or a YAML file). With --paper: "
            "methods only.",
            autocompletion=completion.targets,
        ),
    ] = None
    set_: SetOption = None
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            help="An encoder to use instead of the encoders of the space.",
            autocompletion=completion.encoders,
        ),
    ] = None
    configurations: Annotated[
        int | None, typer.Option(help="At most so many configurations per search and round.")
    ] = None
    seeds: Annotated[
        str | None,
        typer.Option(metavar="0,1,2", help="Seeds to use instead of the final seeds of the space."),
    ] = None
    subsets: Annotated[
        str | None,
        typer.Option(
            metavar="0,1,2", help="Label subsets to use instead of the final ones of the space."
        ),
    ] = None
    published: Annotated[
        bool,
        typer.Option(
            "--published",
            help="Do not search: give the papers' own values, and each variant, the final seeds.",
        ),
    ] = False
    paper: PaperOption = None
    table: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="With --paper: run what the table N still lacks, no space."
        ),
    ] = None
    store: StoreOption = None
    cpus_per_trial: Annotated[float, typer.Option(help="CPU cores of one trial.")] = 1
    gpus_per_trial: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto",
            help="GPUs of one trial; trials share a GPU when it is a fraction. With `auto`, the "
            "measured memory of the first trial decides how many trials share one. Default: 1 "
            "where there are GPUs.",
        ),
    ] = None
    memory_per_trial: Annotated[
        float | None,
        typer.Option(
            metavar="GIB",
            help="Host memory of one trial in GiB (of several workers: of each of them); a trial "
            "that takes more fails. Default: what the machine has.",
        ),
    ] = None
    trial_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="The longest that one trial may take, such as 90s, 30m or 2h; a trial that takes "
            "longer fails.",
        ),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="The time of the whole sweep, such as 20m or 8h. The searches share it, the final "
            "seeds keep their part, and the same command goes on with what did not run.",
        ),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Run on this Ray cluster; `auto` is the one of this machine. Default: "
            "RAY_ADDRESS, or else a Ray of the sweep's own.",
        ),
    ] = None
    dashboard: Annotated[
        bool | None,
        typer.Option(
            "--dashboard/--no-dashboard",
            help="Show the trials in Ray's dashboard, and print its address. Default: only on a "
            "cluster.",
        ),
    ] = None
    track: TrackOption = None
    local: Annotated[
        bool | None,
        typer.Option(
            "--local/--no-local",
            help="Run the trials in this process, one after the other, without Ray. Default: "
            "where one trial runs at a time, and for short sweeps.",
        ),
    ] = None


def read(
    targets: list[str] | None = None,
    set_: list[str] | None = None,
    encoder: list[str] | None = None,
    seeds: str | None = None,
    subsets: str | None = None,
    **options: Any,
) -> SweepOptions:
    """The options of a sweep as the command line gives them."""
    names = targets or []
    of_table = options.get("paper") is not None or options.get("table") is not None
    split = len(names) if of_table else len(names) - 1
    return SweepOptions(
        space=next(iter(names[split:]), None),
        methods=names[:split],
        encoders=encoder or (),
        values=set_values(set_),
        seeds=whole_numbers(seeds or "", "--seeds"),
        subsets=whole_numbers(subsets or "", "--subsets"),
        **options,
    )


def with_sweep_options(
    *names: str,
) -> Callable[[Callable[Concatenate[SweepOptions, P], None]], Callable[..., None]]:
    """A decorator that gives a verb these options of Declared in front of its own.

    The verb is called with the SweepOptions that they make.
    """
    types = get_type_hints(Declared, include_extras=True)

    def decorate(verb: Callable[Concatenate[SweepOptions, P], None]) -> Callable[..., None]:
        _, *own = inspect.signature(verb).parameters.values()

        @functools.wraps(verb)
        def command(**texts: Any) -> None:
            options = read(**{name: texts.pop(name) for name in names})
            verb(options, **texts)  # type: ignore[call-arg]

        kind = inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter(name, kind, default=getattr(Declared, name), annotation=types[name])
            for name in names
        ]
        parameters += [parameter.replace(kind=kind) for parameter in own]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate
