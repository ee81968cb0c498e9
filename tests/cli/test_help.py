"""What is known of a verb before its module is imported: its sentence, its options, its name."""

import pytest
from typer.testing import CliRunner

from harness.cli.verbs import GROUPS, VERBS, app, command, run_verb
from harness.trials.store import Store
from tests.cli.conftest import Swept


def test_the_help_has_the_first_sentence_of_each_verb(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    run_verb(["--help"])
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    for verb in VERBS:
        assert str(command(verb).help).splitlines()[0] in lines[verb]


@pytest.mark.parametrize(
    ("typed", "offered", "meaning"),
    [
        ("harness sh", "show", "Show a trial"),
        ("harness li", "list", "List methods"),
        ("harness show --en", "--encoder", "Of a paper"),
        ("harness eval --po", "--pooling", "The pooling of a plain encoder"),
        ("harness run sim", "simcse", "SimCSE"),
        ("harness run methods/sim", "methods/simcse/", ""),
        ("harness plan simcse quick", "quickstart", "a search space"),
        ("harness run simcse --encoder tin", "tiny-bert", ""),
        ("harness show --store no/such/store sim", "simcse", "SimCSE"),
    ],
)
def test_a_shell_completes_what_is_typed(typed: str, offered: str, meaning: str) -> None:
    asked = {"_HARNESS_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": typed}
    shown = CliRunner().invoke(app, [], prog_name="harness", env=asked).output
    assert f'"{offered}"' in shown
    assert meaning in shown


def test_a_shell_completes_the_keys_of_a_store(swept: Swept) -> None:
    key = min(Store(swept.store).finished_keys())[:10]
    for verb in ("show", "logs", "eval", "export"):
        typed = f"harness {verb} --store {swept.store} {key[:4]}"
        asked = {"_HARNESS_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": typed}
        shown = CliRunner().invoke(app, [], prog_name="harness", env=asked).output
        assert f'"{key}":"' in shown
        assert "simcse unsup tiny-bert seed" in shown


def test_the_examples_of_the_help_have_options_that_exist() -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    for group in GROUPS:
        for example in group.examples:
            assert f"    harness {example}\n" in shown
            verb, *words = example.split()
            assert verb in group.modules
            options = {name for param in command(verb).params for name in param.opts}
            assert {word for word in words if word.startswith("--")} <= options


def test_a_switch_is_shown_without_its_type() -> None:
    for verb in ("table", "sweep", "clean"):
        shown = CliRunner().invoke(app, [verb, "--help"]).output
        assert "--help" in shown
        assert "bool" not in shown
