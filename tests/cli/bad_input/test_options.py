"""Refusals of the command line: options, arguments, names, and values behind `--set`.

At the end, a command in a process of its own for each way to end: no traceback, and no store.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import LineOf, Refused, SpaceFile, check_sentence

DIGITS = "9" * 5000
GRADED = ("--set", "suite=graded")
SIMCSE = ["run", "simcse", "--encoder", "tiny-bert"]


USAGE = [
    ("nosuch", "No such command 'nosuch'"),
    ("sweeep quickstart", "sweep"),
    ("--nope", "No such option: --nope"),
    ("sweep", "Missing argument"),
    ("compare tiny-bert", "Missing argument"),
    ("run simcse --sed 1", "--seed"),
    ("run simcse more", "unexpected extra argument"),
    ("run simcse --seed 1e3", "valid integer"),
    (f"run simcse --seed {DIGITS}", "maximum size"),
    (f"run simcse --seed {DIGITS[:30]}", "whole numbers from 0 to 4294967295"),
    ("run pooling --encoder tiny-bert --set suite=graded --seed=-1", "seed"),
    (f"plan quickstart --seeds {DIGITS}", "whole numbers"),
    ("plan quickstart --configurations 0", "--configurations"),
    (f"plan quickstart --configurations {DIGITS[:30]}", "1000000"),
    ("sweep quickstart --published --configurations 2", "are not searched"),
    ("sweep quickstart --budget 20minutes", "--budget 20minutes: write a duration"),
    ("sweep quickstart --budget 0m", "--budget 0m: write a duration of at least one"),
    ("sweep quickstart --budget 1h --published", "--budget has no meaning with"),
    ("plan quickstart --device h10", '--device h10: there is no such device; did you mean "h100"'),
    ("plan quickstart --device h100 --gpus 0", "--gpus 0: write a whole number, at least 1"),
    ("plan quickstart --gpus 2", "--gpus 2 needs a GPU: name one with --device"),
    ("plan quickstart --device cpu --gpus 2", "--gpus 2 needs a GPU"),
    ("plan quickstart --papers", "no space and no table is named beside it"),
    ("plan quickstart --cpus-per-trial 0", "--cpus-per-trial"),
    ("plan quickstart --cpus-per-trial 1e400", "finite"),
    ("sweep quickstart --gpus-per-trial nan", "--gpus-per-trial"),
    ("sweep quickstart --gpus-per-trial -1", "--gpus-per-trial"),
    ("sweep quickstart --dry-run=maybe", "--dry-run"),
    ("sweep quickstart --memory-per-trial inf", "finite"),
    ("sweep quickstart --trial-timeout soon", "90s, 30m or 2h"),
    ("sweep quickstart --trial-timeout 0s", "at least one second"),
    (f"sweep quickstart --trial-timeout {DIGITS}h", "90s, 30m or 2h"),
    ("sweep quickstart --address head", "--address head: write HOST:PORT, or auto"),
    ("prepare quickstart --address head:99999", "--address head:99999: write HOST:PORT"),
    ("reproduce diffaug --address ray://head:1", "a sweep does not run through Ray Client"),
    ("list methodz", "'methods'"),
    ("table --format pdf", "'latex'"),
    ("table --format parquet", "--output"),
    ("table --paper difaug", 'did you mean "diffaug"?'),
    ("table --table 2", "--paper PAPER"),
    ("table --paper diffaug --table 66", 'did you mean "6"?'),
    ("table --paper diffaug --table 9", "diffaug has no Table 9"),
    ("table --encoder mini-bert", "--paper PAPER"),
    ("list methods --encoder tiny-bert", "methods are listed without --encoder"),
    ("figure", "name what is drawn"),
    ("figure --sweep abcdef --paper diffaug", "name what is drawn"),
    ("figure --sweep abcdef --encoder tiny-bert", "belong to a paper"),
    ("figure --paper diffaug", "needs the number of a figure"),
    ("figure --paper diffau --figure 4", 'did you mean "diffaug"?'),
    ("figure --paper diffaug --figure 1", "there is 3, 4, 5"),
    ("figure --sweep abcdef --format gif", "is not one of 'png', 'svg', 'pdf'"),
    ("report --out report --paper diffaug --sweep quickstart", "two reports"),
    ("report --out report --encoder tiny-bert", "--encoder tiny-bert needs the name of a paper"),
    ("reproduce difaug", 'did you mean "diffaug"?'),
    ("reproduce diffaug --table 66", 'did you mean "6"?'),
    ("reproduce diffaug --table 5", "nothing to run for Table 5 of diffaug"),
    ("reproduce diffaug --table 6 --set batch_size=0", "batch_size = 0"),
    ("reproduce diffaug --table 6 --gpus-per-trial many", "--gpus-per-trial many"),
    ("plan --paper diffcse --table 4 --set encoder=tiny-bert", "named with --encoder tiny-bert"),
    ("compare 1 2", "there is no row 1: the store is empty"),
    ("eval tiny-bert --pooling max", "'mean'"),
    ("retrieve tiny-bert q --count 0", "--count"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "part"), USAGE, ids=lambda text: text[:40])
def test_usage(words: str, part: str, refused: Refused) -> None:
    """The parser's own messages are boxes of several lines. The store is not there."""
    refused([*words.split(), "--store", "none"], part)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["plan", "sweep"])
