"""Data sets of the Hub by `ORGANISATION/NAME[@REVISION][/CONFIG][:SPLIT]`.

They lie in a mirror, or are downloaded. In the name of a branch, a slash is written as `%2F`,
because a configuration may follow the revision.
"""

import functools
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.data.hub import mirrors, not_found
from harness.data.revisions import SLASH_OF_DATA, downloaded_revisions, snapshot
from harness.errors import NotHere, UserError, explained, suggest
from harness.files import Stamp
from harness.inputs import is_folder

_NAME = re.compile(
    r"(?P<repository>[\w-][\w.-]*/[\w-][\w.-]*)"
    rf"(@(?P<revision>refs/(pr|convert)/\w[\w.-]*|\w[\w.-]*({SLASH_OF_DATA}\w[\w.-]*)*))?"
    r"(/(?P<config>[\w.-]+))?(:(?P<split>[\w.-]+))?"
)


def is_hub_name(data: str) -> bool:
    """Whether it can be the name of a data set of the Hub."""
    return _NAME.fullmatch(data) is not None


def hub_files(data: str, *, download: bool = True) -> list[Path]:
    """The files of a split of a data set, `train` unless the name says another.

    The card of the data set says which they are, so any layout is read. Raises UserError when there
    is no such revision, configuration or split, and NotHere when the data set is not at hand.
    """
    parts = _NAME.fullmatch(data)
    assert parts is not None
    repository, config, split = parts["repository"], parts["config"], parts["split"] or "train"
    revision = parts["revision"] and parts["revision"].replace(SLASH_OF_DATA, "/")
    mirrored = mirrored_data_set(f"{repository}@{revision}" if revision else repository)
    folder = mirrored or _downloaded(repository, revision, config, download)
    there = sorted(path for path in folder.rglob("*") if path.is_file())
    splits = _local_splits(folder, config, tuple(map(Stamp.of, there)))
    if split not in splits:
        raise UserError(f'corpus "{data}": there is no split "{split}"{suggest(split, splits)}')
    return splits[split]


def mirrored_data_set(repository: str) -> Path | None:
    """The folder of a data set in a mirror; None: it is in none, or cannot be one of the Hub."""
    if not is_hub_name(repository):
        return None
    folders = (mirror / "datasets" / repository for mirror in mirrors())
    return next((folder for folder in folders if is_folder(folder)), None)


@contextmanager
def plainly_named(folder: Path) -> Iterator[Path]:
    """In the block, a folder with links to the files of another one, whose path has no sign.

    The library `datasets` reads the path of a folder as a pattern.
    """
    with TemporaryDirectory(prefix="harness-data-") as name:
        linked = Path(name).resolve()
        for path in folder.rglob("*"):
            if path.is_file():
                link = linked / path.relative_to(folder)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(path.absolute())
        yield linked


# A plan asks once a round, and the library looks at every file of the folder.
@functools.cache
def _local_splits(folder: Path, config: str | None, _: tuple[Stamp, ...]) -> dict[str, list[Path]]:
    """Split -> its files in a folder. Raises UserError when the card names one outside of it."""
    with plainly_named(folder) as linked, explained(f"{folder}: "):
        try:
            splits = _splits(str(linked), config)
        except UserError as error:
            raise UserError(str(error).replace(str(linked), str(folder))) from None
        for named in itertools.chain.from_iterable(splits.values()):
            if not Path(named).is_relative_to(linked):
                raise UserError(
                    f"the card of the data set {folder} names {named}, which is outside"
                )
        return {
            split: [folder / Path(path).relative_to(linked) for path in paths]
            for split, paths in splits.items()
        }


def _splits(folder: str, config: str | None, revision: str | None = None) -> dict[str, list[str]]:
    """Split -> its files, in a folder or in a repository of the Hub."""
    with explained(f"the data set {folder} cannot be read: "):
        from datasets import get_dataset_config_names, load_dataset_builder

        if config is not None:
            configurations = get_dataset_config_names(folder, revision=revision)
            if config not in configurations:
                raise UserError(
                    f'the data set {folder} has no configuration "{config}"'
                    f"{suggest(config, configurations)}"
                )
        files: Any = load_dataset_builder(folder, config, revision=revision).config.data_files
        return {str(split): list(paths) for split, paths in (files or {}).items()}


def _downloaded(repository: str, revision: str | None, config: str | None, download: bool) -> Path:
    """The folder of the Hub's snapshot, with the card and the files of a configuration."""
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    fetch = functools.partial(snapshot, "datasets", repository, revision, download=download)
    try:
        # Without a Hub this fails at once, where `datasets` tries again for half a minute.
        folder = fetch(["README.md"])
        # Without a network it gives what was downloaded before.
        if download and _answers(repository, revision):
            # `hf://datasets/ORGANISATION/NAME@COMMIT/FILE`
            splits = _splits(repository, config, folder.name)
            paths = [path for each in splits.values() for path in each]
            files = [path.partition("@")[2].partition("/")[2] for path in paths]
            folder = fetch(["README.md", *files])
        return folder
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        # The Hub's own messages are long, and say what is said below.
        why = (
            f"the Hub did not give it ({type(error).__name__})" if download else "it was not asked"
        )
        wanted = f"{repository}@{revision}" if revision else repository
        others = downloaded_revisions("datasets", repository) if revision else []
        nowhere = not_found(f"datasets/{wanted}", f"on the Hub: {why}")
        raise NotHere(f'data set "{wanted}" was {nowhere}{suggest(wanted, others)}') from None


def _answers(repository: str, revision: str | None) -> bool:
    """Whether the Hub can be asked for this data set now."""
    from huggingface_hub import HfApi

    try:
        with explained(""):  # each version of the client has other errors of a network
            HfApi().dataset_info(repository, revision=revision)
    except UserError:
        return False
    return True
