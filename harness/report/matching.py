"""The trials that would reproduce a reported number, and the commands that run them."""

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness.data.revisions import without_revision
from harness.document import read_document
from harness.errors import UserError, suggest
from harness.evaluation.catalogue import STSB_DEV
from harness.files import shipped
from harness.plugin import registry
from harness.plugin.registry import is_path, plain_name
from harness.report.groups import Group
from harness.report.paper import NOTHING_SAID, ColumnRun, ReportedRun, Systems
from harness.report.published import ReportedRow
from harness.trials.store_folders import store_option

SUBSETS = "0,1,2,3,4"
"""The label subsets of a sweep with a share of the labels: five (diffaug.md, section 7)"""
ALL_LABELS: Mapping[str, Any] = {"label_fraction": 1}
ANY = "*"
"""In the place of a value: any value but none, such as a file of the user's own"""


def yaml_text(value: Any) -> str:
    """The value of a hyperparameter as `--set` reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Wanted:
    """The trials that would reproduce a reported number."""

    method: str
    setting: str
    encoder: str
    configuration: tuple[tuple[str, Any], ...]
    """Hyperparameters with the values that the trials must have; the others are free"""
    searched: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    """Free hyperparameters with the values that a sweep tries, of which the dev score chooses"""
    defaults: tuple[tuple[str, Any], ...] = ()
    """Hyperparameters with the defaults that the trials must not have changed"""
    published_encoder: str | None = None
    """The encoder of the paper, where the trials have another one"""
    needs: str = ""
    """A thing that the user must bring before it can be run; "": nothing"""
    path: str = ""
    """The path of the method's plugin, where a paper of one's own names it so"""

    @property
    def locator(self) -> str:
        """The path of the method, or else its name."""
        return self.path or self.method

    def is_here(self, methods: Collection[str]) -> bool:
        """Whether its method is here. methods: the names of those that need no path."""
        return bool(self.path) or self.method in methods

    def fits(self, group: Group) -> bool:
        """Whether a group has the values that are wanted, or the defaults where none is wanted."""
        has, needs = (
            {**dict(self.defaults), **values}
            for values in (group.configuration, dict(self.configuration))
        )
        return all(
            name in has and (has[name] is not None if value == ANY else has[name] == value)
            for name, value in needs.items()
        )

    def __str__(self) -> str:
        values = [f"{name}={yaml_text(value)}" for name, value in self.configuration]
        return " ".join([self.method, self.setting, self.encoder, *values])


def wanted_for(
    systems: Systems,
    table: str,
    row: ReportedRow,
    column: ColumnRun = NOTHING_SAID,
    fraction: float = 1,
    encoder: str | None = None,
) -> Wanted | None:
    """The trials that would reproduce a number of a row; None when the number is only quoted.

    table: its name, for an error. column: what is said of its column. fraction: the share of the
    labels; at 0 it is the unsupervised method. encoder: the one that the trials have in the place
    of the paper's.

    Raises UserError for a system that is not listed, and for a variant or an encoder that its run
    does not list.
    """
    if row.system not in systems.systems:
        raise UserError(
            f'there is no system "{row.system}", which {table} has'
            f"{suggest(row.system, systems.systems)}"
        )
    run = column.run or systems.systems[row.system]
    if run is None:
        return None
    published = column.encoder or run.encoder or str(row.encoder)
    configuration = _configuration(run, row, column, published)
    setting = column.setting or run.setting or str(row.setting)
    if not fraction:
        configuration, setting = run.configuration, "unsup"
    elif fraction < 1:
        configuration = configuration | {"label_fraction": fraction}
    chosen = model = published
    if encoder is not None and run.encoder is None:
        chosen, model = encoder, without_revision(encoder)
    # A run that names no default for an encoder leaves it free.
    defaults = {
        name: value[model] if isinstance(value, Mapping) else value
        for name, value in run.defaults.items()
        if not isinstance(value, Mapping) or model in value
    }
    values = sorted(configuration.items())
    return Wanted(
        plain_name(run.method),
        setting,
        chosen,
        tuple((name, value) for name, value in values if not isinstance(value, list)),
        tuple((name, tuple(value)) for name, value in values if isinstance(value, list)),
        tuple({**ALL_LABELS, **defaults}.items()),
        None if model == published else published,
        run.needs.get(row.variant or "", ""),
        run.method if is_path(run.method) else "",
    )


def _configuration(
    run: ReportedRun, row: ReportedRow, column: ColumnRun, encoder: str
) -> dict[str, Any]:
    """The values that the trials must have: of the run, then of the column, then of the variant."""
    variant = row.variant if column.run is None else None
    if variant is not None and variant not in run.variants:
        raise UserError(
            f'the system {row.system} does not list the variant "{variant}"'
            f"{suggest(variant, run.variants)}"
        )
    values = {
        **run.configuration,
        **column.configuration,
        **column.systems.get(row.system, {}),
        **(run.variants[variant] if variant is not None else {}),
    }
    for name, value in values.items():
        if isinstance(value, Mapping) and encoder not in value:
            raise UserError(
                f"the system {row.system} has no {name} for {encoder}{suggest(encoder, value)}"
            )
    return {
        name: value[encoder] if isinstance(value, Mapping) else value
        for name, value in values.items()
    }


def best_on_dev(groups: Iterable[Group]) -> Group:
    """The group with the best mean dev score; of equal ones, that with more trials.

    The papers select by STS-B dev. A group with this score therefore goes before a group with
    another dev score, because two dev scores cannot be compared. For the same reason a group of
    another protocol comes last.
    """
    return max(
        groups,
        key=lambda group: (
            group.current,
            group.selects == STSB_DEV,
            group.dev_mean,
            len(group.keys),
        ),
    )


def command(store: Path | str, *words: str) -> str:
    """A command of harness with these words, for a store."""
    return shlex.join(["harness", *words, *store_option(store)])


@cache
def published_values(target: Wanted) -> Mapping[str, Any]:
    """Every field of the configuration that a sweep of a published row starts from.

    It is that of the paper's encoder. Empty where the row needs something of the user's, since the
    method refuses it without.
    """
    if target.needs:
        return {}
    config = registry.load(target.locator).config_type(
        encoder=target.published_encoder or target.encoder,
        setting=target.setting,
        **{name: value for name, value in target.configuration if value != ANY},
    )
    return config.deciding()


@cache
def _methods_of_space(setting: str) -> frozenset[str]:
    """The methods of the shipped search space of a setting."""
    return frozenset(read_document(shipped("search_spaces") / f"{setting}.yaml").content["methods"])


def obstacle(target: Wanted, methods: Collection[str]) -> str:
    """The reason why trials cannot be run here yet; "" when they can. methods: as `is_here`."""
    if not target.is_here(methods):
        return f"there is no method {target.method}"
    return f"it needs {target.needs}" if target.needs else ""


@dataclass(frozen=True)
class Commands:
    """Makes commands for one store. `methods`: the names of the methods that can be run here."""

    methods: Collection[str]
    store: Path | str
    encoder: str | None = None
    """Encoder of our trials, in the place of a paper's"""

    @property
    def options(self) -> list[str]:
        """The words that name the encoder and the store behind those of a cell."""
        return [*(["--encoder", self.encoder] if self.encoder else []), *store_option(self.store)]

    def sweep(self, target: Wanted) -> str:
        """The sweep whose final trials can stand beside a reported number."""
        space = f"search_spaces/{target.setting}.yaml"
        words = [target.path or f"methods/{target.method}", space, "--encoder", target.encoder]
        for name, value in target.configuration:
            words += ["--set", f"{name}={yaml_text(value)}"]
            if name == "label_fraction":
                words += ["--subsets", SUBSETS]
        return command(self.store, "sweep", *words)

    def cell(self, target: Wanted, paper: str, number: str) -> str:
        """The command that runs the trials for a number of a published table.

        A method that is in no shipped space is run for the whole table.
        """
        if target.method in _methods_of_space(target.setting) and not target.path:
            return self.sweep(target)
        return command(self.store, "sweep", target.locator, "--paper", paper, "--table", number)

    def table(self, verb: str, paper: str, number: str) -> str:
        """The command that fills what a published table lacks (`sweep`), or that prints it."""
        words = ["harness", verb, "--paper", paper, "--table", number]
        return shlex.join([*words, *self.options])

    def evaluation(self, checkpoint: Wanted, suite: str) -> str:
        """The command that measures a released checkpoint with a suite."""
        pooling = dict(checkpoint.configuration).get("pooling")
        words = [checkpoint.encoder, *(["--pooling", str(pooling)] if pooling else [])]
        return command(self.store, "eval", *words, "--suite", suite)
