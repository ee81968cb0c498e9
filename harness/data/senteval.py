"""SentEval's data sets: one tar archive, read member by member."""

import tarfile
from pathlib import Path

from harness.data.hub import data_file
from harness.errors import UserError

SIMCSE = "princeton-nlp/datasets-for-simcse"
ARCHIVE = "senteval.tar"


def archive() -> Path:
    """SentEval's data sets as one archive."""
    return data_file(SIMCSE, ARCHIVE)


def lines(member: str, path: Path | None = None) -> list[str]:
    """The lines of a member of SentEval's archive, wherever its folder `downstream` lies in it.

    Raises UserError when the archive or the member is missing or damaged.
    """
    path = path or archive()
    try:
        with tarfile.open(path) as tar:
            for entry in tar:
                if entry.name == member or entry.name.endswith("/" + member):
                    file = tar.extractfile(entry)
                    assert file is not None, member
                    return split_lines(file.read().decode("utf-8"))
    except (tarfile.TarError, OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"{path}, {member}: cannot be read ({error})") from None
    raise UserError(f"{path} has no member {member}")


def split_lines(text: str) -> list[str]:
    """Lines as files have them: `str.splitlines` would also cut at form feeds and Unicode separators."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")
