"""`harness clean` removes what no store needs, after it has asked, and leaves what is in use."""

import fcntl
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.arrays import SharedArrays
from harness.claims import claimed
from harness.files import sealed_json
from harness.owners import Owner
from harness.trials.store import Store
from harness.trials.store_folders import CLAIM, pairs_file
from tests.cli.conftest import check_sentence
from tests.trials.test_store import record

KEYS = {"finished": "1" * 32, "failed": "2" * 32, "unknown": "3" * 32}
HALF = f".arrays.{'0' * 32}.tmp"
DAY = 24 * 3600


def aged(folder: Path, seconds: float = 2 * DAY) -> None:
    """Make everything in a folder look as if nobody had touched it for so long."""
    then = time.time() - seconds
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (then, then), follow_symlinks=False)


def put(path: Path, content: str = "some") -> Path:
    """Write a file, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a cache, a store, and temporary files of Ray, all of them two days old."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr("harness.sweeps.cluster.lifetime.SHORT", tmp_path / "temporary")
    cache, store = tmp_path / "cache", Store(tmp_path / "store")
    for name in ("tokens", "subsets", "artefacts"):
        SharedArrays(cache / name / "arrays", name, lambda: {"some": np.arange(1000)}).read()
    put(cache / "stages" / "simcse-first-1" / "250.safetensors")
    put(cache / "stages" / "simcse-first-1" / "lock", "")
    put(cache / "embeddings" / KEYS["finished"] / "test" / "0.npy")
    put(cache / "tokens" / HALF / "some.npy")
    gone = {"stamp": [str(tmp_path / "gone"), 1, 2, 3, 4], "sha256": "0"}
    put(cache / "digests" / "1.json", sealed_json(gone))
    for status in ("finished", "failed"):
        store.write(record(1, key=KEYS[status], status=status, search="a" * 16))
    for name in ("a" * 16, "b" * 16):
        put(store.studies_folder / f"simcse-unsup-tiny-bert-{name}.journal")
    put(store.studies_folder / f"simcse-unsup-tiny-bert-{'a' * 16}.journal.damaged-1")
    for key in KEYS.values():
        put(store.weights(key))
        put(store.running(key) / "checkpoint.safetensors")
    put(store.folder / f".{KEYS['unknown']}.parquet.{'0' * 32}.tmp")
    put(tmp_path / "temporary" / "somebody-else" / "file")
    aged(tmp_path)
    return tmp_path


@pytest.fixture
def clean(harness: Any, world: Path) -> Callable[..., Any]:
    """clean(argument, ...): `harness clean` on the store of the world."""
    return lambda *arguments: harness("clean", "--store", world / "store", *arguments)


def everything(folder: Path) -> dict[Path, bytes]:
    """The files of a folder, with their content."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def needed(world: Path) -> set[Path]:
    """Files that `clean` must leave where they are."""
    store = Store(world / "store")
    return {
        *store.folder.glob("*.parquet"),
        store.weights(KEYS["finished"]),
        store.studies_folder / f"simcse-unsup-tiny-bert-{'a' * 16}.journal",
        # Trials that have not finished go on from their checkpoints.
        store.running(KEYS["failed"]) / "checkpoint.safetensors",
        store.running(KEYS["unknown"]) / "checkpoint.safetensors",
        world / "temporary" / "somebody-else" / "file",
    }


def test_what_no_store_needs_is_removed_and_nothing_else(clean: Any, world: Path) -> None:
    """A dry run changes nothing."""
    before, stays = everything(world), needed(world)
    answer = clean("--dry-run")
    assert answer.code == 0
    assert "artefacts" in answer.out
    assert everything(world) == before
    answer = clean("--yes")
    assert answer.code == 0, answer.err
    assert set(everything(world)) == stays
    assert "of room" in answer.out
    kinds = ("tokens", "subsets", "artefacts", "stages", "embeddings", "digests", "weights")
    for kind in (*kinds, "studies", "running", "temporary files"):
        assert kind in answer.out
    assert "nothing to remove" in clean("--yes").out


