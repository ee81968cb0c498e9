"""SentEval's classification tasks, against a copy of its own readers, and malformed files."""

import io
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from harness.data.senteval import DATASETS
from harness.errors import UserError

MakeArchive = Callable[..., Path]
CLASS_SIZES = {
    ("mr", "all"): (5331, 5331), ("cr", "all"): (1368, 2407), ("subj", "all"): (5000, 5000),
    ("mpqa", "all"): (7294, 3312), ("sst2", "train"): (29780, 37569), ("sst2", "dev"): (428, 444),
    ("sst2", "test"): (912, 909), ("trec", "train"): (86, 1162, 1250, 1223, 835, 896),
    ("trec", "test"): (9, 138, 94, 65, 81, 113), ("mrpc", "train"): (1323, 2753),
    ("mrpc", "test"): (578, 1147),
}  # fmt: skip
"""(task, split) -> the rows of each class"""
POLAR = {
    "mr": ("MR/rt-polarity.pos", "MR/rt-polarity.neg"),
    "cr": ("CR/custrev.pos", "CR/custrev.neg"),
    "subj": ("SUBJ/subj.objective", "SUBJ/subj.subjective"),
    "mpqa": ("MPQA/mpqa.pos", "MPQA/mpqa.neg"),
}
"""Task -> the member with class 1, and that with class 0"""

Words = list[list[str]]


def senteval_rows(members: Mapping[str, bytes], task: str, split: str) -> list[tuple[Words, int]]:
    """Rows of SentEval, sorted as there (senteval/binary.py, sst.py, trec.py, mrpc.py)."""
    rows: list[tuple[Words, int]] = []
    if task in POLAR:
        for name, label in zip(POLAR[task], (1, 0), strict=True):
            lines = members[name].decode("latin-1").splitlines()
            rows += [([line.split()], label) for line in lines]
    elif task == "sst2":
        for line in io.StringIO(members[f"SST/binary/sentiment-{split}"].decode()):
            fields = line.strip().split("\t")
            rows.append(([fields[0].split()], int(fields[1])))
    elif task == "trec":
        name = {"train": "TREC/train_5500.label", "test": "TREC/TREC_10.label"}[split]
        numbers = {"ABBR": 0, "DESC": 1, "ENTY": 2, "HUM": 3, "LOC": 4, "NUM": 5}
        for line in io.StringIO(members[name].decode("latin-1")):
            target, sample = line.strip().split(":", 1)
            rows.append(([sample.split(" ", 1)[1].split()], numbers[target]))
    else:
        text = members[f"MRPC/msr_paraphrase_{split}.txt"].decode()
        for line in list(io.StringIO(text))[1:]:
            fields = line.strip().split("\t")
            rows.append(([fields[3].split(), fields[4].split()], int(fields[0])))
    return sorted(rows, key=lambda row: ([len(words) for words in row[0]], row[1]))


@pytest.mark.slow
@pytest.mark.parametrize(("task", "split"), CLASS_SIZES)
def test_rows_are_those_of_senteval(members: dict[str, bytes], task: str, split: str) -> None:
    splits = DATASETS[task]()
    assert {(task, name) for name in splits} == {key for key in CLASS_SIZES if key[0] == task}
    examples = splits[split]
    assert tuple(np.bincount(examples.labels)) == CLASS_SIZES[task, split]
    expected = senteval_rows(members, task, split)
    assert examples.labels.tolist() == [label for _, label in expected]
    assert examples.texts == [" ".join(words[0]) for words, _ in expected]
    second = [" ".join(words[1]) for words, _ in expected] if task == "mrpc" else None
    assert examples.second == second


@pytest.mark.slow
@pytest.mark.usefixtures("hub")
def test_quirks_of_the_files() -> None:
    """Blank lines are empty texts, `M-x` stays as it is, and the files differ in their encoding."""
    blank = {task: Counter(DATASETS[task]()["all"].texts)[""] for task in POLAR}
    assert blank == {"mr": 0, "cr": 4, "subj": 0, "mpqa": 3}
    escapes = {
        task: len(re.findall(r"\bM-\S", "\n".join(DATASETS[task]()["all"].texts))) for task in POLAR
    }
    assert escapes == {"mr": 60, "cr": 0, "subj": 45, "mpqa": 0}
    # TREC has one byte that is not UTF-8, and SST-2 has letters that only UTF-8 gives.
    assert sum("\xf0" in text for text in DATASETS["trec"]()["train"].texts) == 1
    assert any("à" in text for text in DATASETS["sst2"]()["dev"].texts)
    # "#1 String" is in the header of MRPC.
    assert not any("String" in text.split() for text in DATASETS["mrpc"]()["train"].texts)


SENTIMENT, TREC_10, MSR = "SST/binary/sentiment", "TREC/TREC_10.label", "MRPC/msr_paraphrase"
RIGHT = {
    **{f"{SENTIMENT}-{split}": "good \t1\nbad one \t0\n" for split in ("train", "dev", "test")},
    **{f"{MSR}_{split}.txt": "Quality\tetc\n1\t2\t3\tone\ttwo\n" for split in ("train", "test")},
    "TREC/train_5500.label": "HUM:ind Who ?\n", TREC_10: "NUM:date When ?\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("task", "member", "text", "message"),
    [
        ("sst2", f"{SENTIMENT}-dev", "good\t1\nbad\n", "-dev, line 2: 2 tab-sep.*, 1 found"),
        ("sst2", f"{SENTIMENT}-test", "good\t2\n", '-test, line 1: the class "2" is none'),
        ("sst2", f"{SENTIMENT}-dev", "\xf0\t1\n", "sentiment-dev: cannot be read"),
        ("trec", TREC_10, "NUM:date When ?\nHUMind Who\n", r"TREC_10\.label, line 2: "),
        ("trec", TREC_10, "HUM:ind\n", r"TREC_10\.label, line 1: no question"),
        ("trec", TREC_10, "WHO:ind Who ?\n", 'line 1: the class "WHO" is none of ABBR, DESC'),
        ("mrpc", f"{MSR}_test.txt", "header\n1\t2\t3\tone\n", "_test.txt, line 2: 5 tab-sep"),
        ("cr", "CR/custrev.pos", "fine\n", r" has no member CR/custrev\.neg"),
    ],
)  # fmt: skip
def test_a_malformed_file_is_named_with_its_line(
    make_archive: MakeArchive, task: str, member: str, text: str, message: str
) -> None:
    make_archive({**RIGHT, member: text}, encoding="latin-1")
    with pytest.raises(UserError, match=r"senteval\.tar.*" + message):
        DATASETS[task]()


def test_the_files_of_the_malformed_cases_are_otherwise_right(make_archive: MakeArchive) -> None:
    make_archive(RIGHT)
    assert DATASETS["trec"]()["train"].labels.tolist() == [3]
    assert DATASETS["mrpc"]()["test"].second == ["two"]
    assert DATASETS["sst2"]()["dev"].texts == ["good", "bad one"]
