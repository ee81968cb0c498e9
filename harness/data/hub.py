"""One way to get a file of a model or a data set: local mirror, embedded default, Hugging Face Hub.

A mirror has the Hub's layout (`models/<org>/<name>/<file>`, `datasets/<org>/<name>/<file>`), so a name means the same
in all three. `HARNESS_HUB` names the mirror's folder.
"""

import json
import os
from pathlib import Path
from typing import Any, Literal

from harness.errors import UserError, suggest
from harness.files import digest_files

RepositoryKind = Literal["models", "datasets"]
EMBEDDED = Path(__file__).resolve().parent.parent / "embedded" / "hub"
MODEL_FILES = ("*.json", "*.safetensors", "vocab.txt", "merges.txt", "*.model")


def mirrors() -> list[Path]:
    """The folders laid out like the Hub, in the order in which they are searched."""
    named = os.environ.get("HARNESS_HUB")
    if named and not Path(named).is_dir():
        raise UserError(f"HARNESS_HUB names {named}, which is no folder")
    return [Path(named).resolve(), EMBEDDED] if named else [EMBEDDED]


def data_file(repository: str, name: str, *, download: bool = True) -> Path:
    """The path of one file of a data set. Raises UserError when neither mirror nor Hub has it."""
    for mirror in mirrors():
        folder = mirror / "datasets" / repository
        if (folder / name).is_file():
            return folder / name
        elsewhere = list(
            folder.glob(f"**/{Path(name).name}")
        )  # the Hub's folders of a data set come and go
        if len(elsewhere) == 1:
            return elsewhere[0]
    return _from_hub("datasets", repository, [name], download) / name


def model_folder(name: str, *, download: bool = True) -> Path:
    """The folder of a model: a path, or a Hub name. Raises UserError when there is none."""
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
    """Folder of the Hub's snapshot, with the files that match `patterns`."""
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
                local_files_only=not download,
            )
        )
        expected = "config.json" if kind == "models" else patterns[0]
        if (folder / expected).is_file():
            return folder
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        if download:
            reason = f"the Hub did not give it ({type(error).__name__})"
    searched = " and ".join(str(mirror / kind) for mirror in mirrors())
    raise UserError(
        f'{"model" if kind == "models" else "data file"} "{wanted}" was not found: looked in {searched}, and {reason}; '
        f"set HARNESS_HUB to a folder that has {kind}/{wanted}, or connect to the Hub{_nearest(kind, repository)}"
    )


def _nearest(kind: RepositoryKind, repository: str) -> str:
    return suggest(repository, known(kind)) if kind == "models" else ""


def known(kind: RepositoryKind) -> list[str]:
    """Names of the models or data sets that the mirrors hold."""
    marker = "config.json" if kind == "models" else "*"
    found = set()
    for mirror in mirrors():
        for path in [*(mirror / kind).glob(f"*/{marker}"), *(mirror / kind).glob(f"*/*/{marker}")]:
            name = path.parent.relative_to(mirror / kind).as_posix()
            if path.is_file() and (kind == "models" or "/" in name):
                found.add(name)
    return sorted(found)


def model_digest(name: str, *, download: bool = True) -> str:
    """Digest of a model's configuration, weights and tokenizer, by content."""
    folder = model_folder(name, download=download)
    files = {path for pattern in MODEL_FILES for path in folder.glob(pattern)}
    return digest_files(sorted(files))


def model_shape(name: str, *, download: bool = True) -> dict[str, Any]:
    """The model's config.json, without loading the model."""
    content = (model_folder(name, download=download) / "config.json").read_text(encoding="utf-8")
    shape: dict[str, Any] = json.loads(content)
    return shape
