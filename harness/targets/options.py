"""The options of a sweep, in Python and on the command line: what is run, and with what."""

import math
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.data.hub import check_model
from harness.errors import UserError, suggest
from harness.sweeps.machines import Limits, Resources, head_of
from harness.sweeps.spaces.overrides import (
    YAML_SUFFIXES,
    Overrides,
    shipped_spaces,
    space_file,
    space_name,
)
from harness.targets.stores import opened

if TYPE_CHECKING:
    from harness.report.paper_cells import PaperTable
    from harness.sweeps.spaces.search import Search
    from harness.targets.published import Notice


@dataclass(frozen=True)
class SweepOptions(Overrides):
    """The options of `harness sweep` and `harness.sweep`, which narrow a space or name a table.

    Raises UserError for a value that none of them can have.
    """

    space: str | None = None
    """The name or the path of the search space; None beside a published table"""
    paper: str | None = None
    table: int | str | None = None
    """The number of the table of the paper whose missing trials are run"""
    store: Path | str | None = None
    """A folder or a bucket; None: results/trials"""
    cpus_per_trial: float = 1
    gpus_per_trial: str | float | None = None
    """A part of a GPU, a whole number of them, or `auto`; None: 1 where there are GPUs"""
    memory_per_trial: float | None = None
    """GiB of host memory"""
    trial_timeout: str | float | None = None
    """The longest that one trial may take: seconds, or a text such as 30m"""
    budget: str | float | None = None
    """The time of the whole sweep: seconds, or a text such as 20m or 8h; None: no limit"""
    address: str | None = None
    """Address of a Ray cluster"""
    dashboard: bool | None = None
    """Whether Ray's dashboard shows the trials; None: on a cluster"""
    track: str | None = None
    """An experiment tracker"""
    local: bool | None = None
    """Whether trials run in this process; None: where that takes no longer"""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_target()
        self._check_execution()
        _check_range("--configurations", self.configurations, 1, 1_000_000)
        limits = {"--configurations": self.configurations, "--budget": self.budget}
        for option, value in limits.items():
            if value is not None and self.published:
                raise UserError(
                    f"{option} has no meaning with --published: published values are not searched"
                )

    def _check_target(self) -> None:
        if not self.of_table:
            return
        if self.paper is None or self.table is None:
            raise UserError("a table is named by its paper and its number: --paper P --table N")
        _check_fillable(self.paper, self.table)
        self._check_methods()

    def _check_methods(self) -> None:
        """Raises UserError for a method that is unknown, or has no place beside a table."""
        from harness.plugin import registry
        from harness.report.papers import load_paper

        for name in (*self.methods, *([self.space] if self.space else ())):
            if name in shipped_spaces() or name.endswith(YAML_SUFFIXES):
                raise UserError(f"--paper names what is run, so {name} has no place beside it")
            if name not in load_paper(str(self.paper)).plugins:
                registry.locate(name)

    def _check_execution(self) -> None:
        if self.local:
            for value, option in (
                (self.address, "--address"),
                (self.dashboard, "--dashboard"),
                (self.trial_timeout, "--trial-timeout"),
                (self.memory_per_trial, "--memory-per-trial"),
                (self.gpus_per_trial, "--gpus-per-trial"),
            ):
                if value:
                    raise UserError(
                        f"--local runs the trials in this process, which has no {option}: leave "
                        f"out one of the two"
                    )
        _check_range("--cpus-per-trial", self.cpus_per_trial, 0.1, math.inf)
        _check_range("--memory-per-trial", self.memory_per_trial, 0.1, math.inf)
        seconds_of(self.trial_timeout, "--trial-timeout")
        seconds_of(self.budget, "--budget")
        gpus_of(self.gpus_per_trial)
        if self.address is not None:
            head_of(self.address, "--address")
        if self.track is not None:
            from harness.tracking.trackers import check as check_tracker

            check_tracker(self.track)

    @property
    def of_table(self) -> bool:
        """Whether a published table is the target, and not a search space."""
        return self.paper is not None or self.table is not None

    @property
    def name(self) -> str:
        """The name of the sweep: that of its search space, or paper and table."""
        if self.of_table:
            from harness.report.papers import paper_label

            return f"{paper_label(str(self.paper))}-table-{self.table}"
        return space_name(self._space_file())

    @property
    def table_options(self) -> list[str]:
        """The options with which `harness table` prints the table; none of a search space."""
        if not self.of_table:
            return []
        encoder = [word for name in self.encoders[:1] for word in ("--encoder", name)]
        return ["--paper", str(self.paper), "--table", str(self.table), *encoder]

    @property
    def resources(self) -> Resources:
        """Resources that each trial occupies."""
        return Resources(self.cpus_per_trial, gpus_of(self.gpus_per_trial))

    @property
    def limits(self) -> Limits:
        """Limits of each trial."""
        memory = self.memory_per_trial and self.memory_per_trial * 2**30
        return Limits(seconds_of(self.trial_timeout, "--trial-timeout"), memory)

    def check_encoders(self) -> None:
        """Raises UserError for an encoder that is neither here nor to be had from the Hub.

        Nothing is downloaded. A plan does without the encoder; what computes does not.
        """
        for name in (*self.encoders, *filter(None, [self.values.get("encoder")])):
            check_model(str(name))

    def searches(self, notice: "Notice") -> "list[Search]":
        """The searches that are asked for.

        notice: hears which row of a published table cannot run here, and why, and which value of
        `--set` changes nothing. Raises UserError for anything that is wrong in the options or in
        the search space.
        """
        if self.of_table:
            tables = self.compared()
            from harness.targets.published import table_searches

            return table_searches(tables, self.as_read(), notice)
        path = self._space_file()
        # A name that no search space has is answered before these are imported.
        from harness.sweeps.spaces.searches import searches
        from harness.sweeps.spaces.space import load_space

        narrowed = searches(*load_space(path), self)
        for name in self.values:
            if all(search.without_effect(name) for search in narrowed):
                notice(f"--set {name} changes nothing in these searches: it is left out")
        return narrowed

    def _space_file(self) -> Path:
        if self.space is None:
            raise UserError(
                "Missing argument: name a search space, or a table with --paper P --table N"
            )
        return space_file(self.space)

    def compared(self) -> "list[PaperTable]":
        """The published table with the trials of the store, once for each encoder that is asked."""
        as_read = self.as_read()  # it refuses a wrong key before these are imported
        from harness.report.quantities import PAPER_COLUMNS
        from harness.targets.published import compared_tables

        trials = opened(self.store).read(PAPER_COLUMNS).table
        return compared_tables(str(self.paper), int(self.table or 0), as_read, trials)

    def measured(self) -> "list[PaperTable]":
        """The published table whose trials get the suites that it needs.

        There is none where the options choose the suite, as tests and short trials do.
        """
        return self.compared() if self.of_table and "suite" not in self.values else []

    def table_values(self) -> dict[str, Any]:
        """The values beside a published table, read as its methods and the shipped ones do."""
        if not self.values:
            return {}
        from harness.plugin import registry
        from harness.report.papers import load_paper
        from harness.sweeps.spaces.values import check_command_line, read_values

        own = load_paper(str(self.paper)).plugins.values()
        plugins = [registry.load(name) for name in (*registry.names(), *own)]
        check_command_line(self.values, plugins)
        return read_values(self.values, plugins)

    def as_read(self) -> "SweepOptions":
        """These options, with the values beside a published table as its methods read them."""
        return replace(self, values=self.table_values()) if self.of_table else self


