"""Suites of a user's own scored pairs, from one table or from two."""

import gzip
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.evaluation.suites import suite
from tests.evaluation.conftest import embed, rank_correlation

ROWS = [
    *(("dev", f"d{number}", f"e{number}", number % 4) for number in range(8)),
    *(("test", f"t{number}", f"u{number}", number % 3) for number in range(9)),
]


def write(path: Path, rows: list[tuple[str, str, str, int]], header: str) -> Path:
    """Write a table whose last columns are the two texts and the score."""
    columns = len(header.split(","))
    lines = [",".join(map(str, row[4 - columns :])) for row in rows]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def expected(split: str) -> float:
    """Spearman x100 of the cosines of a split, computed from its definition."""
    _, first, second, gold = zip(*(row for row in ROWS if row[0] == split), strict=True)
    return rank_correlation(embed(first), embed(second), gold)


@pytest.fixture(params=["one table", "another column", "validation", "two tables"])
def name(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The name of a suite with the rows, in each of the ways to write them."""
    if request.param == "two tables":
        for split in ("dev", "test"):
            rows = [row for row in ROWS if row[0] == split]
            write(tmp_path / f"{split}.csv", rows, "sentence1,sentence2,score")
        return f"{tmp_path}/test.csv?dev={tmp_path}/dev.csv"
    rows = [("validation" if row[0] == "dev" else "test", *row[1:]) for row in ROWS]
    if request.param == "one table":
        return str(write(tmp_path / "test.csv", ROWS, "split,sentence1,sentence2,score"))
    if request.param == "validation":
        return str(write(tmp_path / "test.csv", rows, "split,sentence1,sentence2,score"))
    path = write(tmp_path / "test.csv", rows, "part,a,b,gold")
    return f"{path}?first=a&second=b&score=gold&split=part"


def test_dev_selects_and_test_is_reported(name: str) -> None:
    own_suite = suite(name)
    assert (own_suite.name, own_suite.dev, own_suite.tests) == ("test", "test-dev", ("test",))
    assert own_suite.score_dev(embed) == pytest.approx(expected("dev"))
    scores = own_suite.score_test(embed)
    assert scores.metrics == {"test": pytest.approx(expected("test"))}
    assert scores.uncertainty["test"].standard_error > 0


def test_endings_in_capital_letters_are_no_part_of_the_name(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", ROWS, "sentence1,sentence2,score")
    packed = tmp_path / "mine.CSV.GZ"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert suite(str(packed)).name == "mine"


def test_other_columns_and_other_content_are_another_suite(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", ROWS, "sentence1,sentence2,score")
    digests = {suite(str(path)).digest(), suite(f"{path}?limit=3").digest()}
    assert suite(str(path)) is suite(str(path)), "its data would be read anew for every score"
    write(path, ROWS[::-1], "sentence1,sentence2,score")
    assert len({*digests, suite(str(path)).digest()}) == 3


@pytest.mark.parametrize(
    ("header", "query", "message"),
    [
        ("sentence1,sentence2,label", "", "the columns sentence1, sentence2, label do not say"),
        ("premise,hypothesis,label", "", "a suite needs scored pairs, and the file has labelled"),
        ("sentence1,sentence2,score", "?split=part", 'no column "part" that says dev or test'),
        ("sentence1,sentence2,score", "?dev=none.csv", "there is no such file: none.csv"),
        ("split,sentence1,sentence2,score", "?dev=mine.csv&split=split", "both say which pairs"),
        ("sentence1,sentence2,score", "?dev=stsb-train", "is no file with scored pairs"),
    ],
)
def test_what_is_no_suite_is_refused(tmp_path: Path, header: str, query: str, message: str) -> None:
    path = write(tmp_path / "mine.csv", ROWS, header)
    with pytest.raises(UserError) as error:
        suite(f"{path}{query}")
    assert message in str(error.value)


def test_a_split_without_pairs_and_a_shipped_name_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", ROWS[:8], "split,sentence1,sentence2,score")
    with pytest.raises(UserError, match=r"mine\.csv holds no pair with split=test"):
        suite(str(path)).load("mine")
    path = write(tmp_path / "sts.csv", ROWS, "sentence1,sentence2,score")
    with pytest.raises(UserError, match="the name of a shipped one; rename"):
        suite(str(path))
    path = write(tmp_path / "stsb.csv", ROWS, "split,sentence1,sentence2,score")
    with pytest.raises(UserError, match="stsb-dev, which is a dev score of the shipped suite sts;"):
        suite(str(path))


def test_a_split_without_dev_selects_nothing_and_a_filter_goes_before_it(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", ROWS[8:], "split,sentence1,sentence2,score")
    assert suite(str(path)).card.dev is None
    path = write(tmp_path / "mine.csv", ROWS, "split,sentence1,sentence2,score")
    found = suite(f"{path}?where.split=dev")
    assert found.score_test(embed).metrics == {"mine": pytest.approx(expected("dev"))}
    assert found.card.dev is None


@pytest.mark.parametrize("count", [3, 4, 6])
def test_a_score_with_few_pairs_is_there_without_an_interval(count: int, tmp_path: Path) -> None:
    """A resample of 4 pairs may have one pair four times, which has no correlation."""
    rows = [f"one {at},two {at},{at},test" for at in range(count)]
    path = tmp_path / "few.csv"
    path.write_text("\n".join(["sentence1,sentence2,score,split", *rows]), encoding="utf-8")
    scores = suite(str(path)).score_test(embed)
    assert list(scores.metrics) == ["few"]
    assert -100 <= scores.metrics["few"] <= 100
    assert scores.pairs["few"].shape == (2, count)
    if count < 6:
        assert scores.uncertainty == {}
