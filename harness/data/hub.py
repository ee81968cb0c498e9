"""Sources of the files of models and data sets: local mirror, embedded default, Hugging Face Hub.

They are searched in this order. A mirror has the layout of the Hub
(`models/<organisation>/<name>/<file>`, `datasets/<organisation>/<name>/<file>`), so a name means
the same in all three. `HARNESS_HUB` names the folder of the mirror.
"""

import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from harness.data.foreign_files import (
    PICKLED,
    check_no_adapter,
    check_no_pointer,
    foreign_settings,
    instead_of_config,
)
from harness.data.revisions import (
    RepositoryKind,
    downloaded_revisions,
    downloads,
    hub_failure,
    parts_of,
    snapshot,
    split_revision,
    was_downloaded,
)
from harness.errors import NotHere, UserError, suggest
from harness.files import digest, digest_files
from harness.inputs import is_file, is_folder, kind_of, read_text, regular_file
from harness.relocation import here

Lookup = ParamSpec("Lookup")
Found = TypeVar("Found")
MODULES_FILE = "modules.json"
"""The file that every sentence-transformers folder has"""
EMBEDDED = Path(__file__).resolve().parent.parent / "embedded" / "hub"
"""The embedded default, which is laid out like a mirror"""
MODEL_FILES = (
    "*.json", "*.safetensors", "vocab.txt", "merges.txt", "dict.txt", "*.model", "*.spm", "*.bpe",
    "*.codes", "*.tokenizer",
)  # fmt: skip
"""Configuration, weights and tokenizer: all that is downloaded and all that a digest covers"""
SIZES = (
    "hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "vocab_size",
    "max_position_embeddings",
)  # fmt: skip
"""Keys of config.json that are numbers of something"""
LARGEST_SIZE = 2**31
"""Upper bound of such a number; the largest vocabularies have a million words"""
LARGEST_CONFIG = 2**20
"""Bytes of a config.json"""


def mirrors() -> list[Path]:
    """The folders that are laid out like the Hub, in the order in which they are searched.

    Raises UserError when `HARNESS_HUB` names no folder.
    """
    named = os.environ.get("HARNESS_HUB")
    if named and not is_folder(Path(named)):
        raise UserError(f"HARNESS_HUB names {named}, which is no folder")
    return [Path(named).resolve(), EMBEDDED] if named else [EMBEDDED]


_asked = ContextVar("asked", default=True)


@contextmanager
def hub_asked(download: bool) -> Iterator[None]:
    """Within it, `data_file` asks the Hub only where `download` is set.

    For code of others that opens data, such as the `files` of a suite: a plan downloads nothing.
    """
    token = _asked.set(_asked.get() and download)
    try:
        yield
    finally:
        _asked.reset(token)


_looked_up: ContextVar[dict[object, Any] | None] = ContextVar("looked_up", default=None)


@contextmanager
def looked_up_once() -> Iterator[None]:
    """In the block, functions that are `once` look a name up once: a plan asks thousands of times.

    What appears on this machine meanwhile is not seen in the block.
    """
    before = _looked_up.get()
    token = _looked_up.set({} if before is None else before)
    try:
        yield
    finally:
        _looked_up.reset(token)


def once(look: Callable[Lookup, Found]) -> Callable[Lookup, Found]:
    """Keep what `look` returns, or that it raises NotHere, in a block of `looked_up_once`."""

    @functools.wraps(look)
    def looked(*arguments: Lookup.args, **options: Lookup.kwargs) -> Found:
        table = _looked_up.get()
        if table is None:
            return look(*arguments, **options)
        asked = look, arguments, tuple(options.items())
        if asked not in table:
            try:
                table[asked] = look(*arguments, **options)
            except NotHere as error:
                table[asked] = error
        if isinstance(table[asked], NotHere):
            raise NotHere(str(table[asked]))
        found: Found = table[asked]
        return found

    return looked


def data_file(repository: str, name: str, *, download: bool = True) -> Path:
    """The path of the file `name` of a data set.

    `download`: whether the Hub may be asked. Raises UserError when the file is not found.
    """
    for mirror in mirrors():
        folder = mirror / "datasets" / repository
        if is_file(folder / name):
            return folder / name
        # The Hub renames folders inside data sets, so a mirror may have the file elsewhere. Of
        # two files with this name we could not tell which one is meant.
        elsewhere = list(folder.glob(f"**/{Path(name).name}"))
        if len(elsewhere) == 1:
            return regular_file(elsewhere[0], f'data file "{repository}/{name}": ')
    return _from_hub("datasets", repository, (name,), download and _asked.get()) / name


