"""Texts for others, in which a path of this machine is its last part alone."""

import re
from pathlib import Path
from typing import Any

from harness.data.hub_tables import is_hub_name
from harness.data.revisions import parts_of

_KIND = re.compile(r"[a-z]+:(?=~|\.{0,2}/)")
"""What stands in front of a path in the name of a corpus, such as `neighbours:`"""
_STARTS = ("/", "~", "./", "../")


def without_folders(value: Any) -> Any:
    """A value of JSON without the folders of its texts."""
    if isinstance(value, dict):
        return {name: without_folders(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(part) for part in value]
    return without_folder(value) if isinstance(value, str) else value


def without_folder(text: str) -> str:
    """A path of this machine without its folders; any other text as it is.

    The name of a model or a data set on the Hub has a `/`, too, but does not begin with one.
    """
    kind = match[0] if (match := _KIND.match(text)) else ""
    path = text.removeprefix(kind)
    inside = path.count("/") > 1 and not re.search(r"\s", path) and not _of_the_hub(path)
    is_path = path.startswith(_STARTS) or inside
    return kind + path.rstrip("/").rpartition("/")[2] if is_path else text


def _of_the_hub(text: str) -> bool:
    """Whether it can only be a model or a corpus with `@REVISION`, `:SPLIT` or `?COLUMNS`.

    Without these, it may as well be a folder inside the working directory.
    """
    name, columns, _ = parts_of(text)[0].partition("?")
    before, split, _ = name.partition(":")
    said = split or columns or "@" in before
    return bool(said) and is_hub_name(name) and not Path(before).suffix
