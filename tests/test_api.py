"""harness from Python: the functions of a script and of a notebook."""

import asyncio
import doctest
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import harness
import harness.api
from harness.data.corpora import source
from harness.errors import UserError
from harness.sweeps.plan import Plan
from harness.trials.store import Store
from tests.programs import forking_python
from tests.sweep.test_local import SLOWLY

NOTEBOOK = """\
import harness
harness.sweep("quickstart", "pooling", store="on-ray", local=False)
table = harness.sweep("quickstart", "pooling", store="trials", local=True)
table
"""


@pytest.mark.slow
def test_the_examples_of_the_docstrings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"harness": harness, "folder": tmp_path / "trials"}
    found = doctest.testmod(harness.api, extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert found.attempted >= 6
    assert found.failed == 0


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the search of one method."""
    folder = tmp_path_factory.mktemp("api") / "trials"
    harness.sweep("quickstart", "pooling", store=folder, local=True)
    return folder


@pytest.mark.slow
def test_a_sweep_is_that_of_the_command_line(trials: Path) -> None:
    """The same keys, and the table that the verb prints."""
    made = harness.table(trials)
    assert "first-last" in str(made)
    assert made._repr_html_().count("<table>") == 1
    assert b"\\begin{tabular}" in made.render("latex")
    assert harness.plan("quickstart", "pooling", store=trials).to_run == 0
    again = harness.sweep("quickstart", "pooling", store=trials, local=True)
    assert str(again) == str(made)
    assert set(harness.load(trials).role) == {"search", "final"}
    assert all(harness.load(trials).seed != 7)
    values = {"encoder": "tiny-bert", "suite": "graded", "pooling": "first-last"}
    record = harness.run("pooling", seed=np.arange(8)[7], store=trials, **values)
    assert (record.status, record.seed, type(record.seed)) == ("finished", 7, int)
    assert record.key == harness.run("pooling", seed=7, store=trials, **values).key


ONE_VALUE = """\
setting: unsup
suite: graded
select: {metric: graded-dev}
encoders: [tiny-bert]
methods:
  simcse:
    grid: {temperature: [0.04]}
    set: {sentences: graded-sentences, max_steps: 2}
final: {seeds: [0]}
"""


@pytest.mark.slow
def test_a_sweep_of_a_published_table_is_this_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    row = "label: A, system: plain, setting: unsup, encoder: tiny-bert, origin: a, values: [37.9]"
    Path("mine/paper.yaml").write_text(
        "title: Mine\ntables: {table1: {about: a, metric: spearman x100 on test, "
        f"columns: [graded], groups: [{{name: a, rows: [{{{row}}}]}}]}}}}\n"
        "systems: {plain: {method: pooling, configuration: {suite: graded, pooling: cls}}}\n",
        encoding="utf-8",
    )
    made = harness.sweep(paper="mine", table=1, store="trials", local=True)
    assert made.render("json") == harness.table("trials", paper="mine", number=1).render("json")
    (score,) = harness.load("trials")["test.graded"]
    assert f"{score:.1f}" in str(made).split()
    with pytest.raises(UserError, match="name a search space, or a table"):
        harness.sweep()


@pytest.mark.slow
def test_a_search_of_one_value_names_it_and_a_trial_counts_its_corpus(tmp_path: Path) -> None:
    space, store = tmp_path / "one.yaml", tmp_path / "trials"
    space.write_text(ONE_VALUE, encoding="utf-8")
    table = harness.sweep(space, store=store, local=True)
    assert "temperature=0.04" in str(table)
    [record] = Store(store).read().records()
    sentences = source("graded-sentences").paths(download=False)[0].read_text(encoding="utf-8")
    assert record.corpora == {"graded-sentences": len(sentences.splitlines())}


def test_a_plan_is_shown_as_html_and_a_table_beside_a_paper(tmp_path: Path) -> None:
    plan: Plan = harness.plan("quickstart", "pooling", store=tmp_path)
    assert plan.to_run == 4
    assert "<td>pooling unsup tiny-bert</td><td>round 1</td>" in plan._repr_html_()
    assert "DiffAug" in str(harness.table(tmp_path, paper="diffaug", number=1))
    (tmp_path / "trials").write_text("no folder")
    with pytest.raises(UserError, match="is a file, not a folder"):
        harness.table(tmp_path / "trials")


SPACE, PAPER = "quickstart", "diffaug"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: harness.sweep("quickstat"), 'did you mean "quickstart"'),
        (lambda: harness.run("simcse", learning_rat=1e-5), 'did you mean "learning_rate"'),
        (lambda: harness.run("simcse", seed=-1), "--seed -1: write whole numbers from 0"),
        (lambda: harness.run("simcse", seed="3"), "--seed '3': write whole numbers from 0"),
        (lambda: harness.plan(SPACE, seeds=[0, -1]), "--seeds 0,-1: write whole numbers"),
        (lambda: harness.plan(SPACE, paper=PAPER, table=1), "has no place beside it"),
        (lambda: harness.sweep(SPACE, gpus_per_trial=1.5), "a whole number of GPUs"),
        (lambda: harness.sweep(SPACE, trial_timeout=0.5), "at least one second"),
        (lambda: harness.sweep(SPACE, budget=4e9), "budget 4000000000.0: .* than 10000"),
        (lambda: harness.sweep(SPACE, local=True, trial_timeout="30m"), "leave out one"),
        (lambda: harness.table(paper="difaug"), 'did you mean "diffaug"'),
        (lambda: harness.run(3), "method = 3: write a text or a path"),
        (lambda: harness.run("simcse", store=3), "store = 3: write a path, a text or None"),
        (lambda: harness.load(["a"]), "store = .* write a path, a text or None"),
        (lambda: harness.encoder(None), "folder = None: write a path or a text"),
        (lambda: harness.plan(SPACE, ["simcse"]), "method = .'simcse'.: write a text"),
        (lambda: harness.plan(SPACE, gpus="8"), "gpus = '8': write a whole number or None"),
        (lambda: harness.plan(SPACE, values=["a=1"]), "values = .* write a dictionary"),
        (lambda: harness.plan(SPACE, values={1: 2}), "a name in values = 1: write a text"),
        (lambda: harness.plan(SPACE, encoders=3), "encoder = 3: write a text or a path"),
        (lambda: harness.plan(SPACE, published="no"), "published = 'no': write True or False"),
        (lambda: harness.plan(SPACE, memory_per_trial="8"), "= '8': write a number or None"),
        (lambda: harness.plan(SPACE, encoder="a"), 'no option "encoder"; did you mean "enc'),
        (lambda: harness.table(paper=PAPER, number=1.0), "write a whole number, a text or None"),
        (
            lambda: harness.table().render("terminal", 0),
            "width = 0: write a whole number, at least",
        ),
        (lambda: harness.table(number=3), "needs the name of its paper"),
        (lambda: harness.table(encoder="tiny-bert"), "needs the name of a paper"),
        (lambda: harness.table(values={"max_steps": 1}), "need the name of a paper"),
        (lambda: harness.table(paper=PAPER, values={"max_step": 1}), 'did you mean "max_steps"'),
    ],
)
def test_mistakes_are_the_sentences_of_the_command_line(
    call: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        call()


# More than 20 s: a kernel, and in it a sweep here and one on Ray.
@pytest.mark.process
@pytest.mark.slow
def test_a_sweep_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel, a fork, has a loop of its own, and the table is shown as HTML."""
    import nbclient
    import nbformat

    monkeypatch.setattr(sys, "executable", forking_python())
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    kernel = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    kernel.execute(env=dict(os.environ))
    [cell] = notebook.cells
    [shown] = [each for each in cell.outputs if each.output_type == "execute_result"]
    assert "first-last" in shown.data["text/html"]
    progress = "".join(each.text for each in cell.outputs if each.output_type == "stream")
    assert "4/4" in progress


@pytest.mark.slow
def test_runs_of_several_threads_have_the_scores_of_one_alone(tmp_path: Path) -> None:
    """One after the other: they would draw from one state of random numbers."""

    def score(seed: int, store: str) -> dict[str, float]:
        values = {"suite": "graded", "sentences": "graded-sentences", "max_steps": 3}
        where = {"encoder": "tiny-bert", "store": tmp_path / store, "seed": seed}
        return harness.run(plugin, **where, **values).test

    plugin = tmp_path / "slowly.py"  # which nothing has imported yet
    plugin.write_text(SLOWLY, encoding="utf-8")
    before = sys.stdout
    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(score, (1, 2), ("together", "together")))
    assert sys.stdout is before
    assert together == [score(seed, "alone") for seed in (1, 2)]