def _check_fillable(paper: str, number: int | str) -> None:
    """Raise UserError for an unknown paper or table, and for a table that trials cannot fill."""
    from harness.report.papers import load_paper  # not for what names no paper

    tables = load_paper(paper)
    if str(number) not in tables.numbers:
        raise UserError(
            f"there is nothing to run for Table {number} of {paper}"
            f"{suggest(str(number), tables.numbers)}"
        )
    if tables.tables[tables.numbers[str(number)]].kind == "hyperparameters":
        raise UserError(
            f"there is nothing to run for Table {number} of {paper}: it has hyperparameters, which "
            f"`harness table --paper {paper} --table {number}` compares with our defaults"
        )


def _check_range(option: str, number: float | None, least: float, most: float) -> None:
    if number is not None and not (least <= number <= most and math.isfinite(number)):
        bounds = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most}"
        raise UserError(f"{option} {number}: write a finite number, {bounds}")


def seconds_of(duration: str | float | None, option: str) -> float | None:
    """A time limit, as seconds or as a text like `90s`, `30m` or `2h`, in seconds.

    Raises UserError for anything else.
    """
    if duration is None:
        return None
    text = duration if isinstance(duration, str) else f"{duration:.6f}s"
    parts = re.fullmatch(r"(\d{1,10}(?:\.\d{1,6})?)([smh])", text)
    seconds = float(parts[1]) * {"s": 1, "m": 60, "h": 3600}[parts[2]] if parts else 0.0
    if not 1 <= seconds < 3600e6:
        raise UserError(
            f"{option} {duration}: write a duration of at least one second and of less than "
            f"1000000h, such as 90s, 30m or 2h"
        )
    return seconds


def gpus_of(share: str | float | None) -> float | Literal["auto"] | None:
    """The GPUs of one trial: a fraction, a whole number or `auto`; None: the default.

    Raises UserError for anything else.
    """
    if share is None:
        return None
    if share == "auto":
        return "auto"
    with suppress(ValueError):
        gpus = float(share)
        # Ray gives a trial either a part of one GPU or whole ones.
        if 0 <= gpus < 1 or (gpus >= 1 and gpus.is_integer()):
            return gpus
    raise UserError(
        f"--gpus-per-trial {share}: write a fraction of a GPU such as 0.5, a whole number of GPUs, "
        f"0 for none, or auto"
    )
