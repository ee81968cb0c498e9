"""Downloads of the Hub as its client keeps them: snapshots by commit, and names of commits."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from safetensors.numpy import load_file, save_file

from harness.data.hub import EMBEDDED

FIRST, SECOND, THIRD = "a1" * 20, "b2" * 20, "c3" * 20
"""Commits"""


def downloaded(folder: Path, name: str, commit: str, *revisions: str) -> Path:
    """The new folder of a snapshot, such as of `models/some/tiny`, which these revisions name."""
    repository = folder / name.replace("/", "--")
    for revision in revisions:
        reference = repository / "refs" / revision
        reference.parent.mkdir(parents=True, exist_ok=True)
        reference.write_text(commit)
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    return snapshot


def downloaded_model(folder: Path, name: str, commit: str, *revisions: str, scale: float) -> Path:
    """A snapshot of the embedded model, whose weights are multiplied."""
    snapshot = downloaded(folder, f"models/{name}", commit, *revisions)
    shutil.copytree(EMBEDDED / "models" / "tiny-bert", snapshot, dirs_exist_ok=True)
    weights = load_file(snapshot / "model.safetensors")
    scaled = {key: value * value.dtype.type(scale) for key, value in weights.items()}
    save_file(scaled, snapshot / "model.safetensors", {"format": "pt"})
    return snapshot


def downloaded_texts(
    folder: Path, name: str, texts: Mapping[tuple[str, str], str]
) -> dict[str, Path]:
    """Snapshots of a data set of sentences. texts: (commit, revision) -> the first word of all."""
    snapshots = {}
    for (commit, revision), word in texts.items():
        snapshot = downloaded(folder, f"datasets/{name}", commit, revision)
        lines = "".join(f"{word} sentence {number} of them\n" for number in range(40))
        (snapshot / "train.csv").write_text(f"sentence\n{lines}")
        (snapshot / "README.md").write_text("---\nlicense: mit\n---\n")
        snapshots[commit] = snapshot
    return snapshots
