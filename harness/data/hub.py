"""Where files of models and data sets come from: local mirror, embedded default, Hugging Face Hub.

They are searched in this order. A mirror has the layout of the Hub
(`models/<organisation>/<name>/<file>`, `datasets/<organisation>/<name>/<file>`), so a name means
the same in all three. `HARNESS_HUB` names the folder of the mirror.
"""

import json
import os
from pathlib import Path
from typing import Any, Literal

from harness.errors import UserError, suggest
from harness.files import digest_files

RepositoryKind = Literal["models", "datasets"]
EMBEDDED = Path(__file__).resolve().parent.parent / "embedded" / "hub"
"""The embedded default, which is laid out like a mirror"""
MODEL_FILES = ("*.json", "*.safetensors", "vocab.txt", "merges.txt", "*.model")
"""Configuration, weights and tokenizer: all that is downloaded and all that a digest covers"""


def mirrors() -> list[Path]:
    """The folders that are laid out like the Hub, in the order in which they are searched.

    Raises UserError when `HARNESS_HUB` names no folder.
    """
    named = os.environ.get("HARNESS_HUB")
    if named and not Path(named).is_dir():
        raise UserError(f"HARNESS_HUB names {named}, which is no folder")
    return [Path(named).resolve(), EMBEDDED] if named else [EMBEDDED]


def data_file(repository: str, name: str, *, download: bool = True) -> Path:
    """The path of the file `name` of a data set.

    `download`: whether the Hub may be asked. Raises UserError when the file is not found.
    """
    for mirror in mirrors():
        folder = mirror / "datasets" / repository
        if (folder / name).is_file():
            return folder / name
        # The Hub renames folders inside data sets, so a mirror may have the file elsewhere. Of
        # two files with this name we could not tell which one is meant.
        elsewhere = list(folder.glob(f"**/{Path(name).name}"))
        if len(elsewhere) == 1:
            return elsewhere[0]
    return _from_hub("datasets", repository, [name], download) / name


def model_folder(name: str, *, download: bool = True) -> Path:
    """The folder of a model, which is named by its path or by its name on the Hub.

    `download`: whether the Hub may be asked. Raises UserError when there is no such model.
    """
    if _looks_like_path(name):
        folder = Path(name).expanduser()
        if not (folder / "config.json").is_file():
            raise UserError(f'encoder "{name}": the folder has no config.json')
        return folder.resolve()
    for mirror in mirrors():
        folder = mirror / "models" / name
        if (folder / "config.json").is_file():
            return folder
    return _from_hub("models", name, list(MODEL_FILES), download)


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or Path(name).is_dir()


def _from_hub(kind: RepositoryKind, repository: str, patterns: list[str], download: bool) -> Path:
    """The folder of the Hub's snapshot, with the files that match `patterns`.

    For a data set, `patterns` names one file. Raises UserError when the Hub does not have it.
    """
    # Imported here, since what a mirror has needs no Hub.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    wanted = repository if kind == "models" else f"{repository}/{patterns[0]}"
    reason = "the Hub was not asked" if not download else "the Hub has none"
    try:
        folder = Path(
            snapshot_download(
                repository,
                repo_type="model" if kind == "models" else "dataset",
                allow_patterns=patterns,
                local_files_only=not download,  # what was downloaded before still counts
            )
        )
        # A snapshot may lack the file: patterns that match nothing are no error.
        expected = "config.json" if kind == "models" else patterns[0]
        if (folder / expected).is_file():
            return folder
    # ValueError: the name cannot be one of a repository.
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        if download:
            reason = f"the Hub did not give it ({type(error).__name__})"
    searched = " and ".join(str(mirror / kind) for mirror in mirrors())
    raise UserError(
        f'{"model" if kind == "models" else "data file"} "{wanted}" was not found: '
        f"looked in {searched}, and {reason}; set HARNESS_HUB to a folder that has "
        f"{kind}/{wanted}, or connect to the Hub{_nearest(kind, repository)}"
    )


def _nearest(kind: RepositoryKind, repository: str) -> str:
    return suggest(repository, known(kind)) if kind == "models" else ""


def known(kind: RepositoryKind) -> list[str]:
    """The names of the models or data sets that the mirrors hold, sorted."""
    marker = "config.json" if kind == "models" else "*"
    found = set()
    for mirror in mirrors():
        root = mirror / kind
        # A model may have no organisation (bert-base-uncased), a data set always has one.
        for path in [*root.glob(f"*/{marker}"), *root.glob(f"*/*/{marker}")]:
            name = path.parent.relative_to(root).as_posix()
            if path.is_file() and (kind == "models" or "/" in name):
                found.add(name)
    return sorted(found)


def model_digest(name: str, *, download: bool = True) -> str:
    """The digest of a model's configuration, weights and tokenizer, by name and content.

    Raises UserError when there is no such model.
    """
    folder = model_folder(name, download=download)
    files = {path for pattern in MODEL_FILES for path in folder.glob(pattern)}
    return digest_files(sorted(files))


def model_shape(name: str, *, download: bool = True) -> dict[str, Any]:
    """The contents of the model's config.json; the model is not loaded.

    Raises UserError when there is no such model.
    """
    content = (model_folder(name, download=download) / "config.json").read_text(encoding="utf-8")
    shape: dict[str, Any] = json.loads(content)
    return shape
