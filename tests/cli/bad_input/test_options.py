"""Options and arguments of the command line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.trials.store import Store
from harness.trials.trial import Trial, failed

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]
LineOf = Callable[[Path, str], str]


@pytest.mark.parametrize("numbers", ["a,b", "0;1", "0,,1", "1.5", "0,-1", "4294967296"])
@pytest.mark.parametrize("option", ["--seeds", "--subsets"])
def test_bad_seeds_and_subsets(
    option: str, numbers: str, refused: Refused, space: SpaceFile
) -> None:
    refused(["plan", space(), f"{option}={numbers}"], f"{option} {numbers}", "whole numbers")


@pytest.mark.parametrize("seed", ["-1", "4294967296"])
def test_bad_seed_of_one_run(seed: str, refused: Refused) -> None:
    arguments = ["--encoder", "tiny-bert", "--set", "suite=graded"]
    refused(["run", "pooling", *arguments, f"--seed={seed}"], "seed", seed)


@pytest.mark.parametrize("verb", ["sweep", "plan"])
def test_last_argument_is_no_yaml_file(verb: str, refused: Refused) -> None:
    refused([verb, "simcse"], '"simcse" is not a search space', ".yaml")


def test_unknown_search_space(refused: Refused) -> None:
    refused(["plan", "simcse", "quickstrat"], '"quickstrat"', 'did you mean "quickstart"?')


def test_unknown_paper(refused: Refused) -> None:
    refused(["table", "--paper", "difaug"], '"difaug"', 'did you mean "diffaug"?')


def test_table_that_cannot_be_written(refused: Refused, tmp_path: Path) -> None:
    refused(
        ["table", "--output", tmp_path / "none" / "table.txt"], "table.txt", "cannot be written"
    )


def test_parquet_on_the_screen(refused: Refused) -> None:
    refused(["table", "--format", "parquet"], "--output")


def test_show_of_an_unknown_key(refused: Refused, store: Path) -> None:
    refused(["show", "4f2a"], store, '"4f2a"', "harness list trials")


def test_show_of_an_ambiguous_key(refused: Refused, tmp_path: Path) -> None:
    store = Store(tmp_path / "two")
    for pooling in ("cls", "mean"):
        values = {"encoder": "tiny-bert", "suite": "graded", "pooling": pooling}
        store.write(failed(Trial("pooling", values, 0), "why"))
    refused(["show", "", "--store", store.folder], "2 trials have keys", "give more characters")


@pytest.mark.parametrize("name", ["two-words", "1st", "a b"])
def test_new_with_a_bad_name(name: str, refused: Refused, tmp_path: Path) -> None:
    refused(["new", tmp_path / name], f'"{name}" cannot be the name of a method')
    assert not (tmp_path / name).exists()


def test_new_on_an_existing_path(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    refused(["new", tmp_path / "mine"], tmp_path / "mine", "exists already")
    assert not list((tmp_path / "mine").iterdir())


def test_new_below_a_file(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(["new", tmp_path / "file" / "mine"], "cannot be written")
