"""Output of verbs on streams of every kind, and Ctrl-C before anything has begun."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli.output import Screen
from harness.cli.verbs import GROUPS, VERBS, app, command
from harness.errors import one_line, visible
from harness.trials.store import Store
from tests.cli.conftest import Harness, Shown, Swept
from tests.sweeping import heed_signals

HOSTILE = ["\x1b[31mred", "\x9b2J", "a\u202eb", "a\u2066b", "a\u200bb", "a\u200fb", "a\rb",
           "a\u2028b"]  # fmt: skip


def test_orders_to_a_terminal_are_shown_by_their_escapes(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """The screen obeys no text of others, and an error about a hostile name is a clean sentence."""
    for text in HOSTILE:
        for shown in (visible(text), one_line(text)):
            assert shown.isprintable()
            assert "\\" in shown
    for text in ("plain", "Zürich 東京\u3000\xa0é", "two\nlines\tand a tab", "[red]no markup[/]"):
        assert visible(text) == text
    for text in (*HOSTILE[:6], "[/]", "[red]x[/red]", ":smile:"):
        Screen().print(f"name {text}", soft_wrap=True)
        assert capsys.readouterr().out == f"name {visible(text)}\n"
    answer = harness("show", "\x1b]0;title\x07\u202e")
    assert answer.code == 2
    assert answer.err.rstrip("\n").isprintable()


def ended(words: str, **environment: str) -> "subprocess.CompletedProcess[bytes]":
    """The real program, by a shell."""
    command = f"{sys.executable} -m harness {words}"
    return subprocess.run(
        command, shell=True, capture_output=True, env=os.environ | environment, timeout=100
    )


@pytest.mark.process
@pytest.mark.slow
def test_odd_streams() -> None:
    """Streams with few characters, closed ones, and a full disk behind the output."""
    done = ended("sweep --help", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"--configurations" in done.stdout
    for streams in (">&-", "2>&-", ">&- 2>&-", "| head -1"):
        done = ended(f"table --store no-such/store {streams}")
        assert b"Traceback" not in done.stdout + done.stderr
        assert done.returncode == 0
    for words in ("list methods", "--help", "table --format csv --store none"):
        done = ended(f"{words} > /dev/full")
        assert done.returncode == 1
        assert done.stderr == b"Error: the output cannot be written (No space left on device)\n"


@pytest.mark.process
@pytest.mark.slow
def test_a_working_folder_that_was_removed_is_a_sentence(tmp_path: Path) -> None:
    for words in ("list methods", "plan pooling quickstart"):
        command = f'mkdir gone; cd gone; rmdir ../gone; "{sys.executable}" -m harness {words}'
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 2
        assert done.stderr.splitlines() == [
            "Error: the working folder cannot be used (No such file or directory); "
            "`cd` to another one"
        ]


IN_EXEC = 'exec("raise KeyboardInterrupt")'
IN_A_FINALISER = """
import signal, time
class Last:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)
Last()
time.sleep(60)
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("where", [IN_EXEC, IN_A_FINALISER], ids=["exec", "finaliser"])
def test_ctrl_c_where_python_hides_it_is_a_sentence(where: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(where, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "harness", "show", tmp_path / "mine.py"],
        capture_output=True, text=True, timeout=50, check=False, preexec_fn=heed_signals,
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    assert "Interrupted. What has finished is in the store" in done.stderr


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "module"),
    [("list methods", b"typer"),
     ("run simcse --encoder tiny-bert --set suite=graded --set sentences=graded-sentences",
      b"torch"),
     ("sweep pooling quickstart --no-local", b"ray"),
     ("eval tiny-bert --suite graded", b"transformers"),
     ("table", b"pyarrow")],
)  # fmt: skip
def test_ctrl_c_during_imports_is_a_sentence(words: str, module: bytes, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-X", "importtime", "-m", "harness", *words.split()],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, preexec_fn=heed_signals,
    )  # fmt: skip
    assert process.stderr is not None
    seen = re.compile(rb"\| +" + re.escape(module) + rb"(\.|$)", re.MULTILINE)
    while not seen.search(line := process.stderr.readline()):
        assert line, "the import was not seen"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Interrupted. What has finished" in err
    assert b"Traceback" not in err


# What is known of a verb before its module is imported: its sentence, its options, its name.


def test_the_help_has_the_first_sentence_of_each_verb(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The help is shown where no verb is named, too; a switch is shown without its type."""
    for verb in ("table", "sweep", "clean"):
        assert "bool" not in shown(verb, "--help")
    monkeypatch.setenv("COLUMNS", "300")
    text = shown()
    assert shown("--help") == text
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    for verb in VERBS:
        assert str(command(verb).help).splitlines()[0] in lines[verb]
    for group in GROUPS:
        for example in group.examples:
            assert f"    harness {example}\n" in text
            verb, *words = example.split()
            assert verb in group.modules
            options = {name for param in command(verb).params for name in param.opts}
            assert {word for word in words if word.startswith("--")} <= options


def completed(typed: object) -> str:
    """Completions that a shell is offered for what was typed."""
    asked = {"_HARNESS_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"harness {typed}"}
    return CliRunner().invoke(app, [], prog_name="harness", env=asked).output


@pytest.mark.parametrize(
    ("typed", "offered", "meaning"),
    [
        ("sh", "show", "Show a trial"),
        ("li", "list", "List methods"),
        ("show --en", "--encoder", "Of a paper"),
        ("eval --po", "--pooling", "The pooling of a plain encoder"),
        ("run sim", "simcse", "SimCSE"),
        ("run methods/sim", "methods/simcse/", ""),
        ("plan simcse quick", "quickstart", "a search space"),
        ("run simcse --encoder tin", "tiny-bert", ""),
        ("show --store no/such/store sim", "simcse", "SimCSE"),
    ],
)
def test_a_shell_completes_what_is_typed(typed: str, offered: str, meaning: str) -> None:
    shown = completed(typed)
    assert f'"{offered}"' in shown
    assert meaning in shown


def test_a_shell_completes_the_keys_of_a_store(swept: Swept) -> None:
    key = min(Store(swept.store).finished_keys())[:10]
    for verb in ("show", "logs", "eval", "export"):
        shown = completed(f"{verb} --store {swept.store} {key[:4]}")
        assert f'"{key}":"' in shown
        assert "simcse unsup tiny-bert seed" in shown


@pytest.mark.process
def test_fish_is_offered_a_word_in_one_line() -> None:
    asked = {"_HARNESS_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    typed = {"_TYPER_COMPLETE_ARGS": "harness run sim"}
    command = [sys.executable, "-m", "harness"]
    shown = subprocess.run(
        command, env={**os.environ, **asked, **typed}, capture_output=True, text=True, check=True
    )
    [line] = shown.stdout.splitlines()
    assert line.startswith("simcse\tSimCSE: ")
