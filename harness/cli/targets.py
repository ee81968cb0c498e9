"""What a sweep or a plan is about: a search space or a published table."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import options
from harness.errors import UserError
from harness.report.published import load_paper
from harness.sweeps.spaces.named_spaces import YAML_SUFFIXES, shipped_spaces, space_file, space_name

if TYPE_CHECKING:
    from harness.report.paper_cells import PaperTable
    from harness.sweeps.spaces.overrides import Overrides
    from harness.sweeps.spaces.search import Search


def split_targets(targets: list[str]) -> tuple[tuple[str, ...], Path]:
    """The methods and the file of the search space, which is the last argument.

    Raises UserError when none is named, and when there is no such search space.
    """
    if not targets:
        raise UserError(
            "Missing argument: name a search space, or a table with --paper P --table N"
        )
    *methods, space = targets
    return tuple(methods), space_file(space)


@dataclass(frozen=True)
class SweepOptions:
    """The options of `harness sweep` and `harness plan`: what is run, and what narrows it."""

    targets: list[str]
    """Methods, then the name or path of the search space; only methods where a table is named"""
    set_: list[str] | None
    encoder: list[str] | None
    configurations: int | None
    seeds: str | None
    subsets: str | None
    published: bool
    paper: str | None
    table: int | None
    store: str | None

    @property
    def of_table(self) -> bool:
        """Whether a published table is the target, and not a search space.

        Raises UserError for half of a table's name, for an unknown one, and for one that trials
        cannot fill.
        """
        if self.paper is None or self.table is None:
            if self.paper is None and self.table is None:
                return False
            raise UserError("a table is named by its paper and its number: --paper P --table N")
        load_paper(self.paper)  # a wrong name is answered before what follows is imported
        from harness.cli.paper_target import check_fillable

        check_fillable(self.paper, self.table)
        return True

    @property
    def name(self) -> str:
        """The name of the sweep: that of its search space, or paper and table."""
        if self.of_table:
            return f"{self.paper}-table-{self.table}"
        return space_name(split_targets(self.targets)[1])

    def searches(self) -> "list[Search]":
        """The searches that the command line asks for.

        Raises UserError for anything that is wrong in the options or in the search space.
        """
        if self.of_table:
            from harness.cli.paper_target import table_searches

            return table_searches(
                str(self.paper), int(self.table or 0), self._overrides(self._methods()), self.store
            )
        methods, path = split_targets(self.targets)
        # A name that no search space has is answered before these are imported.
        from harness.sweeps.spaces.overrides import searches
        from harness.sweeps.spaces.space import load_space

        return searches(*load_space(path), self._overrides(methods))

    def compared(self) -> "list[PaperTable]":
        """The published table with the trials of the store, once for each encoder that is asked."""
        from harness.cli.paper_target import compared_tables

        overrides = self._overrides(self._methods())
        return compared_tables(str(self.paper), int(self.table or 0), overrides, self.store)

    def measured(self) -> "list[PaperTable]":
        """The published table whose trials get the suites that it needs.

        There is none where the command line chooses the suite, as tests and short trials do.
        """
        if not self.of_table or "suite" in options.set_values(self.set_):
            return []
        return self.compared()

    def _methods(self) -> tuple[str, ...]:
        """The targets beside a table. Raises UserError for a search space among them."""
        for name in self.targets:
            if name in shipped_spaces() or name.endswith(YAML_SUFFIXES):
                raise UserError(f"--paper names what is run, so {name} has no place beside it")
        return tuple(self.targets)

    def _overrides(self, methods: tuple[str, ...]) -> "Overrides":
        from harness.sweeps.spaces.overrides import Overrides

        if self.configurations is not None and (self.published or self.of_table):
            raise UserError(
                "--configurations has no meaning with --published or --paper: published values "
                "are not searched"
            )
        return Overrides(
            methods=methods,
            encoders=tuple(self.encoder or ()),
            values=(options.table_values if self.of_table else options.set_values)(self.set_),
            configurations=self.configurations,
            seeds=options.whole_numbers(self.seeds, "--seeds"),
            subsets=options.whole_numbers(self.subsets, "--subsets"),
            published=self.published,
        )
