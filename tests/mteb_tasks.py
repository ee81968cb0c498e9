"""Tasks of mteb over files of a test, as a user would write them."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

PAIRS = """\
from mteb.abstasks import AbsTaskClassification, AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata


def described(name, task_type, main_score, folder):
    return TaskMetadata(
        name=name,
        description="Sentences of a test",
        type=task_type,
        category="t2t",
        dataset={"path": folder, "revision": "1"},
        eval_langs=["eng-Latn"],
        main_score=main_score,
    )


class Pairs(AbsTaskSTS):
    metadata = described("Pairs", "STS", "cosine_spearman", "ROOT/pairs")
"""
TOPICS = """

class Topics(AbsTaskClassification):
    metadata = described("Topics", "Classification", "accuracy", "ROOT/topics")
    n_experiments = 2
    samples_per_label = 4
"""
ANIMALS, PLANTS = ("dog", "cat", "horse", "bird", "cow"), ("oak", "rose", "fern", "moss", "ivy")
Rows = Sequence[tuple[str, str, float]]
"""Two sentences and their score"""


def write_tasks(folder: Path, pairs: Mapping[str, Rows], *more: str) -> Path:
    """Write the task Pairs, whose rows `pairs` has by split, and `more`; the path of the file."""
    for split, rows in pairs.items():
        _write(folder / "pairs" / f"{split}.csv", ("sentence1", "sentence2", "score"), rows)
    topics = [
        (f"the {adjective} {noun} is here", label)
        for label, nouns in enumerate((ANIMALS, PLANTS))
        for noun in nouns
        for adjective in ("old", "small", "green")
    ]
    for split in ("train", "test"):
        _write(folder / "topics" / f"{split}.csv", ("text", "label"), topics)
    path = folder / "mine.py"
    path.write_text("".join((PAIRS, *more)).replace("ROOT", str(folder)), encoding="utf-8")
    return path


def _write(path: Path, header: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
