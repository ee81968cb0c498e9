"""Tables as corpora: formats, columns, filters, the Hub's names, and what is refused."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from huggingface_hub import close_session

from harness.data.corpora import count_items, source
from harness.data.shapes import CorpusName, parsed
from harness.data.tokens import load_tokenizer, tokenised
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.resolution import resolve
from tests.data.conftest import read
from tests.downloads import FIRST, downloaded
from tests.kits import hub_client

ROWS = [
    {"one": "a, b", "two": 'the "NA"', "gold": 4.5, "genre": "fiction"},
    {"one": "NA", "two": "12", "gold": 0.0, "genre": "travel"},
    {"one": "null", "two": "", "gold": 2.25, "genre": "fiction"},
]


def write_jsonl(path: Path) -> None:
    """Write one object a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")


def test_filters_and_a_limit(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl")
    name = f"{tmp_path}/a.jsonl?sentence=one"
    assert read(f"{name}&where.genre=fiction").columns == (["a, b", "null"],)
    assert read(f"{name}&limit=2").columns == (["a, b", "NA"],)
    assert count_items(f"{name}&where.genre=fiction&where.genre=travel") == 3
    with pytest.raises(UserError, match=r"holds no item that the filter leaves"):
        read(f"{name}&where.genre=news")


@pytest.mark.parametrize(
    ("header", "shape"),
    [("sentence1,sentence2,score", "scored pairs"), ("anchor,positive,negative", "triplets"),
     ("sent0,sent1,hard_neg", "triplets"), ("premise,hypothesis,label", "labelled pairs"),
     ("anchor,positive", "pairs"), ("id,sentence1,sentence2,score", "scored pairs"),
     ("sentence1,sentence2,label", ""), ("premise,hypothesis", ""), ("a,b,c", ""),
     ("sentence,id", "")],
)  # fmt: skip
def test_columns_say_what_a_corpus_is(tmp_path: Path, header: str, shape: str) -> None:
    """Columns that fit no shape are refused by name."""
    path, columns = tmp_path / "a.csv", header.split(",")
    path.write_text(f"{header}\n{','.join('1' for _ in columns)}\n")
    if shape:
        assert source(str(path)).shape == shape
    else:
        with pytest.raises(UserError, match=rf"a\.csv: the columns {', '.join(columns)} "):
            _ = source(str(path)).shape


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("first=one&second=tow", 'no column "tow"; did you mean "two"'),
        ("first=one", "no corpus has the roles first alone"),
        ("first=one&secnod=two", 'unknown role "secnod"; did you mean "second"'),
        ("first=one&second=two&limit=0", "limit: "),
        ("first=one&second=two&limit=2&limit=3", "limit is given twice"),
        ("nonsense", "behind the question mark"),
        ("sentence=gold", 'line 1: column "gold" holds 4.5, which is no text'),
        ("first=one&second=two&score=genre", "line 1: the score 'fiction' is no number"),
        ("premise=one&hypothesis=two&label=genre", "line 1: label 'fiction' is none of 0, 1, 2"),
        ("sentence=one&where.gerne=fiction", 'no column "gerne"; did you mean "genre"'),
    ],
)
def test_what_is_wrong_with_a_name_is_said(tmp_path: Path, query: str, message: str) -> None:
    write_jsonl(tmp_path / "a.jsonl")
    with pytest.raises(UserError, match=message):
        read(f"{tmp_path}/a.jsonl?{query}")


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jsonl", b'{"a": 1\n'), ("a.parquet", b"x"), ("a.csv.gz", b"x"), ("a.jsonl", b"")],
)
def test_a_damaged_file_is_a_users_mistake(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name} (cannot be read|holds no item)|line 1: no JSON"):
        read(f"{tmp_path / name}?first=a&second=b")


@pytest.mark.slow
@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("name", ["stanfordnlp/snli:test", "stanfordnlp/snli/default:test"])
def test_a_data_set_of_the_mirror_by_its_name_on_the_hub(name: str) -> None:
    by_hand, by_name = read("snli-test"), read(name)
    assert by_name.columns == by_hand.columns
    assert by_hand.labels is not None
    assert np.array_equal(by_name.labels, by_hand.labels)
    assert source(name).shape == "labelled pairs"


@pytest.mark.usefixtures("hub")
def test_a_split_that_is_not_there_is_named() -> None:
    for name, message in (
        ("stanfordnlp/snli", 'no split "train"; valid: test, validation'),
        ("stanfordnlp/snli/defualt:test", 'no configuration "defualt"; did you mean "default"'),
        ("nobody/nothing:test", 'data set "nobody/nothing" was not found'),
    ):
        with pytest.raises(UserError, match=message):
            source(name).paths()


def test_without_a_hub_the_answer_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library `datasets` would try for half a minute; the Hub's client says it first."""
    monkeypatch.setitem(sys.modules, "datasets", None)  # whoever imports it gets an error
    with pytest.raises(UserError, match=r"the Hub did not give it \(LocalEntryNotFoundError\)"):
        source("nobody/nothing:test").paths()