@once
def model_folder(name: str, *, download: bool = True, pickled: bool = False) -> Path:
    """The folder of a model, which is named by its path or by its name on the Hub.

    The name may have a revision (harness.data.revisions). For an encoder that a trial has trained,
    it is that of the pretrained model. `download`: whether the Hub may be asked. `pickled`: whether
    pickled weights are downloaded as well. Raises UserError when there is no such model.
    """
    name, _ = parts_of(name)
    if (folder := _model_here(name)) is not None:
        return folder
    return _from_hub("models", name, (*MODEL_FILES, PICKLED) if pickled else MODEL_FILES, download)


def check_model(name: str) -> None:
    """Raises NotHere for a model that is not on this machine while the Hub is out of reach.

    Unlike `model_folder`, it downloads nothing, so that it may be asked before all else.
    """
    name, _ = parts_of(name)
    here = _model_here(name) or was_downloaded("models", split_revision(name)[0])
    if not here and (reason := _unasked(download=True)):
        raise _not_found("models", name, name, reason)


def _model_here(name: str) -> Path | None:
    """The folder of a model that is a folder, or that a mirror has."""
    if is_model_folder(name):
        try:
            folder = here(Path(name)).expanduser()
        except RuntimeError:  # of a user that is not known
            raise UserError(f'encoder "{name}": there is no such home folder') from None
        if (kind := kind_of(folder)) not in ("a folder", "nothing"):
            raise NotHere(f'encoder "{name}" is {kind}: name the folder in which config.json lies')
        if kind_of(folder / "config.json") == "nothing":
            rest = instead_of_config(folder)
            raise NotHere(f'encoder "{name}": the folder has no config.json{rest}')
        regular_file(folder / "config.json", f'encoder "{name}": ')
        return folder.resolve()
    repository, _ = split_revision(name)
    # Otherwise a name with `..` would lead out of the mirror.
    outside = any(part in ("", ".", "..") for part in repository.split("/"))
    if outside or "@" in repository or not name.isprintable():
        raise UserError(
            f'"{name}" cannot be the name of a model: write ORGANISATION/NAME as on the Hub, '
            f"behind which @REVISION may stand (a branch, a tag, a commit or refs/pr/1), or the "
            f"path of a folder"
        )
    folders = [mirror / "models" / name for mirror in mirrors()]
    return next((folder for folder in folders if is_file(folder / "config.json")), None)


def is_model_folder(name: str) -> bool:
    """Whether the name of a pretrained model is the path of a folder."""
    return name.startswith((".", "/", "~")) or (name != "" and is_folder(here(Path(name))))


def found_by_name(path: Path) -> bool:
    """Whether a file lies in a mirror or among the downloads of the Hub.

    Every machine finds such a file by its name.
    """
    return any(path.absolute().is_relative_to(folder) for folder in (*mirrors(), downloads()))


def _from_hub(kind: RepositoryKind, name: str, patterns: Sequence[str], download: bool) -> Path:
    """The folder of the Hub's snapshot, with the files that match `patterns`.

    `name`: of the repository, behind which the revision may stand. For a data set, `patterns` names
    one file. Raises UserError when the Hub does not have it.
    """
    wanted = name if kind == "models" else f"{name}/{patterns[0]}"
    if not was_downloaded(kind, split_revision(name)[0]) and (reason := _unasked(download)):
        raise _not_found(kind, name, wanted, reason)
    # Imported here, since what a mirror has needs no Hub.
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        folder = snapshot(kind, *split_revision(name), patterns, download=download)
    # ValueError: the name cannot be one of a repository.
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        why = f"the Hub did not give it ({type(error).__name__})" if download else UNASKED
        raise _not_found(kind, name, wanted, why) from None
    # A snapshot may lack the file: patterns that match nothing are no error.
    if not (folder / ("config.json" if kind == "models" else patterns[0])).is_file():
        raise _not_found(kind, name, wanted, "the Hub has none" if download else UNASKED)
    return folder


