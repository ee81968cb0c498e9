"""The pairs of the STS sets, against a second reading of the raw files, and malformed files."""

import bz2
import gzip
import lzma
import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.data.senteval import archive, lines
from harness.data.sts_pairs import LOADERS, sick, sts_benchmark
from harness.errors import UserError

MakeArchive = Callable[..., Path]
SIZES = {
    "sts12": 3108, "sts13": 1500, "sts14": 3750, "sts15": 3000, "sts16": 1186, "stsb": 1379,
    "sickr": 4927, "stsb-dev": 1500, "sickr-dev": 500,
}  # fmt: skip
"""Pairs of each task (evaluation_protocol.md, section 1)"""
SUBSETS = {
    "sts12": {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750,
              "surprise.SMTnews": 399},
    "sts13": {"FNWN": 189, "headlines": 750, "OnWN": 561},
    "sts14": {"deft-forum": 450, "deft-news": 300, "headlines": 750, "images": 750, "OnWN": 750,
              "tweet-news": 750},
    "sts15": {"answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750,
              "images": 750},
    "sts16": {"answer-answer": 254, "headlines": 249, "plagiarism": 230, "postediting": 244,
              "question-question": 209},
}  # fmt: skip
"""Pairs with a gold score in each subset, in SentEval's order"""


def raw_lines(members: Mapping[str, bytes], name: str) -> list[str]:
    """The lines of a member of the archive."""
    return members[name].decode("utf-8").removesuffix("\n").split("\n")


def raw_rows(members: Mapping[str, bytes], task: str) -> list[tuple[str, str, str]]:
    """First, second and score of every pair with a score (evaluation_protocol.md, section 1)."""
    rows: list[tuple[str, str, str]] = []
    if task in SUBSETS:
        for subset in SUBSETS[task]:
            folder = f"STS/{task.upper()}-en-test/STS"
            texts = raw_lines(members, f"{folder}.input.{subset}.txt")
            scores = raw_lines(members, f"{folder}.gs.{subset}.txt")
            for text, score in zip(texts, scores, strict=True):
                if score.strip():
                    rows.append((*text.split("\t")[:2], score))  # type: ignore[arg-type]
        return rows
    if task.startswith("sickr"):
        split = "trial" if task == "sickr-dev" else "test_annotated"
        lines, places = raw_lines(members, f"SICK/SICK_{split}.txt")[1:], (1, 2, 3)
    else:
        split = "dev" if task == "stsb-dev" else "test"
        lines, places = raw_lines(members, f"STS/STSBenchmark/sts-{split}.csv"), (5, 6, 4)
    for line in lines:
        fields = line.split("\t")
        first, second, score = (fields[place] for place in places)
        rows.append((first, second, score))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(("task", "size"), SIZES.items())
def test_pairs_are_those_of_the_files(members: dict[str, bytes], task: str, size: int) -> None:
    pairs = LOADERS[task]()
    rows = raw_rows(members, task)
    assert len(pairs) == len(rows) == size
    assert pairs.first == [" ".join(first.split()) for first, _, _ in rows]
    assert pairs.second == [" ".join(second.split()) for _, second, _ in rows]
    assert pairs.gold.tolist() == [float(score) for _, _, score in rows]


@pytest.mark.slow
@pytest.mark.parametrize("task", SUBSETS)
def test_subsets_lie_where_their_files_put_them(members: dict[str, bytes], task: str) -> None:
    pairs = LOADERS[task]()
    assert list(pairs.subsets.items()) == list(SUBSETS[task].items())
    for name, part in pairs.parts().items():
        scores = raw_lines(members, f"STS/{task.upper()}-en-test/STS.gs.{name}.txt")
        assert pairs.gold[part].tolist() == [float(score) for score in scores if score.strip()]


