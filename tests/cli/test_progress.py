"""A verb that computes says on stderr what it does: a line at once, and a bar in a terminal."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from harness.cli.progress import working
from harness.errors import UserError
from harness.trials.store import Store
from tests.cli.conftest import Swept
from tests.cli.test_light_verbs import HEAVY, in_a_new_python


@contextmanager
def terminal() -> Iterator[Callable[[], str]]:
    """In the block, stderr is a terminal; gives what reads all that it has shown so far."""
    master, slave = os.openpty()
    os.set_blocking(master, False)

    def shown() -> str:
        content = b""
        while True:
            try:
                content += os.read(master, 65536)
            except BlockingIOError:
                return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", content.decode())

    with os.fdopen(slave, "w", encoding="utf-8") as stream, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "120")
        patch.setattr(sys, "stderr", stream)
        yield shown
    os.close(master)


def wait_for(words: str, shown: Callable[[], str]) -> str:
    """Output that has been shown until the words are there, which a thread of rich writes."""
    text, end = "", time.monotonic() + 20
    while words not in text:
        assert time.monotonic() < end, f"{words} is not in {text[-200:]!r}"
        text += shown()
        time.sleep(0.01)
    return text


def test_elsewhere_each_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with working("evaluating a model on sts") as work:
        work("loading")
        for done in range(3):
            work("embedding sentences", done, 2000)
            work("scoring the tasks of sts", done, 7)
        with work.aside():
            print("a table")
    out, err = capsys.readouterr()
    assert out == "a table\n"
    steps = ["loading", "embedding sentences (2,000)", "scoring the tasks of sts (7)"]
    assert err.splitlines() == ["evaluating a model on sts", *steps]


@pytest.mark.slow
def test_a_terminal_shows_how_many_and_what_remains(capsys: pytest.CaptureFixture[str]) -> None:
    """The bar leaves room for what is printed, and goes at the end."""
    with terminal() as shown:
        with working("evaluating a model on sts") as work:
            wait_for("evaluating a model on sts", shown)
            for done in (0, 600, 1200):  # from two parts on, the rest can be estimated
                work("embedding sentences", done, 2000)
                time.sleep(0.01)
            seen = wait_for(" left", shown)
            assert re.search(r"embedding sentences .* 1,200 of 2,000 0:00:\d\d left", seen)
            with work.aside():
                shown()
                print("a table")
                assert shown() == ""
            wait_for("1,200 of 2,000", shown)
            work("writing")
            seen = wait_for("writing", shown)
            assert "2,000" not in seen.rpartition("writing")[2]
        shown()
        assert shown() == ""
    assert capsys.readouterr().out == "a table\n"


def test_a_mistake_takes_the_bar_away_and_names_give_no_orders() -> None:
    with terminal() as shown:
        with suppress(UserError), working("checking \x1b]0;title\x07[red]x[/red]") as work:
            work("of \x1b]0;title\x07[red]y[/red]")
            seen = wait_for("[red]y[/red]", shown)
            assert "\x07" not in seen
            assert "[red]x[/red]" in seen
            raise UserError("no")
        shown()
        assert shown() == ""


def test_every_verb_begins_with_a_line_and_leaves_stdout_alone(
    swept: Swept, harness: Any, tmp_path: Path
) -> None:
    store, report = tmp_path / "store", tmp_path / "report"
    answer = harness("merge", swept.store, "--into", store)
    assert answer.err.splitlines() == [
        f"merging {swept.store} into {store}",
        f"merging records of {swept.store} (4)",
        f"copying the weights of {swept.store} (4)",
        "compacting the store",
        "writing the flat file",
    ]
    assert answer.out == f"{store}: 4 new, 0 were there already\n"
    answer = harness("publish", store, tmp_path / "public")
    assert answer.err.splitlines() == [f"publishing {store} into {tmp_path / 'public'}"]
    for _ in range(2):  # the second time from the store
        answer = harness("eval", "tiny-bert", "--suite", "graded", "--store", store)
        assert answer.err.splitlines()[0] == "evaluating tiny-bert on graded"
        assert answer.out.startswith("tiny-bert (mean pooling)\n")
    answer = harness("report", "--out", report, "--store", store)
    assert answer.err.splitlines() == [
        f"writing a report of the store {store} into {report}",
        f"writing files ({len([*(report / 'data').iterdir()])})",
    ]
    answer = harness("figure", "--sweep", swept.space, "--store", store, "--output", tmp_path)
    assert answer.err.splitlines() == [
        f"drawing {swept.space} from the store {store}",
        f"drawing figures ({answer.out.count('.png')})",
    ]
    answer = harness("check", "pooling")
    assert answer.err.splitlines()[0] == "checking pooling"
    assert answer.out == "pooling keeps the contract.\n"


FIRST_LINES = {
    "eval KEY --suite graded": "evaluating KEY on graded",
    "compare KEY tiny-bert --suite graded": "comparing KEY and tiny-bert on graded",
    "retrieve KEY words": "asking KEY for the sentences of STS-B test",
    "picture KEY --output PICTURES": "drawing KEY into PICTURES",
    "export KEY OUT": "exporting KEY into OUT",
    "check simcse": "checking simcse",
    "prepare quickstart": "preparing what the trials of 3 searches share",
    "report --out OUT": "writing a report of the store STORE into OUT",
    "figure --paper d2cse --figure 2": "drawing figure 2 of d2cse from the store STORE",
}


@pytest.mark.process
def test_the_line_comes_before_the_heavy_modules(swept: Swept, cache: Path, tmp_path: Path) -> None:
    """A verb is ended when it imports the first of them; report and figure 2 import none."""
    finals = [row.key for row in Store(swept.store).matching("") if row.role == "final"]
    names = {"KEY": max(finals), "STORE": str(swept.store)}
    names |= {name: str(tmp_path / name) for name in ("OUT", "PICTURES")}

    def filled(text: str) -> list[str]:
        return [names.get(word, word) for word in text.split(" ")]

    commands = [
        filled(words if words.startswith("check") else f"{words} --store STORE")
        for words in FIRST_LINES
    ]
    # pyarrow imports pandas, in a quarter of a second, when a verb looks up its model.
    heavy = HEAVY - {"pandas", "matplotlib", "obstore", "deepspeed", "sentence_transformers"}
    answers = in_a_new_python(commands, cache, heavy)
    for words, line, answer in zip(commands, FIRST_LINES.values(), answers, strict=True):
        assert answer.err.startswith(" ".join(filled(line))), answer
        assert answer.code == (0 if words[0] in ("report", "figure") else None), answer