UNASKED = "the Hub was not asked"


def _unasked(download: bool) -> str | None:
    """The part of a sentence that says why the Hub did not have to be asked for something."""
    if not download:
        return UNASKED
    failure = hub_failure()
    return f"the Hub did not answer ({failure})" if failure else None


def _not_found(kind: RepositoryKind, name: str, wanted: str, reason: str) -> NotHere:
    """The error for a repository, or the wanted file of one, that is nowhere."""
    repository, revision = split_revision(name)
    near = downloaded_revisions(kind, repository) if revision else []
    if not near and kind == "models":
        near = known(kind)
    noun = "model" if kind == "models" else "data file"
    looked_for = f"{kind}/{wanted}"
    return NotHere(f'{noun} "{wanted}" was {not_found(looked_for, reason)}{suggest(name, near)}')


def not_found(wanted: str, reason: str) -> str:
    """The rest of a sentence about what is nowhere.

    wanted: `models/ORGANISATION/NAME` or `datasets/...`. reason: why the Hub did not give it.
    """
    searched = " and ".join(str(mirror / wanted.partition("/")[0]) for mirror in mirrors())
    return (
        f"not found: looked in {searched}, and {reason}; set HARNESS_HUB to a folder that has "
        f"{wanted}, or connect to the Hub"
    )


def known(kind: RepositoryKind) -> list[str]:
    """The names of the models or data sets in mirrors or among downloads of the Hub, sorted."""
    marker = "config.json" if kind == "models" else "*"
    names = set()
    for mirror in mirrors():
        root = mirror / kind
        # A model may have no organisation (bert-base-uncased), a data set always has one.
        for path in [*root.glob(f"*/{marker}"), *root.glob(f"*/*/{marker}")]:
            name = path.parent.relative_to(root).as_posix()
            if path.is_file() and (kind == "models" or "/" in name):
                names.add(name)
    for path in downloads().glob(f"{kind}--*/snapshots/*/{marker}"):
        names.add("/".join(path.parents[2].name.split("--")[1:]))
    return sorted(names)


def model_files(name: str, *, download: bool = True) -> list[Path]:
    """The files of a model that loading it reads, sorted. Raises UserError without such a model."""
    folder = model_folder(name, download=download)
    return sorted({path for pattern in MODEL_FILES for path in folder.glob(pattern)})


@once
def model_digest(name: str, *, download: bool = True) -> str:
    """The digest of a model's configuration, weights and tokenizer, by name and content.

    For an encoder that a trial has trained, it is that of the pretrained model and of the key of
    the trial. Raises UserError when there is no such model.
    """
    pretrained, (_, trial) = digest_files(model_files(name, download=download)), parts_of(name)
    return pretrained if trial is None else digest(pretrained + trial)


def model_shape(name: str, *, download: bool = True) -> dict[str, Any]:
    """The contents of the model's config.json; the model is not loaded.

    Raises UserError when there is no such model, or when it asks for what no model can have.
    """
    folder = model_folder(name, download=download)
    path = folder / "config.json"
    beginning = f'model "{name}": '
    check_no_adapter(folder, beginning)
    check_no_pointer(path, beginning)
    try:
        shape: Any = json.loads(read_text(path, beginning, at_most=LARGEST_CONFIG))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{beginning}{path} is no JSON: {error}") from None
    if not isinstance(shape, dict):
        raise UserError(f"{beginning}{path} must hold a mapping, not a {type(shape).__name__}")
    for setting in foreign_settings(shape):
        raise UserError(
            f"{beginning}{path}: {setting} asks for code from elsewhere, which harness does not "
            f"run; remove it"
        )
    for size in SIZES:
        value = shape.get(size, 1)
        if type(value) is not int or not 1 <= value < LARGEST_SIZE:
            raise UserError(
                f"{beginning}{path}: {size} is {value!r}; it must be a whole number from 1 on, "
                f"below {LARGEST_SIZE}"
            )
    heads = 1 if "head_dim" in shape else shape.get("num_attention_heads", 1)
    if shape.get("hidden_size", 0) % heads:
        raise UserError(f"{beginning}{path}: hidden_size is no multiple of num_attention_heads")
    return shape
