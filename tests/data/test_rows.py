"""The table of docs/corpora.md: what happens to each irregularity in each format."""

import gzip
import io
import itertools
import json
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.data import rows
from harness.data.corpora import source
from harness.data.rows import rows_of, text_lines
from harness.data.senteval import lines
from harness.errors import UserError

ODD = [
    "one\rhalf", "one\u2028half", "one\u2029half", "one\x85half", "one\x0bhalf", "one\x0chalf",
    "one\x1chalf", "one\x00half", "\ufeff", "NA", "null", "None", "12", "007", "1e5", "true",
    "2021-03-01 10:00:00", "=1+1", "a 'quoted' word", "#x", "-",
]  # fmt: skip
"""Texts that a reader may cut, convert or lose"""
PLAIN = ["the first text", *ODD, "the last text"]


def write(path: Path, texts: list[str], header: str = "sentence") -> Path:
    """Write a table of one column in the format that the ending of the path says."""
    ending = path.name.partition(".")[2].removesuffix(".gz")
    if ending == "parquet":
        pq.write_table(pa.table({header: texts}), path)
        return path
    if ending == "json":
        content = json.dumps([{header: text} for text in texts])
    elif ending == "jsonl":
        content = "".join(json.dumps({header: text}, ensure_ascii=False) + "\n" for text in texts)
    else:
        head = "" if ending == "txt" else f"{header}\n"
        content = head + "".join(f"{text}\n" for text in texts)
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def texts_of(name: str) -> list[str]:
    """The texts of a corpus of sentences."""
    found = source(name)
    return list(found.corpus(found.paths()).columns[0])


FORMATS = [
    "txt",
    "txt.gz",
    "csv",
    "csv.gz",
    "tsv",
    "tsv.gz",
    "jsonl",
    "jsonl.gz",
    "json",
    "parquet",
]


@pytest.mark.parametrize("header", ["sentence", "text"])
@pytest.mark.parametrize("ending", FORMATS)
def test_a_text_has_the_same_items_in_every_format(
    ending: str, header: str, tmp_path: Path
) -> None:
    found = texts_of(str(write(tmp_path / f"a.{ending}", PLAIN, header)))
    assert found == [text.strip() or " " for text in PLAIN]


@pytest.mark.parametrize("ending", FORMATS)
def test_an_empty_text_is_one_space_in_every_format(ending: str, tmp_path: Path) -> None:
    assert texts_of(str(write(tmp_path / f"a.{ending}", ["a", "", "b", ""]))) == [
        "a",
        " ",
        "b",
        " ",
    ]


