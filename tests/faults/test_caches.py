"""One bit flips in a cached file, or the disk is full: results are as before, and one line says so.

The weights of trials are in tests/cli/test_eval.py, and kept embeddings in
tests/evaluation/test_kept_embeddings.py.
"""

import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import files
from harness.arrays import SharedArrays
from harness.files import content_digest, digest_files, sealed_json, unsealed
from harness.manifests import MANIFEST, damage, seal
from harness.plugin.kit import Kit
from harness.trials.run import attempt
from harness.trials.trial import Trial, key
from tests.kits import FullDisk, forget

POOLING = {"encoder": "tiny-bert", "suite": "graded"}


def flip(path: Path, position: int) -> None:
    """Flip one bit of a file at this byte (modulo its size); size and modification time stay."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[position % len(content)] ^= 1 << position % 8
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache of this test, in a process that remembers no digest."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    forget(files)
    yield tmp_path / "cache"
    forget(files)


def numbers(trial: Trial) -> tuple[Any, ...]:
    """Run a trial; the numbers of its record."""
    record = attempt(trial, lambda _: None)
    assert record.status == "finished", record.reason
    return record.key, record.dev, record.test, record.history, record.details


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines that harness has logged since the last call."""
    records = [record for record in caplog.records if record.name.startswith("harness")]
    caplog.clear()
    return [record.getMessage() for record in records]


