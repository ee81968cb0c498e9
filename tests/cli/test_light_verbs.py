"""Verbs that print, and refusals of wrong names and values, import nothing heavy.

They run one after the other in a new Python, whose `sys.modules` is looked at behind each of them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.cli.verbs import VERBS
from harness.trials.store import Store
from tests.cli.conftest import REPOSITORY, Swept

pytestmark = pytest.mark.process
HEAVY = {
    "datasets", "deepspeed", "matplotlib", "mteb", "obstore", "optuna", "pandas",
    "pyarrow.dataset", "ray", "scipy", "sentence_transformers", "sklearn", "tokenizers", "torch",
    "transformers",
}  # fmt: skip
PROGRAM = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
commands, ending = json.loads(sys.argv[1])
class Ended(BaseException):
    pass
class Ends:
    def find_spec(self, name, path=None, target=None):
        if name in ending:
            raise Ended
sys.meta_path.insert(0, Ends())
from harness.cli import main
answers = []
for words in commands:
    sys.argv, code = ["harness", *words], None
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        except Ended:
            pass
    answers.append([code, out.getvalue(), err.getvalue(), [*sys.modules]])
print(json.dumps(answers))
"""


class Answer(NamedTuple):
    """The answer to a command, and what this one and those before it have imported."""

    code: int | None
    """Exit code; None where the command was ended when it imported a module"""
    out: str
    err: str
    modules: list[str]


def in_a_new_python(
    commands: Iterable[Iterable[object]], cache: Path, ending: Collection[str] = ()
) -> list[Answer]:
    """Run commands one after the other. A command ends when it imports a module of `ending`."""
    words = [[str(word) for word in command] for command in commands]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([words, [*ending]])],
        capture_output=True, text=True, timeout=1200, check=True, cwd=REPOSITORY,
        env={**os.environ, "HARNESS_CACHE": str(cache)},
    )  # fmt: skip
    return [Answer(*answer) for answer in json.loads(done.stdout)]


LIGHT = {
    "--help": "sweep",
    "--version": f"torch {version('torch')}",
    "swep": "sweep",
    "sweep --help": "--dry-run",
    "list methods": "SimCSE",
    "list papers": "diffaug",
    "list suites": "transfer-senteval",
    "list spaces": "quickstart",
    "list corpora": "wiki1m",
    "show diffcse": "masking_ratio",
    "plan d2cse unsup": "trials to run",
    "plan flow whitening unsup": "trials to run",
    "plan decoders": "trials to run",
    "sweep --paper diffaug --table 1 --dry-run": "trials to run",
    "sweep --paper diffaug --table 1 --store no/store": "was not found",
    "sweep simcse quickstart --set suite=mteb:STS222 --store no/store": 'did you mean "STS22"?',
    "run simcse --set learning_rat=1": "learning_rate",
    "run simcse --set learning_rate=-1": "greater than 0",
    "sweep --paper diffaug --table 1 --set learning_rat=1": "learning_rate",
    "compare tiny-bert tiny-bert --suite mteb:STS22": "no sentence pairs to resample",
    "run simcsee": "simcse",
    "sweep simcse unsup": 'model "bert-base-uncased" was not found',
    "prepare simcse unsup": 'model "bert-base-uncased" was not found',
    "sweep simcse unsupp": "unsup",
    "sweep simcse unsup --encoder no/such --dry-run": "Not here yet",
    "eval --no-such": "No such option",
}
"""Command -> a part of what it prints; those without a verb come first"""


