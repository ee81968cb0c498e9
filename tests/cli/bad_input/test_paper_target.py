"""Mistakes in naming a published table as the target of a sweep."""

from collections.abc import Callable
from pathlib import Path

import pytest

Refused = Callable[..., None]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["plan", "sweep"])
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--paper", "diffaug"], "--paper P --table N"),
        (["--table", "2"], "--paper P --table N"),
        (["--paper", "difaug", "--table", "2"], 'did you mean "diffaug"?'),
        (["--paper", "diffaug", "--table", "66"], 'did you mean "6"?'),
        (["--paper", "diffaug", "--table", "5"], "nothing to run for Table 5 of diffaug"),
        (["--paper", "diffaug", "--table", "0"], "--table"),
        (["--paper", "diffaug", "--table", "two"], "--table"),
        (["--paper", "../diffaug", "--table", "2"], 'did you mean "diffaug"?'),
        (["unsup", "--paper", "diffaug", "--table", "2"], "unsup has no place beside it"),
        (["my.yaml", "--paper", "diffaug", "--table", "2"], "my.yaml has no place beside it"),
        (["simcs", "--paper", "diffaug", "--table", "2"], 'did you mean "simcse"?'),
        (["--paper", "diffaug", "--table", "2", "--configurations", "2"], "are not searched"),
        (
            ["--paper", "diffaug", "--table", "2", "--set", "alpha=1"],
            'has a hyperparameter "alpha"',
        ),
        (["--paper", "diffaug", "--table", "2", "--set", "subset=1"], "use --subsets"),
        (["--paper", "diffaug", "--table", "6", "--set", "batch_size=0"], "batch_size = 0"),
        (["--paper", "diffaug", "--table", "2", "--seeds", "one"], "whole numbers"),
    ],
)
def test_table_as_target(verb: str, arguments: list[str], part: str, refused: Refused) -> None:
    refused([verb, *arguments], part)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--table", "2"], "--paper PAPER"),
        (["--paper", "diffaug", "--table", "66"], 'did you mean "6"?'),
        (["--paper", "diffaug", "--table", "9"], "diffaug has no Table 9"),
        (["--encoder", "mini-bert"], "--paper PAPER"),
    ],
)
def test_one_table_of_a_paper(arguments: list[str], part: str, refused: Refused) -> None:
    refused(["table", *arguments], part)


def test_a_store_that_is_no_folder(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "store.txt").touch()
    refused(
        ["plan", "--paper", "diffaug", "--table", "6", "--store", tmp_path / "store.txt"],
        "is a file, not a folder",
    )
