"""SentEval's archive: where its members lie, how often it is read, and what damage leaves."""

import bz2
import gzip
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.data.senteval import archive, lines
from harness.errors import UserError

MakeArchive = Callable[..., Path]


@pytest.mark.parametrize("prefix", ["", "downstream/", "SentEval/data/downstream/"])
def test_the_members_may_lie_in_any_folder(make_archive: MakeArchive, prefix: str) -> None:
    make_archive({"CR/custrev.pos": "fine\nwell\n", "CR/custrev.neg": "poor\n"}, prefix)
    assert lines("CR/custrev.pos") == ["fine", "well"]
    assert lines("CR/custrev.neg") == ["poor"]


def test_a_missing_member_and_a_file_that_is_no_archive(make_archive: MakeArchive) -> None:
    make_archive({"CR/custrev.pos": "fine\n"})
    with pytest.raises(UserError, match=r"senteval\.tar has no member CR/custrev\.neg"):
        lines("CR/custrev.neg")
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


def test_a_new_archive_at_the_same_path_is_noticed(make_archive: MakeArchive) -> None:
    make_archive({"CR/custrev.pos": "fine\n"})
    assert lines("CR/custrev.pos") == ["fine"]
    make_archive({"MR/rt-polarity.pos": "x\n" * 9000, "CR/custrev.pos": "better\n"})
    assert lines("CR/custrev.pos") == ["better"]


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
    with pytest.raises(UserError, match=r"CR/custrev\.neg: .*(at most|end of data)"):
        lines("CR/custrev.neg")


def test_a_packed_archive_is_not_unpacked(make_archive: MakeArchive) -> None:
    path = make_archive({"CR/custrev.pos": "fine\n"})
    for module in (gzip, bz2, lzma):
        path.write_bytes(module.compress(path.read_bytes()))
        with pytest.raises(UserError, match=r"senteval\.tar, CR/custrev\.pos: cannot be read"):
            lines("CR/custrev.pos")