def test_it_asks_first(clean: Any, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, stays = everything(world), needed(world)
    check_sentence(clean(), "nobody can be asked", "--yes")
    assert everything(world) == before
    for reply, code in (("n\n", 1), ("\n", 1), ("y\n", 0)):
        terminal = io.StringIO(reply)
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", terminal)
        answer = clean()
        assert answer.code == code
        assert "Remove " in answer.out
        assert set(everything(world)) == (set(before) if code else stays)


def test_what_was_used_within_the_last_hour_or_is_locked_stays(clean: Any, world: Path) -> None:
    cache, half = world / "cache", put(world / "store" / HALF)
    tokens, stage = cache / "tokens" / "arrays", cache / "stages" / "simcse-first-1"
    SharedArrays(tokens, "tokens", dict).read()  # it is only read
    with (stage / "lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        clean("--yes")
    assert tokens.is_dir()
    assert half.exists()
    assert not (cache / "artefacts" / "arrays").exists()
    assert (stage / "lock").is_file()
    assert stage.exists()
    put(cache / "tokens" / "arrays.lock", "")
    aged(world)
    with (cache / "tokens" / "arrays.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        clean("--yes")
    assert (cache / "tokens" / "arrays.lock").is_file()
    assert tokens.exists()
    assert not stage.exists()


def test_weights_that_may_be_needed_and_foreign_files_stay(clean: Any, world: Path) -> None:
    """A record may be in a damaged file."""
    store = Store(world / "store")
    notes = put(store.weights("x").with_name("notes.txt"))
    compacted = put(store.folder / "compact-1.parquet", "damaged")
    aged(world)
    clean("--yes")
    assert all(store.weights(key).exists() for key in KEYS.values())
    compacted.unlink()
    put(store.folder / f"{KEYS['unknown']}.parquet", "damaged")
    clean("--yes")
    assert store.weights(KEYS["unknown"]).exists()
    assert not store.weights(KEYS["failed"]).exists()
    assert notes.exists()


@pytest.mark.process
def test_folders_of_ray_stay_while_their_process_runs(clean: Any, world: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here, temporary = Owner(), world / "temporary"
    gone = replace(here, process=ended.pid)
    owners = {"alive": here, "gone": gone, "elsewhere": replace(gone, place="another machine")}
    for name, owner in owners.items():
        put(temporary / f"harness-ray-{name}" / "owner.json", json.dumps(asdict(owner)))
    put(temporary / "harness-ray-new" / "file")  # it names no process yet
    answer = clean("--yes")
    assert answer.code == 0
    assert "harness-ray-*" in answer.out
    assert {path.name for path in temporary.iterdir()} == {
        "somebody-else", "harness-ray-alive", "harness-ray-elsewhere", "harness-ray-new",
    }  # fmt: skip


@pytest.mark.parametrize("work", ["trial", "sweep"])
def test_logs_and_studies_stay_while_a_process_works_on_the_store(
    work: str, clean: Any, world: Path
) -> None:
    """A long trial writes nothing for an hour, and its search has no record before it ends.

    Nor has the trial itself while its tests take hours. Logs and kept cosines go with their trial.
    """
    store, (lost, kept) = Store(world / "store"), (KEYS["unknown"], KEYS["finished"])
    study = store.studies_folder / f"simcse-unsup-tiny-bert-{'b' * 16}.journal"
    log = put(store.log(lost))
    cosines = put(pairs_file(store.weights(lost), "graded"))
    beside = [put(store.log(kept)), put(pairs_file(store.weights(kept), "graded"))]
    aged(world)
    folder = store.running(lost) if work == "trial" else store.sweeps_folder / "one"
    with claimed(folder / CLAIM, "a test"):
        assert clean("--yes").code == 0
        assert all(path.exists() for path in (log, study, cosines, store.weights(lost)))
    assert clean("--yes").code == 0
    assert not any(path.exists() for path in (log, study, cosines))
    assert all(path.exists() for path in beside)


def test_what_cannot_be_removed_is_named(
    clean: Any, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if path.name == "arrays":
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)  # as root may rename in every folder
    answer = clean("--yes")
    assert answer.code == 0
    for kind in ("tokens", "subsets", "artefacts"):
        folder = world / "cache" / kind / "arrays"
        assert f"{folder} cannot be removed (Permission denied)\n" in answer.err
        assert folder.is_dir()