@pytest.mark.slow
def test_ctrl_c_in_a_notebook_saves_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python gives Ctrl-C to the main thread, which waits for the one that trains."""
    plugin, store = tmp_path / "slowly.py", Store(tmp_path / "trials")
    plugin.write_text(SLOWLY, encoding="utf-8")
    monkeypatch.setenv("HARNESS_TEST_PAUSE", "0.1")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    values = {"encoder": "tiny-bert", "suite": "graded", "sentences": "graded-sentences"}
    steps = {"max_steps": 40, "batch_size": 8, "evaluation_interval": 40}

    def interrupt() -> None:
        while not list(store.running_folder.glob("*/progress.json")):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    async def cell() -> None:
        threading.Thread(target=interrupt, daemon=True).start()
        harness.run(str(plugin), store=store.folder, **values, **steps)

    try:
        with pytest.raises(KeyboardInterrupt):
            # As in a kernel: asyncio.run would handle the signal itself.
            asyncio.new_event_loop().run_until_complete(cell())
    finally:
        signal.signal(signal.SIGINT, before)
    assert list(store.running_folder.rglob("checkpoint.safetensors"))
    monkeypatch.setenv("HARNESS_TEST_PAUSE", "0")
    record = harness.run(str(plugin), store=store.folder, **values, **steps)
    assert (record.status, record.steps) == ("finished", 40)


def test_a_method_and_a_file_may_be_named_by_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, sentences = tmp_path / "slowly.py", tmp_path / "none.txt"
    plugin.write_text(SLOWLY, encoding="utf-8")
    with pytest.raises(UserError, match="there is no such file"):
        harness.run(plugin, encoder=Path("tiny-bert"), sentences=sentences)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="there is no store results/trials"):
        harness.load()