@pytest.mark.parametrize("ending", ["txt", "csv", "tsv", "jsonl"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_byte_order_mark_and_the_last_line_end_do_not_matter(
    ending: str, end: str, tmp_path: Path
) -> None:
    path = write(tmp_path / f"a.{ending}", ["a", "b"])
    content = path.read_text().rstrip("\n").replace("\n", end)
    path.write_bytes(b"\xef\xbb\xbf" + content.encode())
    assert texts_of(str(path)) == ["a", "b"]


HEADERS = {
    "labelled": ("premise", "hypothesis", "label"),
    "scored": ("first", "second", "score"),
    "triplets": ("sent0", "sent1", "hard_neg"),
    "others": ("anchor", "positive", "negative"),
}


@pytest.mark.parametrize("separator", [",", "\t"], ids=["csv", "tsv"])
@pytest.mark.parametrize("row", ["a{s}b", "a", "", "a{s}b{s}1{s}x"])
@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_row_of_another_length_is_refused_under_every_header(
    header: tuple[str, ...], row: str, separator: str, tmp_path: Path
) -> None:
    path = tmp_path / ("a.csv" if separator == "," else "a.tsv")
    good = separator.join("ab1")
    content = [separator.join(header), good, row.format(s=separator), good]
    path.write_text("\n".join(content) + "\n")
    with pytest.raises(UserError, match=r"line 3: 3 fields were expected, [0124] found"):
        texts_of(str(path))
    path.write_text("\n".join([*content[:2], good]) + "\n\n\n")  # nothing follows the last row
    assert len(texts_of(str(path))) == 2


@pytest.mark.parametrize("value", [None, "missing"])
@pytest.mark.parametrize("column", ["first", "second", "score"])
def test_a_missing_text_or_score_is_refused(column: str, value: str | None, tmp_path: Path) -> None:
    whole: dict[str, Any] = {"first": "a", "second": "b", "score": 1}
    broken = {**whole, column: None}
    if value == "missing":
        del broken[column]
    path = tmp_path / "a.jsonl"
    for order in ([broken, whole], [whole, broken]):
        path.write_text("".join(json.dumps(row) + "\n" for row in order))
        with pytest.raises(UserError, match=rf"row {1 + order.index(broken)}: .*None"):
            texts_of(str(path))


NO_LABEL = ["", "-", "-1", "-1.0", "NaN", "nan"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_a_pair_without_a_label_is_left_out_in_every_format(ending: str, tmp_path: Path) -> None:
    path, pairs = tmp_path / f"a.{ending}", ["0.0", "entailment", "2", "1.0"]
    frames = {"premise": [f"p{n}" for n in range(10)], "hypothesis": ["h"] * 10}
    if ending in ("csv", "tsv"):
        labels: list[Any] = [*NO_LABEL, *pairs]
        separator = "," if ending == "csv" else "\t"
        pd.DataFrame({**frames, "label": labels}).to_csv(path, sep=separator, index=False)
    elif ending == "jsonl":
        labels = [None, "-", -1, -1.0, float("nan"), "", 0.0, "entailment", 2, 1.0]
        columns = zip(*frames.values(), labels, strict=True)
        every = [dict(zip((*frames, "label"), row, strict=True)) for row in columns]
        del every[0]["label"]
        path.write_text("".join(json.dumps(row) + "\n" for row in every))
    else:
        labels = [None, -1.0, float("nan"), None, None, None, 0.0, 0.0, 2.0, 1.0]
        pd.DataFrame({**frames, "label": labels}).to_parquet(path)
    found = source(str(path))
    corpus = found.corpus(found.paths())
    assert corpus.columns[0] == ["p6", "p7", "p8", "p9"]
    assert corpus.labels is not None
    assert corpus.labels.tolist() == [0, 0, 2, 1]


@pytest.mark.parametrize("label", ["3", "0.5", "inf", "yes", "0_1"])
def test_another_label_is_refused(label: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"premise,hypothesis,label\na,b,0\nc,d,{label}\n")
    with pytest.raises(UserError, match=rf"row 2: label '{label}' is none of 0, 1, 2"):
        texts_of(str(tmp_path / "a.csv"))


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("index", ["shuffled", "unnamed", "named as a read one"])
def test_the_row_numbers_of_pandas_are_no_column(ending: str, index: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"sentence1": list("abc"), "sentence2": list("def")}).iloc[[2, 0, 1]]
    if index == "named as a read one":
        frame = frame.reset_index(names="Unnamed: 0")
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        frame.to_parquet(path)
    elif ending == "csv":
        frame.to_csv(path)
    else:
        renamed = frame.reset_index(names="__index_level_0__")
        renamed.to_json(path, orient="records", lines=True)
    found = source(str(path))
    assert found.shape == "pairs"  # which has no further column
    assert found.corpus(found.paths()).columns == (["c", "a", "b"], ["f", "d", "e"])


VALUES: dict[str, Any] = {"flag": True, "day": "2021-03-01", "year": 2015.0, "zip": "007", "n": 12}


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json"])
@pytest.mark.parametrize(
    "wanted", ["flag=true", "day=2021-03-01", "year=2015.0", "zip=007", "n=12", "share=0.50"]
)
def test_a_filter_means_the_text_of_the_file(ending: str, wanted: str, tmp_path: Path) -> None:
    other = {"flag": False, "day": "2021-03-02", "year": 2016.5, "zip": "7", "n": 1.0}
    column = wanted.partition("=")[0]
    told = [{"sentence": f"s{n}", **(VALUES, other)[n % 2]} for n in range(6)]
    texts = [json.dumps(row)[:-1] + (', "share": 0.50}', ', "share": 0.5}')[n % 2]
             for n, row in enumerate(told)]  # fmt: skip
    path = tmp_path / f"a.{ending}"
    if ending in ("jsonl", "json"):
        content = "\n".join(texts) if ending == "jsonl" else f"[{','.join(texts)}]"
    else:
        separator = "," if ending == "csv" else "\t"
        every = [{**row, "flag": str(row["flag"]).lower(), "share": ("0.50", "0.5")[n % 2]}
                 for n, row in enumerate(told)]  # fmt: skip
        content = "\n".join(
            separator.join(map(str, row)) for row in [[*every[0]], *(row.values() for row in every)]
        )
    path.write_text(content + "\n")
    assert column in content
    assert texts_of(f"{path}?sentence=sentence&where.{wanted}") == ["s0", "s2", "s4"]


def test_rows_are_those_of_the_library_datasets(tmp_path: Path) -> None:
    """Another reader, on files without irregularities."""
    frame = pd.DataFrame({"first": [f'a, "{n}"' for n in range(50)], "second": ["é\nx"] * 50,
                          "score": [n / 8 for n in range(50)]})  # fmt: skip
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    for kind, path in (("csv", "a.csv"), ("parquet", "a.parquet"), ("json", "a.jsonl")):
        data_files = {"train": [str(tmp_path / path)]}
        theirs = datasets.load_dataset(kind, data_files=data_files, split="train", streaming=True)
        ours = [{**row, "score": float(row["score"])} for row in rows_of(tmp_path / path)]
        assert ours == list(theirs)


@pytest.mark.parametrize(
    "name", ["a[1].csv", "a*.csv", "a?b.csv", "a #1 50%.csv", "a::b.csv", "{x}.csv"]
)
def test_a_path_is_taken_literally(name: str, tmp_path: Path) -> None:
    for other in ("a1.csv", "ab.csv", "axb.csv", "x.csv"):
        write(tmp_path / other, ["wrong", "file"])
    path = write(tmp_path / name, ["right", "one"])
    if "?" in name:
        with pytest.raises(UserError, match="has a question mark in its name"):
            texts_of(str(path))
    else:
        assert texts_of(str(path)) == ["right", "one"]


def test_a_mirror_whose_path_looks_like_a_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mirror, text in (("hub[1]", "right"), ("hub1", "wrong")):
        folder = tmp_path / mirror / "datasets" / "some" / "data"
        folder.mkdir(parents=True)
        write(folder / "train.csv", [text, text])
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path / "hub[1]"))
    assert texts_of("some/data") == ["right", "right"]
    assert str(source("some/data").paths()[0]).startswith(str(tmp_path / "hub[1]"))


