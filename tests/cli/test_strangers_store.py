"""A stranger's store: its texts are data, its code does not run, and nothing leaves the folder."""

import json
import os
import re
import unicodedata
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.cli.verbs import run_verb
from harness.errors import UserError
from harness.owners import Owner
from harness.plugin import registry
from harness.sweeps.screen.live_view import SweepState, publishing
from harness.trials.output import BoundedLog
from harness.trials.record import JSON_COLUMNS, RANK
from harness.trials.schema import SCHEMA
from harness.trials.store import Store
from tests.cli.conftest import Harness, check_sentence
from tests.trials.test_store import record

ORDERS = "\x1b[2J\x1b]0;title\x07\u202egnirts\u2066\x9b31m<script>x</script>|[a](javascript:b)"
"""Characters that a terminal, a browser or Markdown may obey"""
MARKER = "it-ran"
CODE = f"""\
from pathlib import Path
Path({MARKER!r}).touch()
raise SystemExit("code of a stranger has run")
"""


def write_row(store: Path, name: str, **different: Any) -> None:
    """Write a row as a stranger may: no check of ours is in between."""
    row = record(0).row() | different
    store.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([{name: row[name] for name in SCHEMA.names}], SCHEMA)
    pq.write_table(table, store / f"{name}.parquet")