def derived(cache: Path) -> list[Path]:
    """The files of a cache, without locks."""
    return sorted(path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock")


@pytest.fixture(params=["subsets", "artefacts"])
def kit(request: pytest.FixtureRequest, kit_for: Any, sentences: Path, cached: Path) -> Kit:
    """A kit that uses tokenised corpora and this other kind of arrays; they are built."""
    if request.param == "subsets":
        made: Kit = kit_for("simcse", setting="sup", label_fraction=0.5)
    else:
        made = kit_for("whitening", corpus=str(sentences))
    made.build_shared()
    kinds = {path.relative_to(cached).parts[0] for path in derived(cached)}
    assert kinds == {"tokens", request.param}
    return made


@pytest.mark.slow
def test_an_array_that_was_changed_is_built_again(
    kit: Kit, cached: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = {path: path.read_bytes() for path in derived(cached)}
    place = int(np.random.default_rng(0).integers(1 << 30))
    changes = (lambda path: flip(path, place), Path.unlink, lambda path: os.truncate(path, 100))
    for path, change in itertools.product(content, changes):
        change(path)
        kit.build_shared()
        [line] = logged(caplog)
        assert str(path) in line
        assert "is built again" in line
        assert {file: file.read_bytes() for file in derived(cached)} == content
        assert not list(cached.rglob(".*")), "nothing is left behind"


@pytest.mark.slow
def test_a_full_disk_costs_the_cache_and_not_the_trial(
    kit: Kit, cached: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    corpus = next(iter(kit.declared.corpora.values()), kit.config.model_dump().get("corpus"))
    before = kit.tokens(corpus)
    monkeypatch.setenv("HARNESS_CACHE", str(cached / "other"))
    monkeypatch.setattr(np, "save", full)
    kit.build_shared()
    after = kit.tokens(corpus)
    assert np.array_equal(before.ids[0], after.ids[0])
    assert np.array_equal(before.starts[0], after.starts[0])
    assert all("is not kept: [Errno 28] No space left" in line for line in logged(caplog))
    assert derived(cached / "other") == []


def test_a_small_file_that_finds_no_room_is_not_kept(
    tmp_path: Path, full_disk: FullDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """C keeps so few bytes to the end, where NumPy does not hear of them."""
    numbers = np.arange(200)
    shared = SharedArrays(tmp_path / "arrays", "numbers", lambda: {"numbers": numbers})
    with full_disk(room=1000):
        assert np.array_equal(shared.read()["numbers"], numbers)
    assert all("is not kept: [Errno 28] No space left" in line for line in logged(caplog))
    assert shared.missing
    assert np.array_equal(shared.read()["numbers"], numbers)
    assert not shared.missing


TRAINED = {
    "encoder": "tiny-bert", "suite": "graded", "precision": "fp32", "setting": "sup",
    "triplets": "graded-triplets", "batch_size": 8, "max_steps": 2,
}  # fmt: skip


@pytest.mark.slow
def test_a_trial_over_damaged_caches_has_the_numbers_of_an_undisturbed_one(cached: Path) -> None:
    trial = Trial("simcse", TRAINED | {"label_fraction": 0.5}, 1)
    before = numbers(trial)
    for path in derived(cached):
        flip(path, -1)
    assert numbers(trial) == before


@pytest.mark.slow
def test_a_flipped_bit_in_the_state_of_a_shared_stage_is_noticed(
    cached: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The stage runs again."""
    trial = Trial("diffaug", TRAINED | {"stage1_steps": 2}, 1)
    before = numbers(trial)
    [state] = cached.glob("stages/*/2.safetensors")
    for place in (9, -1):  # in the header, and in the numbers
        flip(state, place)
        logged(caplog)
        assert numbers(trial) == before
        [line] = logged(caplog)
        assert str(state) in line
        assert "is made again" in line


def test_a_flipped_bit_of_a_manifest_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"content")
    manifest = tmp_path / MANIFEST
    seal(manifest, [tmp_path / "a.npy"])
    assert damage(manifest) is None
    content = manifest.read_bytes()
    for bit in range(0, 8 * len(content), 5):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        manifest.write_bytes(changed)
        sentence = damage(manifest)
        assert sentence is not None, bit
        assert sentence.startswith(f"{tmp_path}{os.sep}")
        assert "\n" not in sentence
    value = {"stamp": ["a", 1], "sha256": "ü"}
    assert unsealed(sealed_json(value)) == value
    for text in ("", "[]", "1", "{}", '{"content": 1}', sealed_json(1).replace("1", "2", 1)):
        with pytest.raises(ValueError, match=r"."):
            unsealed(text)


@pytest.fixture(params=["at once", "later", "later, large"])
def moment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment in which files are digested: at once after their writing, or ten seconds later."""
    if request.param != "at once":
        later(monkeypatch)
    if "large" in request.param:
        monkeypatch.setattr(files, "LARGE_FILE", 0)


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds are over."""
    now = time.time
    monkeypatch.setattr(files.time, "time", lambda: now() + 10)


@pytest.mark.usefixtures("moment", "cached")
@pytest.mark.parametrize(
    "write", [lambda path, text: path.write_text(text), lambda path, text: replaced(path, text)]
)
def test_a_corpus_that_changes_but_not_in_size_and_time_has_another_digest(
    write: Callable[[Path, str], Any], tmp_path: Path
) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("a bird\n")
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    before, whole = digest_files([path]), content_digest(path)
    time.sleep(0.02)  # longer than a tick of the clock of the file system
    write(path, "a cats\n")
    os.utime(path, ns=times)
    assert path.stat().st_mtime_ns == times[1]
    assert digest_files([path]) != before
    assert content_digest(path) != whole
    write(path, "a bird\n")
    assert digest_files([path]) == before


def replaced(path: Path, text: str) -> None:
    """Put a new file in the place of another one."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def test_a_flipped_bit_in_a_remembered_digest_is_noticed(
    cached: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Small files are read by every process, so one that changes in silence has another key."""
    before = key(Trial("pooling", POOLING, 0))
    assert not (cached / "digests").exists()
    monkeypatch.setattr(files, "LARGE_FILE", 0)
    later(monkeypatch)  # a checkout may be quite new
    forget(files)
    assert key(Trial("pooling", POOLING, 0)) == before
    entries = derived(cached / "digests")
    assert entries
    for number, entry in enumerate(entries):
        content = entry.read_bytes()
        flip(entry, 1000 * number + 77)
        forget(files)
        assert key(Trial("pooling", POOLING, 0)) == before
        [line] = logged(caplog)
        assert str(entry) in line
        assert entry.read_bytes() == content