@pytest.mark.parametrize("name", ["a.csv.zst", "a.xlsx", "a.csv.bz2", "a.parquet.gz", "a.arrow"])
def test_a_file_of_another_kind_says_what_is_read(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(UserError, match=r"files are read that end in \.jsonl, .*\.gz"):
        texts_of(str(tmp_path / name))


def test_capital_endings_are_read(tmp_path: Path) -> None:
    for name in ("a.CSV", "a.Txt", "a.TSV.GZ"):
        path = write(tmp_path / name.lower(), ["a", "b"])
        assert texts_of(str(path.rename(tmp_path / name))) == ["a", "b"]


# Files that claim or become too much


def test_a_packed_file_that_becomes_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "FREELY", 2**20)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"a line of the bomb\n" * 500_000))
    tracemalloc.start()
    with pytest.raises(UserError, match="becomes more than 100 times as large"):
        for _ in text_lines(path):
            pass
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


@pytest.mark.parametrize("ending", ["txt", "csv", "jsonl"])
def test_a_line_without_end(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LONGEST_LINE", 1000)
    path = write(tmp_path / f"a.{ending}", ["fine", "x" * 2000])
    with pytest.raises(UserError, match=r"line [23]: longer than"):
        texts_of(str(path))


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"a":' * 100_000, '{"sentence": 1' + "0" * 5000 + "}",
                '{"sentence": "a", "sentence": "b"}', '"text"', "[1, 2]"]
)  # fmt: skip
def test_a_hostile_json_is_a_sentence(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f"{content}\n")
    with pytest.raises(UserError, match=r"a\.jsonl cannot be read: "):
        texts_of(str(tmp_path / "a.jsonl"))


def test_a_later_column_of_json_is_not_overlooked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "FIRST_ROWS", 3)
    told = [{"first": "a", "second": "b"} for _ in range(5)]
    content = itertools.chain(told, [{"first": "a", "second": "b", "score": 1}])
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
    with pytest.raises(UserError, match=r'row 6: the first 3 rows have no "score"'):
        texts_of(str(tmp_path / "a.jsonl"))


def test_a_parquet_file_that_becomes_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "FREELY", 1000)
    text = ["x" * 1000 + str(n) for n in range(2000)]
    table = pa.table({"sentence": text})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    with pytest.raises(UserError, match="becomes more than 100 times as large"):
        texts_of(str(tmp_path / "a.parquet"))


def test_a_member_that_claims_64_gib(make_archive: Callable[..., Path]) -> None:
    path = make_archive({})
    with tarfile.open(path, "w") as tar:
        entry = tarfile.TarInfo("CR/custrev.pos")
        tar.addfile(entry, io.BytesIO())
    header = tarfile.TarInfo("CR/custrev.neg")
    header.size = 2**36
    path.write_bytes(path.read_bytes()[:512] + header.tobuf() + b"fine\n")
    with pytest.raises(UserError, match=r"custrev\.neg: cannot be read"):
        lines("CR/custrev.neg")