def key_of(number: int) -> str:
    return f"{number:032x}"


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store in which every text wants to do harm; the working folder has code of its names."""
    work = tmp_path / "work"
    (work / "methods" / "evilmethod").mkdir(parents=True)
    for path in ("methods/evilmethod/__init__.py", "plugin.py", "suite.py", "corpus.py", "evil.py"):
        (work / path).write_text(CODE)
    monkeypatch.chdir(work)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))  # in which no code is known
    store = tmp_path / "theirs" / "trials"
    configuration = record(0).configuration
    named: list[dict[str, Any]] = [
        {"plugin": str(work / "plugin.py"), "method": "plugin"},
        {"plugin": str(work / "methods/evilmethod"), "method": "evilmethod"},
        {"plugin": "plugin.py", "method": "plugin"},
        {"method": "evilmethod"},
        {"method": "evil.py"},
        {"method": str(work / "evil.py")},
        {"configuration": {**configuration, "suite": str(work / "suite.py")}},
        {"configuration": {**configuration, "suite": f"mteb:{work / 'suite.py'}"}},
        {"configuration": {**configuration, "sentences": str(work / "corpus.py")}},
        {"method": ORDERS, "setting": ORDERS, "encoder": ORDERS, "reason": ORDERS},
        {"host": ORDERS, "device": ORDERS, "commit": ORDERS, "test": {ORDERS: 1.0}},
        {"method": "=cmd|'/c calc'!A1", "encoder": "@SUM(1+1)"},
        {"status": "failed", "reason": ORDERS},
        {"role": "search"},
    ]
    for number, fields in enumerate(named, start=1):
        Store(store).write(record(number, **fields))
    outside = tmp_path / "secret.txt"
    outside.write_text("a secret")
    weights = store.parent / "trials-weights"
    weights.mkdir()
    (weights / f"{key_of(1)}.safetensors").symlink_to(outside)
    logs = store.parent / "trials-logs"
    logs.mkdir()
    (logs / f"{key_of(1)}.txt").symlink_to(outside)
    os.mkfifo(logs / f"{key_of(2)}.txt")
    (logs / f"{key_of(3)}.txt").mkdir()
    (logs / "secret.txt").write_text("a secret")
    leave_notes(store, outside)
    write_row(store, "a" * 32, key="../../x", status="failed")
    write_row(store, "b" * 32, key="b" * 32, role="weird")
    write_row(store, "c" * 32, key="d" * 32)
    write_row(store, "e" * 32, key="e" * 32, configuration='{"a":' * 5000 + "1" + "}" * 5000)
    write_row(store, "f" * 32, key="f" * 32, test=[("graded", 1e308), ("x", float("-inf"))])
    (store / "0.parquet").write_bytes(b"no Parquet")
    return store


def leave_notes(store: Path, outside: Path) -> None:
    """Leave what the processes of trials and sweeps leave; none of it is as they write it."""
    owner = asdict(replace(Owner(), place="elsewhere", host=ORDERS))
    now = {"step": 1, "total_steps": 2, "loss": 1.0, "dev": 1.0, "sentences_per_second": 1.0}
    running = [
        {"label": ORDERS, "seconds": 1.0, "progress": now, "curve": [1.0]},
        {"label": "a", "seconds": 1.0, "progress": {**now, "total_steps": 0}, "curve": []},
        {"label": "b", "seconds": "x", "progress": {**now, "loss": ORDERS}, "curve": ["x"]},
        {"label": "c", "seconds": 1e308, "progress": None, "curve": [1e308, -1e308, 1e300]},
        {"label": [], "seconds": None, "progress": [], "curve": 5},
        [],
    ]
    sweeps = [
        {"title": ORDERS, "done": 1, "to_run": 2, "best": 1.0, "best_label": ORDERS},
        {"title": 5, "done": "x", "trial_seconds": 1e308, "best": ORDERS},
    ]
    folders = [store / ".running" / key_of(number) for number in range(1, 8)]
    folders += [store / ".sweeps" / f"{number:032x}" for number in range(3)]
    notes = [*map(json.dumps, running), "[" * 100_000, *map(json.dumps, sweeps), "{}"]
    for folder, note in zip(folders, notes, strict=True):
        folder.mkdir(parents=True)
        name = "state.json" if ".sweeps" in folder.parts else "progress.json"
        (folder / name).write_text(note)
        (folder / "claim").write_text(json.dumps(owner) + "\n")
    folders[4].joinpath("claim").write_text(json.dumps(owner | {"process": ORDERS, "began": 5}))
    for number, name in ((8, "progress.json"), (9, "claim")):
        (store / ".running" / key_of(number)).mkdir()
        os.mkfifo(store / ".running" / key_of(number) / name)
        other = {"claim": "progress.json", "progress.json": "claim"}[name]
        (store / ".running" / key_of(number) / other).symlink_to(outside)


VERBS = [
    "list trials --all", "table", "watch --once", "table --paper simcse --table 1",
    "table --format markdown", "table --format csv", "report --out OUT",
    "figure --sweep a-search --out OUT", "merge STORE --into OUT", "publish STORE OUT",
    "clean --dry-run", "plan quickstart", "compare KEY1 KEY2", "eval KEY1 --suite graded",
    "eval KEY4 --suite graded", "eval KEY7 --suite graded", "retrieve KEY4 words",
    "export KEY1 OUT", "logs secret", "logs KEY1", "logs KEY2", "logs KEY3",
    *(f"show KEY{number}" for number in range(1, 15)),
    *(f"show {digit * 32}" for digit in "abcdef"),
]  # fmt: skip
"""Evaluations of a method with a path, with a name, and with a suite of its own, among others"""


def words_of(verb: str, store: Path, out: Path) -> list[str]:
    """The words of one of VERBS."""
    words = re.sub(r"KEY(\d+)", lambda match: key_of(int(match[1])), verb).split()
    paths = {"STORE": str(store), "OUT": str(out)}
    own = [] if words[0] in ("merge", "publish") else ["--store", str(store)]
    return [paths.get(word, word) for word in words] + own


@pytest.mark.slow
def test_a_strangers_store(strangers: Path, tmp_path: Path, harness: Harness) -> None:
    """No code runs, no traceback is printed, no file is written elsewhere, no order is obeyed."""
    before = snapshot(tmp_path, strangers)
    for number, verb in enumerate(VERBS):
        out = tmp_path / f"out{number}"
        answer = harness(*words_of(verb, strangers, out))
        printed = answer.out + answer.err
        assert answer.code in (0, 1, 2), verb
        assert "Traceback" not in printed, verb
        orders = {sign for sign in printed if unicodedata.category(sign) in ("Cc", "Cf")}
        assert orders <= {"\n", "\t"}, verb
        assert not list(tmp_path.rglob(MARKER)), verb
        after = snapshot(tmp_path, strangers)
        assert {path for path in after if after[path] != before.get(path)} == set(), verb
        assert "a secret" not in printed, verb
        for path in out.rglob("*"):
            assert not path.is_symlink(), verb
            assert path.is_dir() or b"a secret" not in path.read_bytes(), verb


def snapshot(folder: Path, store: Path) -> dict[Path, bytes]:
    """The files of a folder but for the cache, the output and what harness keeps of a store."""
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
        and not path.relative_to(folder).parts[0].startswith(("cache", "out"))
        and not (path.is_relative_to(store) and path.name.startswith("."))
    }


def test_code_that_its_user_has_named_runs(
    strangers: Path, harness: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The control: the file does run where the user names it, and its content is known then."""
    harness("show", key_of(1), "--store", strangers)
    assert "plugin.py, whose Python code you have not run before" in caplog.text
    assert not (tmp_path / "work" / MARKER).exists()
    harness("show", "plugin.py")
    assert (tmp_path / "work" / MARKER).exists()
    known = tmp_path / "cache" / "known-code"
    assert known.stat().st_mode & 0o777 == 0o600
    (tmp_path / "work" / MARKER).unlink()
    registry.load.cache_clear()
    (tmp_path / "work" / "plugin.py").write_text(CODE + "# changed\n")
    harness("show", key_of(1), "--store", strangers)
    assert not (tmp_path / "work" / MARKER).exists()


