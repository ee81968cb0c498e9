"""A store of made-up trials, and its tables."""

import itertools
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness import PROTOCOL
from harness.evaluation.scores import Uncertainty
from harness.report.groups import Group, comparable_groups
from harness.report.matching import Commands
from harness.report.paper_cells import Comparer, PaperTable
from harness.report.paper_tables import paper_tables
from harness.report.papers import load_paper
from harness.report.quantities import PAPER_COLUMNS
from harness.report.store_tables import store_tables
from harness.report.tables import Line, Table
from harness.trials.record import Record
from harness.trials.store import Store

TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg")
TRANSFER = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc", "transfer-avg")
METHODS = ("d2cse", "dcpcse", "diffcse", "pooling", "simcse")
NEVER_RUN = "f" * 32
"""Key of a trial that is in no store"""


def typed(number: int, configuration: dict[str, Any] | None, **different: Any) -> Record:
    """A finished final trial of unsupervised SimCSE on BERT base, unless arguments differ."""
    values: dict[str, Any] = {
        "key": f"{number:032x}", "status": "finished", "role": "final", "method": "simcse",
        "setting": "unsup", "encoder": "bert-base-uncased", "seed": number,
        "configuration": {"learning_rate": 3e-5, "batch_size": 64} | (configuration or {}),
        "dev_before": 50.0, "dev": {"stsb-dev": 80.0}, "steps": 100, "versions": {},
        "source_digest": "source-1", "data_digest": "data-1", "model_digest": "model-1",
        "protocol": PROTOCOL,
    } | different  # fmt: skip
    dev = sorted(values["dev"])
    chosen = "stsb-dev" if "stsb-dev" in dev else next(iter(dev), None)
    spread = {name: Uncertainty(**each) for name, each in values.pop("uncertainty", {}).items()}
    return Record(**{"selected_by": chosen, **values}, uncertainty=spread)


class MadeStore(Store):
    """A store of made-up trials."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._trials, self._evaluations = itertools.count(), itertools.count()

    def trial(
        self, configuration: dict[str, Any] | None = None, score: float = 75.0, **different: Any
    ) -> str:
        """Write a finished final trial, and return its key.

        `score`: Spearman x100 on each of the seven tests. `different`: other fields of `typed`.
        """
        test = {"test": dict.fromkeys(TASKS, score)}
        made = typed(next(self._trials), configuration, **test | different)
        self.write(made)
        return made.key

    def evaluation(
        self,
        suite: str,
        test: dict[str, float],
        of: str,
        configuration: dict[str, Any] | None = None,
        **different: Any,
    ) -> str:
        """Write the scores of a suite, and return the key of the evaluation.

        `of`: the key of a trial, which may be in no store. `different`: the fields in which that
        trial differs from one of `trial`.
        """
        own = {
            "key": f"e{next(self._evaluations):031x}", "role": "evaluation", "suite": suite,
            "evaluates": of, "dev": {}, "dev_before": None, "test": test,
        }  # fmt: skip
        made = typed(int(of, 16), configuration, **own | different)
        self.write(made)
        return made.key

    def groups(self) -> list[Group]:
        """Its comparable trials together."""
        return comparable_groups(self.read().table)

    def sheets(self) -> list[Table]:
        """The tables of `harness table`."""
        return store_tables(self.read(), self.folder)

    def paper(
        self,
        name: str,
        number: int,
        *,
        methods: Sequence[str] = METHODS,
        folder: Path | str | None = None,
        encoder: str | None = None,
        **options: Any,
    ) -> Table:
        """A published table with the numbers of this store.

        `methods`: those that there are. `folder`: the name of the store in commands.
        """
        commands = Commands(methods, folder or self.folder, encoder)
        (sheet,) = paper_tables(self.read(), load_paper(name), commands, str(number), **options)
        return sheet

    def compared(self, name: str, number: int, **options: Any) -> PaperTable:
        """The cells of a published table beside those of this store."""
        trials = self.read(PAPER_COLUMNS).table
        return Comparer(trials, **options).table(load_paper(name), f"table{number}")


@pytest.fixture
def store(tmp_path: Path) -> MadeStore:
    return MadeStore(tmp_path / "store")


def lines_of(sheet: Table, label: str, section: int | None = None) -> list[Line]:
    """The lines of the first row with this label, or that begins so: published, ours, Δ."""
    sections = sheet.sections if section is None else [sheet.sections[section]]
    lines = [line for each in sections for line in each.lines]
    names = (f"{label} [", label)
    start = next(at for name in names for at, line in enumerate(lines) if line[0].startswith(name))
    end = next((at for at in range(start + 1, len(lines)) if lines[at][0]), len(lines))
    return lines[start:end]


class Tags(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open += [tag] if tag != "meta" else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)
