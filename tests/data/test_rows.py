"""Formats and irregularities: the table of docs/corpora.md, and the bounds of what is read."""

import csv
import gzip
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.data.corpora import is_corpus, source
from harness.data.readers import read_entailments, read_similar_pairs
from harness.data.rows import LARGEST_LIST, LONGEST_LINE, SMALL_TEXT
from harness.errors import UserError
from harness.evaluation.suites import suite
from tests.data.conftest import read

MISSING = object()
"""A value whose key is not there"""
FORMATS = [".csv", ".tsv", ".jsonl", ".json", ".parquet", ".csv.gz", ".jsonl.gz", ".parquet.gz"]


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write a table in the format that the ending says, packed where it ends in .gz."""
    plain = path.with_name(path.name.lower().removesuffix(".gz"))
    present = [{k: v for k, v in row.items() if v is not MISSING} for row in rows]
    empty = [{k: "" if v in (None, MISSING) else v for k, v in row.items()} for row in rows]
    match plain.suffix:
        case ".csv":
            with plain.open("w", encoding="utf-8", newline="") as file:
                table = csv.DictWriter(file, rows[0])
                table.writeheader()
                table.writerows(empty)
        case ".tsv":
            fields = [list(rows[0]), *(map(str, row.values()) for row in empty)]
            plain.write_bytes("".join("\t".join(each) + "\n" for each in fields).encode())
        case ".jsonl":
            plain.write_text("".join(json.dumps(row) + "\n" for row in present))
        case ".json":
            plain.write_text(json.dumps(present, indent=1))
        case ".parquet":
            columns = {key: [row.get(key) for row in present] for key in rows[0]}
            pq.write_table(pa.table(columns), plain)
    content = plain.read_bytes()
    path.write_bytes(gzip.compress(content) if path.suffix.lower() == ".gz" else content)
    return path


@pytest.mark.parametrize(
    ("labels", "gap"),
    [((0, 1, None, 2), 2), ((0, 1, MISSING, 2), 2), ((MISSING, 0, 1, 2), 0),
     ((0.0, 1.0, float("nan"), 2.0), 2), ((0.0, 1.0, None, 2.0), 2), ((0, 1, -1, 2), 2),
     (("0", "1", "-", "2"), 2), (("entailment", "neutral", "", "Contradiction"), 2)],
)  # fmt: skip
def test_a_pair_without_a_label_is_left_out(
    tmp_path: Path, labels: tuple[object, ...], gap: int
) -> None:
    rows = [{"premise": f"p{n}", "hypothesis": "h", "label": v} for n, v in enumerate(labels)]
    for ending in FORMATS:
        corpus = read(write(tmp_path / f"a{ending}", rows))
        assert corpus.labels is not None, ending
        assert corpus.labels.tolist() == [0, 1, 2], ending
        assert corpus.columns[0] == [f"p{n}" for n in range(4) if n != gap], ending


HEADERS = ["anchor,positive,negative", "sent0,sent1,hard_neg", "premise,hypothesis,label",
           "sentence1,sentence2,score", "label,premise,hypothesis"]  # fmt: skip


@pytest.mark.parametrize(("ending", "sign"), [(".csv", ","), (".tsv", "\t"), (".csv.gz", ",")])
def test_a_short_or_a_long_row_is_refused_under_every_header(
    tmp_path: Path, ending: str, sign: str
) -> None:
    path = tmp_path / f"a{ending}"
    for header, row in itertools.product(HEADERS, ("1,1", "1", "1,1,1,1", "")):
        text = f"{header}\n1,1,1\n{row}\n1,1,1\n".replace(",", sign).encode()
        path.write_bytes(gzip.compress(text) if ending.endswith(".gz") else text)
        with pytest.raises(UserError, match=r"line 3: 3 fields were expected, [0124] found"):
            read(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "sent0;sent1;hard_neg\na;b;c\n"),
        ("a.csv?first=sentence1&second=sentence2", "sentence1;sentence2\na;b\n"),
        ("a.csv.gz", "sentence1;score\na, b;1,5\n"),
        ("a.csv", "sentence1\tsentence2\na\tb\n"),
        ("a.tsv", "sentence1,sentence2\na,b\n"),
    ],
)
def test_another_separator_is_named(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name.partition("?")[0]
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    found = "semicolons" if ";" in text else "tabs" if "\t" in text else "commas"
    wanted = "tabs" if path.suffix == ".tsv" else "commas"
    said = f"; {wanted} stand between the fields of such a file, and its first row has {found}$"
    with pytest.raises(UserError, match=said):
        source(str(tmp_path / name)).corpus([path])


@pytest.mark.parametrize("value", [None, MISSING])
@pytest.mark.parametrize("ending", [".jsonl", ".json", ".parquet", ".jsonl.gz"])
def test_a_missing_text_or_score_is_refused(tmp_path: Path, ending: str, value: object) -> None:
    rows = [{"first": f"t{n}", "second": "u", "score": n} for n in range(3)]
    for column, said in (("second", 'column "second" is missing'), ("score", "score is missing")):
        given = [*rows[:2], rows[2] | {column: value}]
        with pytest.raises(UserError, match=rf"(line|row|item) 3: .*{said}"):
            read(write(tmp_path / f"a{ending}", given))


IRREGULAR = ["one", "", "a\rb", "a\u2028b\u2029c", "a\x85b", "a\x0bb\x0cc\x1cd", "a\x00b", "12",
             "2021-03-01 10:00:00", "NA", "null", "true", 'the "word"', " padded "]  # fmt: skip
ITEMS = [text.strip() or " " for text in IRREGULAR]


@pytest.mark.parametrize("ending", [*FORMATS, ".txt", ".txt.gz", ".CSV", ".Txt", ".JSONL.GZ"])
def test_a_text_has_the_same_items_in_every_format(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    if "txt" in ending.lower():
        content = "".join(text + "\n" for text in IRREGULAR).encode()
    else:
        write(path, [{"sentence": text} for text in IRREGULAR])
        content = path.read_bytes()
        content = gzip.decompress(content) if ending.lower().endswith(".gz") else content
    changed = [content]
    if "parquet" not in ending:
        lines = content.replace(b"\r\n", b"\n")
        changed = [lines, lines.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + lines]
        changed.append(lines.removesuffix(b"\n"))
    for each in changed:
        path.write_bytes(gzip.compress(each) if ending.lower().endswith(".gz") else each)
        assert read(path).columns == (ITEMS,), each


@pytest.mark.parametrize("index", ["", "__index_level_0__", "Unnamed: 0"])
def test_the_index_of_a_frame_is_no_column(tmp_path: Path, index: str) -> None:
    shapes = (("sentence",), ("first", "second"), ("first", "second", "score"))
    for ending, roles in itertools.product(FORMATS, shapes):
        rows = [{index: n} | {role: str(n) for role in roles} for n in range(3)]
        path = write(tmp_path / f"a{ending}", rows)
        assert read(path).columns[0] == ["0", "1", "2"]
        named = "&".join(f"{role}={role}" for role in roles)
        assert read(f"{path}?{named}").columns[0] == ["0", "1", "2"]


@pytest.mark.parametrize("ending", FORMATS)
def test_a_filter_compares_what_is_written(tmp_path: Path, ending: str) -> None:
    typed = ending not in (".csv", ".tsv", ".csv.gz")
    names = ("sentence", "flag", "day", "year", "code", "n")
    values = [
        ("a", True, "2021-03-01", 2015.0, "7", 0),
        ("b", False, "2021-03-02", 2015.0, "007", 1),
        ("c", True, "2021-03-03", 2016.5, None, 2),
        ("d", False, "2021-03-01", 2016.5, None, 3),
    ]
    rows = [dict(zip(names, row, strict=True)) for row in values]
    if not typed:
        rows = [row | {"flag": str(row["flag"]).lower()} for row in rows]
    path = write(tmp_path / f"a{ending}", rows)
    for column, value, kept in (
        ("flag", "true", ["a", "c"]),
        ("day", "2021-03-01", ["a", "d"]),
        ("year", "2015.0", ["a", "b"]),
        ("code", "007", ["b"]),
        ("code", "", ["c", "d"]),
        ("n", "3", ["d"]),
    ):
        found = source(f"{path}?sentence=sentence&where.{column}={value}")
        assert found.read(found.paths()).columns == (kept,), column


NAMES = ["a[1].csv", "a*.csv", "what?.csv", "x=1?y=2.csv", "a b #c.csv", "100%25.csv", "a,b.csv",
         "x::y.csv", "zip:%2F%2Fz.csv", "a+b.csv", "{a,b}.csv", "~a.csv"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_path_is_that_of_one_file_whatever_its_signs(tmp_path: Path, name: str) -> None:
    """Beside it lie the files that a library would read for it as a pattern."""
    for other in ("a1.csv", "aX.csv", "whatX.csv", "100%.csv", "a.csv", "a b.csv", "b.csv"):
        write(tmp_path / other, [{"sentence1": "wrong", "sentence2": "x", "score": 1}] * 3)
    right = [{"sentence1": f"t{n}", "sentence2": "u", "score": n} for n in range(3)]
    path = write(tmp_path / name, right)
    assert read(path).columns[0] == ["t0", "t1", "t2"]
    assert read(f"{path}?sentence=sentence1").columns == (["t0", "t1", "t2"],)
    assert source(str(path)).paths() == suite(str(path)).files() == [path]
    quoted, first = name.replace("%", "%25").replace("&", "%26"), tmp_path / "a1.csv"
    assert suite(f"{first}?dev={tmp_path}/{quoted}").files() == [first, path]


@pytest.mark.parametrize("name", ["x.csv.zst", "x.csv.bz2", "x.xlsx", "x"])
def test_a_file_of_another_format_is_told_the_endings_that_are_read(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("sentence\na\nb\n")
    for named in (read, suite):
        with pytest.raises(UserError, match=r"is there, but only .* \.csv, .*\.gz"):
            named(str(tmp_path / name))
    assert is_corpus(str(tmp_path / name)), "harness show would take it for a method"


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".txt", ".csv", ".tsv", ".jsonl"])
def test_a_packed_file_holds_at_most_its_bound(tmp_path: Path, ending: str) -> None:
    text, count = "a" * 2**16, SMALL_TEXT // 2**16
    rows = {".jsonl": f'{{"sentence": "{text}"}}\n'}.get(ending, f"{text}\n") * count
    head = "sentence\n" if ending in (".csv", ".tsv") else ""
    path = tmp_path / f"bomb{ending}.gz"
    path.write_bytes(gzip.compress((head + rows).encode()))
    with pytest.raises(UserError, match=r"bomb.*\.gz holds more than \d+ bytes"):
        read(path)


@pytest.mark.slow
@pytest.mark.parametrize("dictionary", [True, False])
def test_a_parquet_file_holds_at_most_its_bound(tmp_path: Path, dictionary: bool) -> None:
    """A text that the file has once is not repeated in memory before it is counted."""
    table = pa.table({"sentence": ["x" * 2**14] * (SMALL_TEXT // 2**14 + 1)})
    path = tmp_path / "bomb.parquet"
    pq.write_table(table, path, use_dictionary=dictionary, compression="zstd")
    assert path.stat().st_size < 2**17
    with pytest.raises(UserError, match=r"bomb\.parquet holds more than \d+ bytes"):
        read(path)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".txt", ".csv", ".tsv", ".jsonl", ".txt.gz"])
def test_a_line_has_a_bound(tmp_path: Path, ending: str) -> None:
    long = "x" * (2 * LONGEST_LINE)
    path = tmp_path / f"a{ending}"
    first = '{"sentence": "x"}' if ending == ".jsonl" else "sentence"
    content = f"{first}\n{long}\n".encode()
    path.write_bytes(gzip.compress(content, 9) if ending.endswith(".gz") else content)
    with pytest.raises(UserError, match=r"line \d: it .*has more than 16777216 "):
        read(path)


@pytest.mark.parametrize(
    "text",
    ['{"a": ' * 100_000, '{"sentence": "\\ud83d"}', '{"sentence": "a", "sentence": "b"}', "[1]",
     '"text"'],
)  # fmt: skip
def test_a_row_that_is_no_plain_object_is_named(tmp_path: Path, text: str) -> None:
    for content in (text, f"[{text}]"):
        (tmp_path / "a.json").write_text(content)
        with pytest.raises(UserError, match=r"a\.json(, (line|item) 1)?: "):
            read(tmp_path / "a.json")


def test_a_quotation_counts_its_lines_and_has_an_end(tmp_path: Path) -> None:
    for text, message in (
        ('sentence\none\n"two\nthree\nfour\n', "line 5: a quotation never ends"),
        ('sent0,sent1,hard_neg\n"a\nb",c,d\ne,f\n', "line 4: 3 fields were expected, 2 found"),
    ):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(UserError, match=rf"a\.csv, {message}"):
            read(tmp_path / "a.csv")


def test_a_damaged_or_large_list_of_json_is_named(tmp_path: Path) -> None:
    for damaged in ('[{"sentence": "a"}', '[{"sentence": "a"} {"sentence": "b"}]', "[", "[x]"):
        (tmp_path / "b.json").write_text(damaged)
        with pytest.raises(UserError, match=r"b\.json: no JSON"):
            read(tmp_path / "b.json")
    os.truncate(tmp_path / "b.json", LARGEST_LIST + 1)
    with pytest.raises(UserError, match=rf"a list of JSON has at most {LARGEST_LIST} bytes; write"):
        read(tmp_path / "b.json")


def test_each_row_of_a_table_is_a_triplet(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('sent0,sent1,hard_neg\na,"b, c",d\n"with ""quotes""","two\nlines",\n')
    corpus = read(path)
    columns = [["a", 'with "quotes"'], ["b, c", "two\nlines"], ["d", " "]]
    assert [list(column) for column in corpus.columns] == columns
    assert (len(corpus), corpus.labels) == (2, None)


