"""What is known of a verb before its module is imported: its sentence, its options, its name."""

import pytest
from typer.testing import CliRunner

from harness.cli.verbs import VERBS, app, command


def test_the_help_has_the_first_sentence_of_each_verb() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "300"}).output
    lines = {line.strip("│ ").partition(" ")[0]: line for line in shown.splitlines()}
    for verb in VERBS:
        assert str(command(verb).help).splitlines()[0] in lines[verb]


@pytest.mark.parametrize(
    ("typed", "offered", "meaning"),
    [
        ("harness sh", "show", "Show a trial"),
        ("harness li", "list", "List methods"),
        ("harness show --en", "--encoder", "Of a paper"),
        ("harness eval --po", "--pooling", "The pooling of a plain encoder"),
    ],
)
def test_a_shell_completes_verbs_and_options(typed: str, offered: str, meaning: str) -> None:
    asked = {"_HARNESS_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": typed}
    shown = CliRunner().invoke(app, [], prog_name="harness", env=asked).output
    assert f'"{offered}":' in shown
    assert meaning in shown