CARD = """\
---
configs:
- config_name: {name}
  data_files:
  - split: train
    path: {path}
---
"""


def write_as_on_the_hub(folder: Path) -> None:
    """SNLI as it lies there: one folder for a configuration, with more than one file of a split."""
    (folder / "plain_text").mkdir(parents=True)
    (folder / "README.md").write_text(CARD.format(name="plain_text", path="plain_text/train-*"))
    for part in range(2):
        frame = {"premise": [f"p{part}"], "hypothesis": ["h"], "label": [part]}
        pd.DataFrame(frame).to_parquet(folder / f"plain_text/train-0000{part}-of-00002.parquet")


def test_the_layout_of_the_hub_is_read_from_its_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a mirror, a revision is a folder of its own."""
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path))
    for name in ("nli", "nli@v1"):
        write_as_on_the_hub(tmp_path / "datasets" / "some" / name)
    for name in ("some/nli", "some/nli:train", "some/nli/plain_text"):
        assert read(name).columns[0] == ["p0", "p1"]
    [first, _] = source("some/nli@v1/plain_text:train").paths()
    assert first.is_relative_to(tmp_path / "datasets" / "some" / "nli@v1")
    with pytest.raises(UserError, match=r'data set "some/nli@v2" was not found'):
        source("some/nli@v2").paths()


@pytest.mark.parametrize("name", ["a[1]", "a*", "b::c"])
def test_a_mirror_is_one_folder_whatever_its_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Beside it lies what the library would read for its path as a pattern."""
    for mirror, text in (("a1", "wrong"), ("aX", "wrong"), (name, "right")):
        folder = tmp_path / mirror / "datasets" / "some" / "texts"
        folder.mkdir(parents=True)
        (folder / "train.csv").write_text(f"sentence\n{text}\n{text}\n")
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path / name))
    assert read("some/texts").columns == (["right", "right"],)
    assert source("some/texts").paths() == [folder / "train.csv"]


def test_a_card_names_files_of_its_own_folder_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.csv").write_text("sentence\na\nb\n")
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path))
    for number, path in enumerate([tmp_path / "secret.csv", "../../../secret.csv"]):
        folder = tmp_path / "datasets" / "some" / f"texts{number}"
        folder.mkdir(parents=True)
        (folder / "README.md").write_text(CARD.format(name="default", path=path))
        with pytest.raises(UserError, match=rf"texts{number} (names|cannot be read)"):
            read(f"some/texts{number}")


@pytest.mark.slow
@pytest.mark.parametrize("offline", [True, False])
def test_what_was_downloaded_is_read_without_a_network(
    offline: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_as_on_the_hub(downloaded(tmp_path, "datasets/some/nli", FIRST, "main"))
    nobody = "http://127.0.0.1:9"  # listens there
    hub_client(monkeypatch, HF_HUB_CACHE=str(tmp_path), ENDPOINT=nobody, HF_HUB_OFFLINE=offline)
    monkeypatch.setattr("time.sleep", lambda _: None)  # the client's, before it asks again
    close_session()
    for name in ("some/nli", "some/nli/plain_text:train", f"some/nli@{FIRST}"):
        assert read(name).columns[0] == ["p0", "p1"]
    with pytest.raises(UserError, match='no split "test"; valid: train'):
        source("some/nli:test").paths()
    with pytest.raises(UserError, match=r'data set "some/nli@v2" was not found'):
        source("some/nli@v2/plain_text").paths()
    close_session()


def test_a_name_says_all_and_is_read_again() -> None:
    values = {
        "data": "a b/c.csv", "columns": {"first": "one & two", "second": "ä=b"}, "limit": 5,
        "where": {"year": 2012, "genre": ["fiction?", "x/y"]},
    }  # fmt: skip
    name = CorpusName.model_validate(values)
    assert parsed(str(name)) == name
    assert parsed("a.csv") == CorpusName(data="a.csv")


def test_the_cache_knows_columns_limits_and_content(tmp_path: Path, tiny_encoder: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl")
    tokenizer = load_tokenizer(str(tiny_encoder), ends=False)

    def folders() -> set[Path]:
        queries = ("sentence=one", "sentence=two", "sentence=one&limit=2")
        return {tokenised(f"{tmp_path}/a.jsonl?{query}", tokenizer).folder for query in queries}

    before = folders()
    assert len(before) == 3
    assert folders() == before
    with (tmp_path / "a.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(ROWS[0]) + "\n")
    assert not folders() & before


@pytest.mark.parametrize("field", ["sentences", "triplets"])
def test_a_corpus_of_another_shape_is_refused_before_anything_runs(
    tmp_path: Path, field: str
) -> None:
    """The scores of pairs were once taken for hard negatives."""
    path = tmp_path / "pairs.csv"
    path.write_text("sentence1,sentence2,score\na,b,4.8\nc,d,1.0\n")
    setting = "sup" if field == "triplets" else "unsup"
    plugin = registry.load("simcse")
    declared = plugin.declare(resolve(plugin, {"setting": setting, field: str(path)}))
    with pytest.raises(UserError, match=rf"{field} asks for {field}, .* has scored pairs"):
        declared.check()
