"""Corpora from which nothing can be learnt: empty, blank, too short, not text, of other columns."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]

RUN = ("--encoder", "tiny-bert", "--set", "suite=graded", "--set", "max_steps=2")
HEADER = b"sent0,sent1,hard_neg\n"

FILES = {
    "empty": ("c.txt", b"", "holds no sentence"),
    "one-line-end": ("c.txt", b"\n", "holds no sentence"),
    "blank": ("c.txt", b"\n\n   \n\t\n", "only empty lines"),
    "one-sentence": ("c.txt", b"just one sentence\n", "holds 1 item; a corpus needs at least 2"),
    "latin": ("c.txt", b"fine\nfine\ncaf\xe9\n", "line 3: not UTF-8"),
    "utf-16": ("c.txt", "a\nb\n".encode("utf-16"), "line 1: not UTF-8"),
    "zip": ("c.txt", b"PK\x03\x04\xff\xfe\xfd\n", "line 1: not UTF-8"),
    "no-table": ("c.csv", b"", "holds no item"),
    "only-header": ("c.csv", HEADER, "holds no item"),
    "one-triplet": ("c.csv", HEADER + b"a,b,c\n", "at least 2"),
    "two-columns": ("c.csv", b"sent0,sent1\na,b\nc,d\n", "the columns sent0, sent1 do not say"),
    "four-columns": ("c.csv", b"a,b,c,d\n1,2,3,4\n", "the columns a, b, c, d do not say"),
    "scored": ("c.csv", b"sentence1,sentence2,score\na,b,4.8\n", "triplets asks for triplets"),
    "ragged": ("c.csv", HEADER + b"a,b,c\nd,e\n", "line 3: 3 fields were expected, 2 found"),
    "latin-table": ("c.csv", HEADER + b"a,b,c\n\xe9,e,f\n", "line 3: not UTF-8"),
    "open-quote": (
        "c.csv",
        HEADER + b'a,b,c\n"' + b"x" * 200_000,
        "line 3: a quotation never ends",
    ),
    "blank-table": ("c.csv", HEADER + b" , , \n , , \n", "only empty lines"),
    "no-parquet": ("c.parquet", b"hello", "cannot be read"),
    "empty-parquet": ("c.parquet", b"", "cannot be read"),
    "no-neighbours": ("neighbours.txt", b"a\n\nb\n", "no two sentences in a row"),
    "one-pair": ("neighbours.txt", b"a\nb\n", "at least 2"),
    "other-ending": ("c.doc", b"{}", "only files whose names end in"),
    "no-ending": ("corpus", b"a\nb\n", "only files whose names end in"),
}


@pytest.mark.parametrize(("name", "content", "part"), FILES.values(), ids=FILES)
def test_corpus(name: str, content: bytes, part: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    given = {
        "c.csv": ["simcse", "--set", "setting=sup", "--set", f"triplets={path}"],
        "neighbours.txt": [
            "diffcse", "--set", "edited=next", "--set", f"sentences=neighbours:{path}",
            "--set", "generator=tiny-bert",
        ],
    }.get(name, ["simcse", "--set", f"sentences={path}"])  # fmt: skip
    refused(["run", *given, *RUN], path, part)


@pytest.mark.parametrize("verb", ["plan", "sweep"])
def test_blank_corpus(verb: str, refused: Refused, space: SpaceFile, tmp_path: Path) -> None:
    path = tmp_path / "blank.txt"
    path.write_text("\n \n")
    refused([verb, space("graded-sentences", str(path))], path, "only empty lines")


PAIRS: dict[str, list[Any]] = {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [0, 1]}
TABLES = {
    "other-columns": ({"a": ["x"], "b": ["y"]}, "the columns a, b do not say"),
    "no-label": (
        {"premise": ["a"], "hypothesis": ["b"]},
        "premise, hypothesis do not say",
    ),
    "label-as-text": (PAIRS | {"label": ["0", "yes"]}, "row 2: label 'yes'"),
    "label-as-number": (PAIRS | {"label": [0.0, 0.5]}, "row 2: label '0.5'"),
    "label-as-truth": (PAIRS | {"label": [True, False]}, "row 1: label 'True'"),
    "label-missing": (PAIRS | {"label": [0, None]}, "holds 1 item"),
    "label-unknown": (PAIRS | {"label": [0, 7]}, "row 2: label '7'"),
    "premise-as-number": (PAIRS | {"premise": [1, 2]}, 'column "premise" holds 1'),
    "premise-as-list": (PAIRS | {"premise": [["a"], ["b"]]}, "column \"premise\" holds ['a']"),
    "premise-missing": (PAIRS | {"premise": [None, "a"]}, 'row 1: column "premise" is missing'),
    "unlabelled": (PAIRS | {"label": [-1, -1]}, "holds no item"),
    "one-row": ({name: values[:1] for name, values in PAIRS.items()}, "holds 1 item"),
    "blank": (PAIRS | {"premise": [" ", ""], "hypothesis": ["", "\t"]}, "only empty lines"),
}


@pytest.mark.parametrize(("table", "part"), TABLES.values(), ids=TABLES)
def test_table(table: dict[str, list[Any]], part: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "pairs.parquet"
    pq.write_table(pa.table(table), path)
    refused(["run", "sbert", *RUN, "--set", "setting=sup", "--set", f"pairs={path}"], path, part)