def test_table_as_target(verb: str, refused: Refused) -> None:
    for words, part in (
        ("--paper diffaug", "--paper P --table N"),
        ("--table 2", "--paper P --table N"),
        ("--paper difaug --table 2", 'did you mean "diffaug"?'),
        ("--paper diffaug --table 66", 'did you mean "6"?'),
        ("--paper diffaug --table 5", "nothing to run for Table 5 of diffaug"),
        ("--paper diffaug --table two", "--table"),
        ("unsup --paper diffaug --table 2", "unsup has no place beside it"),
        ("my.yaml --paper diffaug --table 2", "my.yaml has no place beside it"),
        ("simcs --paper diffaug --table 2", 'did you mean "simcse"?'),
        ("simcse --paper clsr --table 2", 'no row of this table runs the method "simcse"'),
        ("--paper clsr --table 4 --configurations 2", "nothing of this table is searched"),
        ("--paper diffaug --table 2 --set alpha=1", 'has a hyperparameter "alpha"'),
        ("--paper diffaug --table 2 --set subset=1", "use --subsets"),
        ("--paper diffaug --table 6 --set batch_size=0", "batch_size = 0"),
        ("--paper diffaug --table 2 --seeds one", "whole numbers"),
    ):
        refused([verb, *words.split()], part)


def test_bad_seeds_and_subsets(refused: Refused, space: SpaceFile) -> None:
    for option in ("--seeds", "--subsets"):
        for numbers in ("a,b", "0;1", "0,,1", "1.5", "0,-1", "4294967296"):
            refused(["plan", space(), f"{option}={numbers}"], f"{option} {numbers}", "whole numb")
    for key in ("seed", "subset"):
        parts = f"--set {key}", "not a hyperparameter", f"`{key}s:`", f"--{key}s"
        refused(["sweep", space(), "--set", f"{key}=1"], *parts)


SETS = [
    ("learning_rate", "key=value"),
    ("=3", "key=value"),
    ("learning_rat=3e-5", 'did you mean "learning_rate"?'),
    ("batch_size=1", "batch_size = 1: Input should be greater than or equal to 2"),
    ("learning_rate=[1, 2", "a valid number"),
    ("learning_rate=2026-13-45", "a valid number"),
    ("learning_rate=true", "valid number"),
    ("batch_size=true", "valid integer"),
    ("gradient_checkpointing=7", "boolean"),
    ("learning_rate=.nan", "valid number"),
    ("learning_rate=nan", "finite number"),
    ("learning_rate=-.inf", "valid number"),
    ("learning_rate=1.0e+400", "finite number"),
    ("temperature=0", "greater than 0"),
    ("epochs=1.0e+300", "less than or equal to 1000000"),
    ("batch_size=9223372036854775808", "beyond 64 bits"),
    ("batch_size='9223372036854775808'", "valid integer"),
    ("max_steps=1.0e+30", "max_steps"),
    ("max_length=9223372036854775808", "less than or equal to 512"),
    ("setting=[unsup]", "setting"),
    ("precision={a: 1}", "precision"),
    ("suite=[graded]", "unknown suite"),
    ("suite=3", "unknown suite"),
]


