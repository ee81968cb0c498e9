"""All 39 tables of the five papers, and 4 of the second version of one of them.

Each renders, and each row says which trials fill it.
"""

from typing import Any

import pytest

from harness.evaluation.catalogue import CARDS
from harness.plugin import registry
from harness.report.cells import value_text
from harness.report.formats import rendered
from harness.report.matching import Commands, Wanted
from harness.report.measured_trials import TABLE_COLUMNS
from harness.report.paper import load_systems
from harness.report.paper_cells import Comparer, PaperTable
from harness.report.paper_tables import paper_tables
from harness.report.papers import load_paper, papers
from harness.report.quantities import PAPER_COLUMNS, QUANTITIES, Special
from harness.trials.record_files import no_rows
from tests.report.conftest import MadeStore

TABLES = [(paper, name) for paper in papers() for name in load_paper(paper).numbers.values()]
NUMBERS = {"clsr": 4, "d2cse": 8, "dcpcse": 4 + 4, "diffaug": 8, "diffcse": 15}
WITHOUT_TRIALS = (Special.GIVEN, Special.HYPERPARAMETER)
every_table = pytest.mark.parametrize(("paper", "name"), TABLES)


def empty(paper: str, name: str) -> PaperTable:
    """The table beside a store without trials."""
    return Comparer(no_rows(TABLE_COLUMNS)).table(load_paper(paper), name)


def runnable(table: PaperTable) -> list[Wanted]:
    """Runs of the table that need nothing that its user must bring."""
    wanted = (each.wanted for each in table.cells if each.published.measure not in WITHOUT_TRIALS)
    return [each for each in dict.fromkeys(wanted) if each and not each.needs]


def resolved(wanted: Wanted) -> dict[str, Any]:
    """The configuration of the trials that `harness sweep --paper P --table N` runs."""
    config_type = registry.load(wanted.method).config_type
    values = {"encoder": wanted.encoder, "setting": wanted.setting, **dict(wanted.configuration)}
    return config_type(**values).deciding()


def test_all_tables_are_here() -> None:
    assert len(TABLES) == sum(NUMBERS.values()) == 39 + 4
    for paper, last in NUMBERS.items():
        assert list(load_paper(paper).numbers) == [str(number) for number in range(1, last + 1)]


@pytest.mark.slow
@every_table
def test_a_table_renders_in_every_format(paper: str, name: str, store: MadeStore) -> None:
    number = name.removeprefix("table")
    sheets = paper_tables(
        store.read(), load_paper(paper), Commands(registry.names(), store.folder), number
    )
    for format in ("markdown", "latex", "csv"):
        assert rendered(sheets, format, 80)
    text = " ".join(rendered(sheets, "terminal", 80).decode().split())
    values = (each for row in load_paper(paper).tables[name].rows for each in row.values)
    for value in (each for each in values if each is not None):
        words = value.split() if isinstance(value, str) else [value_text(value)]
        assert all(word in text for word in words), "every published number is printed"
    assert sheets[0].title.startswith(f"{load_paper(paper).title}. Table {number}: ")
    commands = [note for note in sheets[0].notes if "harness sweep" in note]
    assert len(commands) == (load_paper(paper).tables[name].kind != "hyperparameters")


@every_table
def test_what_is_said_of_a_column_names_a_column(paper: str, name: str) -> None:
    runs = load_systems().table_runs.get(f"{paper}.{name}")
    table = load_paper(paper).tables[name]
    columns = set(runs.columns if runs else ())
    encoders = {each for row in table.rows for each in (row.encoder or ()) if len(each) > 1}
    assert columns <= {*map(str, table.columns), *encoders, *SHARED}
    assert set(runs.systems if runs else ()) <= {row.system for row in table.rows}


SHARED = {"bert-large-uncased", "roberta-large"}
"""Columns that one list of encoders says for several tables"""


@every_table
def test_what_is_run_is_a_configuration_of_a_method(paper: str, name: str) -> None:
    for wanted in runnable(empty(paper, name)):
        values = resolved(wanted)
        for field, value in {**dict(wanted.defaults), **dict(wanted.configuration)}.items():
            assert values.get(field, value) == value, (str(wanted), field)


def record_of(wanted: Wanted, value: float) -> dict[str, Any]:
    """The fields of a trial that has been run as `wanted`, and whose every quantity is `value`."""
    return {
        "method": wanted.method, "setting": wanted.setting, "encoder": wanted.encoder,
        "configuration": resolved(wanted), "seed": int(value), "dev": {"stsb-dev": value},
        "training_seconds": 60 * value, "peak_gpu_memory_mib": 1024 * value,
        "parameters_total": round(1e6 * value),
        "parameters_added": round(1e6 * value * value / (100 + value)),
    }  # fmt: skip


@pytest.mark.slow
@every_table
def test_a_trial_lands_in_the_cells_that_want_it(paper: str, name: str, store: MadeStore) -> None:
    table = empty(paper, name)
    values = {wanted: 10.0 + place for place, wanted in enumerate(runnable(table))}
    suites = {each.metric.suite for each in table.cells if each.metric} - {"sts"}
    for wanted, value in values.items():
        made = record_of(wanted, value)
        of = store.trial(score=value, key=f"{int(value):032x}", **made)
        for suite in suites:
            card = CARDS[suite]
            dev = dict.fromkeys(card.dev_tasks, value)
            store.evaluation(suite, dict.fromkeys(card.headings, value), of, **made | {"dev": dev})
    filled = Comparer(store.read(PAPER_COLUMNS).table).table(load_paper(paper), name)
    for cell in filled.cells:
        wanted = None if cell.published.measure in WITHOUT_TRIALS else cell.wanted
        if wanted is None or wanted.needs:
            assert cell.ours is None
        elif cell.published.measure in (Special.SENTENCE, Special.COSINE):
            assert cell.group
            assert cell.candidates == 1
        else:
            assert cell.ours, (cell.published.row.label, cell.published.column)
            assert cell.ours.n == 1
            # What a method adds follows from its configuration.
            if cell.published.measure is not QUANTITIES["added-parameters"]:
                assert cell.ours.mean == pytest.approx(values[wanted]), cell.published.row.label
            assert cell.unmeasured == []