@pytest.mark.slow
def test_merge_takes_what_is_sound_and_names_the_rest(
    strangers: Path, harness: Harness, tmp_path: Path
) -> None:
    """And notes are shown as they are."""
    answer = harness("merge", strangers, "--into", tmp_path / "into")
    for name, why in (
        ("../../x", "its key is not the name of the file"),
        ("b" * 32, "its role is none of search, final, evaluation"),
        ("c" * 32, "its key is not the name of the file"),
        ("e" * 32, "its configuration is not a JSON object"),
        ("f" * 32, "its test has a value that is not a finite number"),
    ):
        assert why in answer.out + answer.err, name
    taken = Store(tmp_path / "into").read(()).table["key"].to_pylist()
    assert sorted(taken) == [key_of(number) for number in range(1, 15)]
    assert not list(tmp_path.rglob("x*.parquet"))
    assert not list(tmp_path.glob("into-weights/*"))
    shown = harness("watch", "--store", strangers, "--once").out
    assert "\\x1b[2J\\x1b]0;title\\x07" in shown
    assert "1/2 done" in shown
    refused = harness("logs", key_of(1), "--store", strangers)
    check_sentence(refused, "cannot be read: it is a link")


@pytest.mark.parametrize("hidden", [".running", ".sweeps"])
def test_nothing_is_removed_through_a_link_of_a_store(
    hidden: str, tmp_path: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep removes what killed sweeps have left, and `clean` what no trial of the store has."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    store, home = Store(tmp_path / "theirs" / "trials"), tmp_path / "home"
    store.write(record(1))
    for name in ("a", "0" * 32, key_of(1), f"{'1' * 32}/a", "notes.txt", "a.journal.txt/b"):
        path = home / name / "a file"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of the user")
    before = snapshot(home, store.folder)
    (store.folder / hidden).symlink_to(home)
    with pytest.raises(UserError, match=r"is a link"):
        use_hidden_folders(store)
    (store.folder / hidden).unlink()
    for beside in ("logs", "studies", "weights"):
        store.folder.with_name(f"trials-{beside}").symlink_to(home)
    for path in [home, *home.rglob("*")]:
        os.utime(path, (0, 0))
    harness("clean", "--yes", "--store", store.folder)
    assert snapshot(home, store.folder) == before


def use_hidden_folders(store: Store) -> None:
    """Do what a sweep and its trial do with the hidden folders."""
    store.running(key_of(1))
    with publishing(store) as publish:
        publish(SweepState())


@pytest.mark.parametrize("kind", ["link", "pipe", "link to nothing"])
def test_no_output_goes_through_a_link(kind: str, tmp_path: Path) -> None:
    """A trial that is run again on somebody's store writes its own log."""
    store, outside = Store(tmp_path / "theirs" / "trials"), tmp_path / "profile"
    outside.write_text("of the user\n" * 200_000)
    path = store.log_here(key_of(1))
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(outside if kind == "link" else tmp_path / "new")
    log = BoundedLog(path)
    log.add(b"an output")
    log.close()
    assert outside.read_text() == "of the user\n" * 200_000
    assert not (tmp_path / "new").exists()
    assert not path.is_symlink()
    assert path.read_text().endswith("an output")


TEXT = st.one_of(
    st.text(max_size=8), st.sampled_from([ORDERS, "../../x", "nan", "", "final", "0" * 32, "{}"])
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


def values_of(name: str, kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values that a stranger may write into a column of this type."""
    if name == "status":
        return st.sampled_from([*RANK, "weird", None])
    if name == "role":
        return st.sampled_from(["search", "final", "evaluation", "weird", None])
    if name in JSON_COLUMNS:
        return st.one_of(st.none(), TEXT, JSON.map(repr), JSON.map(json.dumps))
    values: st.SearchStrategy[Any] = TEXT
    if pa.types.is_map(kind):
        pairs = st.tuples(TEXT, values_of("", kind.item_type))
        values = st.lists(pairs, max_size=2, unique_by=lambda each: each[0])
    elif pa.types.is_list(kind):
        values = st.lists(values_of("", kind.value_type), max_size=2)
    elif pa.types.is_struct(kind):
        values = st.fixed_dictionaries({each.name: values_of("", each.type) for each in kind})
    elif pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        values = st.sampled_from([0, 1, -1, most - 1, -most])
    elif pa.types.is_floating(kind):
        values = st.floats() | st.sampled_from([0.0, 50.0, 1e308])
    elif pa.types.is_timestamp(kind):
        values = st.sampled_from([datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)])
    return st.none() | values


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """A sound row in which up to four columns are anything."""
    row = record(draw(st.integers(1, 3))).row()
    for name in draw(st.lists(st.sampled_from(SCHEMA.names), max_size=4, unique=True)):
        row[name] = draw(values_of(name, SCHEMA.field(name).type))
    return row


@pytest.mark.slow
@pytest.mark.parametrize(
    "verb",
    ["list trials --all", "table", "merge STORE --into OUT", "publish STORE OUT", "show NAME",
     "report --out OUT"],
)  # fmt: skip
def test_any_record_is_data(
    verb: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARNESS_HUB", raising=False)

    @settings(
        max_examples=6 if verb.startswith("report") else 25,
        deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(row=rows())
    def check(row: dict[str, Any]) -> None:
        folder = tmp_path_factory.mktemp("any")
        store = folder / "trials"
        name = str(row["key"]) if row["key"] and "/" not in str(row["key"]) else "0" * 32
        Store(store).write(record(9))
        try:
            table = pa.Table.from_pylist([{each: row[each] for each in SCHEMA.names}], SCHEMA)
            pq.write_table(table, store / f"{name}.parquet")
        except (OSError, ValueError, pa.ArrowException, OverflowError):
            return  # a stranger cannot write it either
        words = words_of(verb, store, folder / "out")
        before = {path for path in folder.parent.glob("*") if path != folder}
        try:
            # What is no sentence is raised.
            code = run_verb([name[:32] if word == "NAME" else word for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
        assert code in (0, 1, 2)
        assert {path for path in folder.parent.glob("*") if path != folder} == before
        files = {"trials", "out", "out-weights", "trials-flat.parquet", "out-flat.parquet"}
        assert {path.name for path in folder.iterdir()} <= files

    check()