def test_the_archive_is_not_looked_for_once_for_each_pair(
    hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, stat = list[str](), os.stat

    def counted(path: Any, **options: Any) -> os.stat_result:
        looks.append(str(path))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", counted)
    assert len(LOADERS["sts12"]()) == SIZES["sts12"]
    monkeypatch.undo()
    assert hub in archive().parents
    assert 0 < looks.count(str(archive())) < 100


@pytest.mark.usefixtures("hub")
def test_training_sets_have_the_published_sizes_and_sick_has_scores_from_1_to_5() -> None:
    assert (len(sts_benchmark("train")), len(sick("train"))) == (5749, 4500)
    pairs = LOADERS["sickr-dev"]()
    assert not pairs.parts()
    assert (pairs.gold.min(), pairs.gold.max()) == (1, 5)


def year(**changed: str) -> dict[str, str]:
    """The files of STS13 with two pairs in each subset; `changed`: other texts of some files."""
    texts = {}
    for subset in SUBSETS["sts13"]:
        pairs = f"{subset} one\ttwo  words \n{subset} three\tfour\n"
        texts[f"STS/STS13-en-test/STS.input.{subset}.txt"] = pairs
        texts[f"STS/STS13-en-test/STS.gs.{subset}.txt"] = "1.5\n4\n"
    return texts | {f"STS/STS13-en-test/STS.{name}.txt": text for name, text in changed.items()}


def test_words_are_joined_by_single_spaces_and_pairs_without_a_score_are_dropped(
    make_archive: MakeArchive,
) -> None:
    make_archive(year())
    pairs = LOADERS["sts13"]()
    assert pairs.first == [
        f"{name} {word}" for name in SUBSETS["sts13"] for word in ("one", "three")
    ]
    assert pairs.second == ["two words", "four"] * 3
    assert pairs.gold.tolist() == [1.5, 4] * 3
    changed = {"gs.headlines": "\n2.0\n", "input.OnWN": "a\tb\r\nc\td\r\n", "gs.OnWN": "1\r\n \r\n"}
    make_archive(year(**changed))
    pairs = LOADERS["sts13"]()
    assert pairs.first == ["FNWN one", "FNWN three", "headlines three", "a"]
    assert pairs.gold.tolist() == [1.5, 4, 2, 1]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("input.headlines", "a\tb\nno tab here\n", "headlines.txt, line 2: 2 tab-separated fields"),
        ("input.headlines", "a\tb\tc\nd\te\n", "headlines.txt, line 1: 2 .* expected, 3 found"),
        ("gs.OnWN", "1.5\nhigh\n", 'gs.OnWN.txt, line 2: the gold score "high" is no number'),
        ("gs.OnWN", "nan\n1\n", 'gs.OnWN.txt, line 1: the gold score "nan" is no number'),
        ("gs.FNWN", "1.5\n", "FNWN has 2 pairs and 1 gold scores"),
    ],
)
def test_a_malformed_year_is_named_with_its_line(
    make_archive: MakeArchive, name: str, text: str, message: str
) -> None:
    make_archive(year(**{name: text}))
    with pytest.raises(UserError, match=r"senteval\.tar.*" + message):
        LOADERS["sts13"]()


def test_a_malformed_table_is_named_with_its_line(make_archive: MakeArchive) -> None:
    good, short = ("genre\tfile\tyear\t0001\t2.5\tone" + rest for rest in ("\ttwo\textra\n", "\n"))
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tjudgment\n"
    make_archive(
        {
            "STS/STSBenchmark/sts-dev.csv": good * 2 + short + good,
            "STS/STSBenchmark/sts-test.csv": good + good.replace("2.5", "-"),
            "SICK/SICK_test_annotated.txt": header + "1\ta\tb\t4.5\tNEUTRAL\n" + "2\ta\tb\n",
        }
    )
    for task, message in (
        ("stsb-dev", r"sts-dev\.csv, line 3: 7 tab-separated fields were expected, 6 found"),
        ("stsb", r'sts-test\.csv, line 2: the gold score "-" is no number'),
        ("sickr", r"SICK_test_annotated\.txt, line 3: 4 tab-separated fields"),
    ):
        with pytest.raises(UserError, match=message):
            LOADERS[task]()


