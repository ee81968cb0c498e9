"""`harness figure`: files in three formats, the same bytes twice, and one sentence for mistakes."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from harness.trials.record import Record, RecordRole
from harness.trials.store import Store
from tests.cli.conftest import Shown, check_sentence
from tests.trials.test_store import record


def trial(number: int, role: RecordRole, rate: float) -> Record:
    """A trial of SimCSE whose dev score follows from the rate."""
    points = [
        {"step": step, "stage": "contrastive", "metric": metric, "value": value}
        for step in (1, 2, 3)
        for metric, value in (
            ("loss/contrastive", 1 / step),
            ("rate/learning_rate", rate / step),
            ("gradient_norm", 10.0**step),
            ("dev", 70 + step + 1e4 * rate),
        )
    ]
    return record(
        number, role=role, search="abcdef0123", history=points, training_seconds=5.0 + number,
        configuration={"learning_rate": rate, "pooling": ["cls", "mean"][number % 2]},
        suite="graded", dev={"graded-dev": 70 + 1e4 * rate}, device="cpu",
        test={"graded": 60 + number} if role == "final" else {},
    )  # fmt: skip


@pytest.fixture
def store(store: Path) -> Path:
    """A store with a search of six configurations and three finals."""
    for number, rate in enumerate((1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4)):
        Store(store).write(trial(number, "search", rate))
    for number in (6, 7, 8):
        Store(store).write(trial(number, "final", 5e-4))
    return store


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_every_format_is_written_with_the_same_bytes_twice(
    shown: Shown, store: Path, tmp_path: Path, suffix: str
) -> None:
    """A bare figure has no words of its own, and they are said."""
    content, words = [], ["figure", "--sweep", "abcdef", "--store", store, "--output"]
    for folder in (tmp_path / "one", tmp_path / "other"):
        out = shown(*words, folder, "--format", suffix)
        assert {Path(line) for line in out.splitlines()} == {*folder.iterdir()}
        content.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert content[0] == content[1]
    kinds = [name.rpartition("-")[2] for name in content[0]]
    assert kinds == [
        f"{kind}.{suffix}" for kind in ("cost", "curves", "hyperparameters", "parallel")
    ]
    for path in (tmp_path / "one").iterdir():
        if suffix == "png":
            with Image.open(path) as image:
                assert image.width >= 1000
        elif suffix == "svg":
            assert ElementTree.parse(path).getroot().tag.endswith("svg")
        else:
            assert path.read_bytes().startswith(b"%PDF")
    if suffix == "svg":
        bare = shown(*words, tmp_path / "bare", "--format", suffix, "--bare")
        [whole], [short] = ((tmp_path / name).glob("*-curves.svg") for name in ("one", "bare"))
        assert short.stat().st_size < whole.stat().st_size
        assert "curves of 9 trials. Dev (graded-dev), losses" in bare
        assert "losses" not in out


def test_a_sweep_that_the_store_has_not(harness: Any, store: Path, space: Any) -> None:
    """The trials of this store are of another search than that of the file."""
    answer = harness("figure", "--sweep", space(), "--store", store)
    said = "abcdef0123 (simcse unsup tiny-bert)"
    check_sentence(answer, f"has no trial of {space()}; it has these searches", said)
    answer = harness("figure", "--sweep", "abcdeX", "--store", store)
    check_sentence(answer, '"abcdeX" is neither a search space nor a search of the store')
    other = Store(store.with_name("other"))
    other.write(replace(trial(1, "search", 1e-4), search=""))
    answer = harness("figure", "--sweep", "quickstart", "--store", other.folder)
    check_sentence(answer, "has no trial of a sweep: run harness sweep")