def test_nothing_heavy(cache: Path, tmp_path: Path) -> None:
    """Also in the plan of a decoder that is here, which needs the head it was trained with."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    more = {"num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 128}
    kind = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(kind | sizes | more), encoding="utf-8")
    light = LIGHT | {f"plan prompteol decoders --encoder {tmp_path}": "4 trials to run"}
    answers = in_a_new_python(map(str.split, light), cache)
    for (words, part), answer in zip(light.items(), answers, strict=True):
        assert part in answer.out + answer.err, words
        assert not HEAVY.intersection(answer.modules), words
        if words.split()[0] not in VERBS:
            verbs = {f"harness.cli.{module}" for module in VERBS.values()}
            assert not verbs.intersection(answer.modules), words


WRONG_NAMES = {
    "plan simcse unsupp": "unsup",
    "run d2cse --set learning_rat=1": "learning_rate",
    "run d2cse --encoder no_such": "was not found",
    "show d2cs": "d2cse",
    "eval tiny-bert --suite st": "sts",
    "eval tiny-bert --suite mteb:STS222": 'did you mean "STS22"?',
    "eval tiny-bert --suite mteb:MTEB-eng-v22?dev=test": 'did you mean "MTEB-eng-v2"?',
    "eval tiny-bert --suite mteb:STS22?deb=test": "dev=SPLIT",
    "eval tiny-bert --suite no/pairs.csv": "no such file: no/pairs.csv",
    "eval tiny-bert --suite mteb:no.py": "no such file: no.py",
    "sweep simcse quickstart --address 127.0.0.1:99999": "HOST:PORT",
    "prepare simcse quickstart --encoder no_such": "was not found",
    "check simcse --encoder no_such": "was not found",
    "plan simcse unsup --device h1000": 'did you mean "h100"?',
    "plan --papers --device h100 --gpus 0": "at least 1",
    "table --paper diffaug --table 99": "diffaug has no Table 99",
    "sweep simcs --paper diffaug --table 1": 'did you mean "simcse"?',
    "convert no_such": "was not found",
    "table --paper difaug": "diffaug",
    "report --paper difaug --out none": "diffaug",
    "figure --paper difaug --figure 4": "diffaug",
    "eval no_such": "was not found",
    "compare no_such tiny-bert --store no/store": "was not found",
}


def test_a_wrong_name_imports_nothing_that_counts(cache: Path) -> None:
    answers = in_a_new_python(map(str.split, WRONG_NAMES), cache)
    for (words, part), answer in zip(WRONG_NAMES.items(), answers, strict=True):
        assert answer.code == 2, words
        assert part in answer.err, words
        assert not {*HEAVY, "numpy", "pyarrow"}.intersection(answer.modules), words


def test_nothing_heavy_over_a_store(swept: Swept, cache: Path, tmp_path: Path) -> None:
    key, store = min(Store(swept.store).finished_keys()), ("--store", swept.store)
    commands = [
        ("list", "trials", *store),
        ("show", key, *store),
        ("logs", key, *store),
        ("table", *store),
        ("table", "--paper", "diffaug", *store),
        ("compare", "1", "1", *store),
        ("compare", "simcse", "simcse", *store),
        ("sweep", swept.space, *store),
        ("merge", swept.store, "--into", tmp_path / "merged"),
        ("publish", swept.store, tmp_path / "published"),
        ("clean", "--dry-run", *store),
        ("reproduce", "diffaug", "--table", "1", "--dry-run", *store),
    ]
    for command, answer in zip(commands, in_a_new_python(commands, cache), strict=True):
        assert answer.code == 0 or "has no log" in answer.err, answer
        assert not HEAVY.intersection(answer.modules), command


def test_refusals_over_a_store(swept: Swept, cache: Path, tmp_path: Path) -> None:
    """Each comes before torch is imported, and leaves no folder."""
    results, new = Store(swept.store), tmp_path / "new"
    final = next(each.key for each in results.matching("") if each.role == "final")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").touch()
    refused = {
        ("export", final, new, "--method", "no/such"): "unknown method",
        ("report", "--out", tmp_path / "taken"): "has other files in it",
        ("report", "--out", new, "--sweep", "no_such"): "neither a search space nor a search",
    }
    commands = [(*words, "--store", swept.store) for words in refused]
    for part, answer in zip(refused.values(), in_a_new_python(commands, cache), strict=True):
        assert (answer.code, part in answer.err) == (2, True), answer
        assert not HEAVY.intersection(answer.modules), part
    assert not new.exists()