def test_entailments_are_the_pairs_with_label_0(tmp_path: Path) -> None:
    files = []
    for name, labels in (("a", [0, -1, 2, 1, 0]), ("b", [1, 0])):
        texts = [f"text {number}" for number in range(len(labels))]
        columns = {"premise": texts, "hypothesis": texts[::-1], "label": labels}
        files.append(tmp_path / f"{name}.parquet")
        pq.write_table(pa.table(columns), files[-1])
    corpus = read_entailments(files)
    assert corpus.columns == (["text 0", "text 4", "text 1"], ["text 4", "text 0", "text 0"])
    assert corpus.labels is None


def test_similar_pairs_have_a_score_of_4_or_more(make_archive: Callable[..., Path]) -> None:
    """A score of 4 is enough, although the paper says "higher than 4" (clsr.md, section 3)."""
    scores = ["4.000", "3.999", "5.000", "0.000", "4.001"]
    rows = [f"main-news\tMSRpar\t2012\t1\t{score}\tone {score}\ttwo {score}\n" for score in scores]
    path = make_archive({"downstream/STS/STSBenchmark/sts-train.csv": "".join(rows)})
    first, second = read_similar_pairs([path]).columns
    assert first == ["one 4.000", "one 5.000", "one 4.001"]
    assert second == ["two 4.000", "two 5.000", "two 4.001"]


def test_neighbours_are_of_one_document(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n three \n\nfour\nfive\n\n\nalone\n")
    name = f"neighbours:{tmp_path / 'a.txt'}"
    assert read(name).columns == (["one", "two", "four"], ["two", "three", "five"])
    assert not source(name).labelled
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    with pytest.raises(UserError, match=r"a\.txt holds no two sentences in a row"):
        read(name)
    (tmp_path / "a.csv").write_text("sentence1,sentence2\none,two\n")
    with pytest.raises(UserError, match=r"running text, .* and a \.csv file is a table"):
        source(f"neighbours:{tmp_path / 'a.csv'}")


def test_a_corpus_of_the_papers_takes_no_options() -> None:
    with pytest.raises(UserError, match="graded-triplets is read as a whole"):
        source("graded-triplets?limit=5")