@pytest.mark.slow
def test_set(refused: Refused, space: SpaceFile) -> None:
    for number, (value, part) in enumerate(SETS):
        refused([*SIMCSE, *GRADED, "--set", value], value.partition("=")[0], part)
        if number < 4:
            refused(["sweep", space(), "--set", value], value.partition("=")[0], part)


ODD = ["x" * 5000, "/".join(["d" * 200] * 40), "a\nb", os.fsdecode(b"\xff\xfe")]
"""Names that are too long, alone or as a path, that have a line end, or that are no text"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    ["run NAME", "check NAME", "run pooling --encoder=NAME. --set suite=graded",
     "run simcse --set NAME=1", "plan NAME", "plan NAME.yaml", "table --paper=NAME",
     "eval NAME --suite graded", "eval tiny-bert --suite=NAME", "eval tiny-bert --suite=NAME.py",
     "show NAMEx", "new here/NAME-"],
)  # fmt: skip
def test_odd_name(words: str, refused: Refused) -> None:
    for name in ODD:
        refused([word.replace("NAME", name) for word in words.split()])


def test_odd_value(refused: Refused, space: SpaceFile) -> None:
    for field in ("sentences", "suite"):
        for name in ("x" * 5000, "a\nb", "a\0b.txt"):
            refused(["plan", space(), "--set", f"{field}={json.dumps(name)}"])


def test_name_that_leaves_the_mirror(refused: Refused) -> None:
    inside = "..|../tiny-bert|tiny-bert/..|harness/../../models/tiny-bert|a/./b|a//b"
    for name in [*inside.split("|"), "/tiny-bert", "~nobody-at-all/x", "", "a\nb"]:
        refused(["eval", name, "--suite", "graded"])
    arguments = ["run", "pooling", "--encoder", "a/../tiny-bert", *GRADED]
    refused(arguments, '"a/../tiny-bert" cannot be the name of a model', "ORGANISATION/NAME")


def test_new(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "file").touch()
    refused(["new", "a b"], '"a b" cannot be the name of a method')
    for words, part in (
        ("two-words", '"two-words" cannot be the name of a method'),
        ("1st", '"1st" cannot be the name of a method'),
        ("a/" + "m" * 300, ""),
        ("a/" * 2000 + "m", ""),
        ("mine", "mine exists already"),
        ("file/mine", "cannot be written"),
        ("paper simcse", 'harness has a paper or a method "simcse"; choose another name'),
        ("paper diffaug", 'harness has a paper or a method "diffaug"; choose another name'),
        ("paper a-b", '"a-b" cannot be the name of a method'),
        ("papers mine", "one folder is written, and not papers and mine"),
        ("paper mine --like pairs", "`harness new PATH --like pairs`"),
    ):
        refused(["new", *words.split()], part)


def check_process(answer: Any, store: Path, *parts: object) -> None:
    check_sentence(answer, *parts)
    assert "Traceback" not in answer.out + answer.err
    assert not store.exists()


@pytest.mark.slow
def test_what_a_process_parses_and_what_no_machine_has(
    process: Any, space: SpaceFile, store: Path, line_of: LineOf
) -> None:
    path, sweep = space("learning_rate", "learning_rat"), ("sweep", "--no-local", "--store", store)
    line = line_of(path, "learning_rat")
    check_process(process(*sweep, path), store, line, 'did you mean "learning_rate"?')
    answer = process(*sweep, space(), "--cpus-per-trial", 999)
    check_process(answer, store, "no machine has 999 CPUs", "lower --cpus-per-trial")


@pytest.mark.slow
def test_a_missing_file_does_not_wait_for_the_hub(process: Any, store: Path) -> None:
    """The answer comes at once, although the Hub is asked and cannot be reached."""
    mirror, home = store.with_name("mirror"), str(store.with_name("hub"))
    mirror.mkdir()
    environment = {"HARNESS_HUB": str(mirror), "HF_HUB_OFFLINE": None, "HF_HOME": home}
    words = ("run", "simcse", "--encoder", "tiny-bert", "--store", store)
    answer = process(*words, environment=environment, timeout=600)
    check_process(answer, store, mirror, "was not found", "set HARNESS_HUB")