# SentEval's archive: where its members lie, how often it is read, and what damage leaves.


@pytest.mark.parametrize("prefix", ["", "downstream/", "SentEval/data/downstream/"])
def test_the_members_may_lie_in_any_folder(make_archive: MakeArchive, prefix: str) -> None:
    make_archive({"CR/custrev.pos": "fine\nwell\n", "CR/custrev.neg": "poor\n"}, prefix)
    assert (lines("CR/custrev.pos"), lines("CR/custrev.neg")) == (["fine", "well"], ["poor"])


def test_a_new_archive_at_the_same_path_is_noticed(make_archive: MakeArchive) -> None:
    """Also one that is none."""
    make_archive({"CR/custrev.pos": "fine\n"})
    assert lines("CR/custrev.pos") == ["fine"]
    make_archive({"MR/rt-polarity.pos": "x\n" * 9000, "CR/custrev.pos": "better\n"})
    assert lines("CR/custrev.pos") == ["better"]
    archive().write_bytes(b"this is no archive")
    with pytest.raises(UserError, match=r"senteval\.tar.*cannot be read"):
        lines("CR/custrev.pos")


def test_members_in_front_of_a_damage_are_read(make_archive: MakeArchive) -> None:
    path = make_archive({"CR/custrev.pos": "fine\n", "CR/custrev.neg": "poor\n" * 9000})
    path.write_bytes(path.read_bytes()[:20_000])
    assert lines("CR/custrev.pos") == ["fine"]
    for member in ("CR/custrev.neg", "MR/rt-polarity.neg"):
        message = rf"{member}: cannot be read \(unexpected end of data\)"
        with pytest.raises(UserError, match=message):
            lines(member)


def test_the_table_of_contents_is_read_once(
    make_archive: MakeArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_archive({f"CR/{number}": f"{number}\n" for number in range(50)})
    headers = []
    next_header = tarfile.TarFile.next

    def count(tar: tarfile.TarFile) -> tarfile.TarInfo | None:
        headers.append(tar)
        return next_header(tar)

    monkeypatch.setattr(tarfile.TarFile, "next", count)
    found = [lines(f"CR/{number}") for number in range(50)]
    assert found == [[str(number)] for number in range(50)]
    # All headers once, and a few more for every opening. A search would read 25 for each member.
    assert len(headers) < 10 * 50


def claiming(kind: bytes) -> bytes:
    """The header of a member that claims 64 GiB, which it has not."""
    entry = tarfile.TarInfo("CR/custrev.neg")
    entry.size, entry.type = 2**36, kind
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    if kind == tarfile.GNUTYPE_SPARSE:  # no content, and the size with the gaps
        header[124:136] = b"%011o\0" % 0
        header[483:495] = b"\x80" + (2**36).to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


@pytest.mark.parametrize(
    "kind", [tarfile.REGTYPE, tarfile.GNUTYPE_SPARSE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME]
)
def test_what_a_member_may_claim_has_a_bound(make_archive: MakeArchive, kind: bytes) -> None:
    path = make_archive({"CR/custrev.pos": "fine\n"})
    path.write_bytes(path.read_bytes()[:1024] + claiming(kind) + bytes(1024))
    assert lines("CR/custrev.pos") == ["fine"]
    with pytest.raises(UserError, match=r"CR/custrev\.neg: .*(at most|end of data|empty header)"):
        lines("CR/custrev.neg")


def test_a_packed_archive_is_not_unpacked(make_archive: MakeArchive) -> None:
    path = make_archive({"CR/custrev.pos": "fine\n"})
    for module in (gzip, bz2, lzma):
        path.write_bytes(module.compress(path.read_bytes()))
        with pytest.raises(UserError, match=r"senteval\.tar, CR/custrev\.pos: cannot be read"):
            lines("CR/custrev.pos")
