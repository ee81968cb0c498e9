"""Cached values are found again only by what they depend on, all of it."""

import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from harness.data.corpora import count_items, source
from harness.data.revisions import trained_name
from harness.encoders.backbone import Encoder
from harness.errors import UserError
from harness.evaluation.overlap import shared_marks
from harness.evaluation.suites import suite
from harness.files import content_digest
from harness.plugin import registry
from harness.plugin.config import MethodConfig
from harness.plugin.registry import Plugin
from harness.plugin.resolution import given_values, resolve
from harness.training.saved_state import SavedState
from harness.trials.evaluate import Measurement, evaluation_key, evaluations
from harness.trials.lookup import IN_A_METHOD, model, provide
from harness.trials.store import Store
from tests.kits import KitFor
from tests.trials.test_store import record


@pytest.fixture(autouse=True)
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, in which nothing is."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def test_encoders_of_two_stores_are_those_of_their_weights(
    tiny_encoder: Path, kit_for: KitFor, tmp_path: Path
) -> None:
    """One trial may have other weights on another kind of machine; a record names its own."""
    key = record(1).key
    plain = kit_for("pooling", encoder=str(tiny_encoder)).build().encoder.model.state_dict()
    name, means = trained_name(str(tiny_encoder), key), []
    for number in (1, 2, 1):
        store = Store(tmp_path / str(number))
        weights = {f"{IN_A_METHOD}{each}": value + number for each, value in plain.items()}
        SavedState(weights).write(store.weights(key))
        store.write(record(1, weights_digest=content_digest(store.weights(key))))
        provide(store, name)
        means.append(next(Encoder(name).parameters()).mean().item())
    assert means[0] == means[2]
    assert means[1] == pytest.approx(means[0] + 1, abs=1e-3)
    provide(Store(tmp_path / "a store without the trial"), name)  # the cache is enough


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clsr", "flow"])
def test_frozen_vectors_are_those_of_the_precision(
    name: str,
    tiny_encoder: Path,
    sentences: Path,
    pairs: Path,
    kit_for: KitFor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An encoder that is stored in bf16 computes in bf16, unless fp32 is asked for."""
    flow = {"corpus": str(sentences), "vector_dropout": False}
    options = flow if name == "flow" else {"pairs": str(pairs)}
    encoder = shutil.copytree(tiny_encoder, tmp_path / "stored in bf16")
    [path] = encoder.glob("*.safetensors")
    tensors = {each: value.bfloat16() for each, value in load_file(path).items()}
    save_file(tensors, path, {"format": "pt"})

    def vectors(cache: str, precision: str) -> np.ndarray:
        monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / cache))
        kit = kit_for(name, encoder=str(encoder), precision=precision, **options)
        return np.array(kit.artefact("vectors")["vectors"])

    rounded, exact = (vectors("shared", precision) for precision in ("bf16", "fp32"))
    assert np.array_equal(exact, vectors("cold", "fp32"))
    assert not np.array_equal(rounded, exact)


@pytest.mark.parametrize("protocol", [1, 7])
def test_another_protocol_reads_corpora_anew(
    protocol: int, sentences: Path, kit_for: KitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word pieces, label subsets and overlaps hold what the code of a protocol has read."""

    def places() -> list[Path]:
        kit = kit_for("simcse", sentences=str(sentences))
        marks = shared_marks(["graded-triplets"], suite("graded"))
        return [kit.tokenised(str(sentences)).folder, *(each.folder for each in marks)]

    first = places()
    assert places() == first
    monkeypatch.setattr("harness.data.registered_corpora.PROTOCOL", protocol)
    assert not {*places()} & {*first}


def test_a_corpus_that_changes_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cp -p`, `rsync` and `git` may give a new file the times and the size of the old one."""
    path, text = tmp_path / "corpus.txt", "a b c d\n" * 4
    for rows in (3, 5):
        path.write_text(text)
        assert count_items(str(path)) == 4
        before = path.stat()
        path.write_text(("x y\n" * (rows - 1)).ljust(before.st_size, "x"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        assert count_items(str(path)) == rows
    # A split that is new in a mirror is found.
    folder = tmp_path / "hub" / "datasets" / "someone" / "texts"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path / "hub"))
    for split, name in (("train", "someone/texts"), ("test", "someone/texts:test")):
        (folder / f"{split}.csv").write_text("sentence\na\nb\n")
        assert [path.name for path in source(name).paths()] == [f"{split}.csv"]


def test_another_file_at_the_same_place_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another image of a disk may be mounted there, with equal sizes and times."""
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    os.utime(path, (0, 0))
    old = path.stat()
    names = ("st_mode", "st_ino", "st_dev", "st_nlink", "st_uid", "st_gid", "st_size",
             "st_atime", "st_mtime", "st_ctime")  # fmt: skip
    times = {"st_mtime_ns": old.st_mtime_ns, "st_ctime_ns": 10**18}
    for field in ("st_dev", "st_ino", "st_ctime_ns"):
        path.write_bytes(b"one")

        def plant(**changed: int) -> None:
            known = {name: getattr(old, name) for name in names} | times | changed
            further = {name: value for name, value in known.items() if name not in names}
            result = os.stat_result([known[name] for name in names], further)
            monkeypatch.setattr(Path, "stat", lambda *_, **__: result)

        plant()
        first = content_digest(path)
        path.write_bytes(b"two")
        assert content_digest(path) == first, "the stamp is all that is looked at"
        plant(**{field: 12_345})
        assert content_digest(path) != first
        times["st_ctime_ns"] += 1


# What must be given to get a configuration: enough, and nothing that is published anyway.


@pytest.mark.parametrize("method", registry.names())
def test_the_given_values_give_the_configuration(method: str) -> None:
    """Every switch and every number is changed in turn, also those on which others depend."""
    plugin = registry.load(method)
    fields = plugin.config_type.model_fields
    numbers = {name: field.default for name, field in fields.items()}
    changes: list[dict[str, Any]] = [{}] + [
        {name: not value if isinstance(value, bool) else 2 * value}
        for name, value in numbers.items()
        if isinstance(value, bool | int | float)
    ]
    settings = itertools.product(("unsup", "semisup", "sup"), changes)
    configs = [allowed(plugin, {"setting": setting, **change}) for setting, change in settings]
    assert any(configs) or method == "glove"  # it needs the name of a file
    for config in filter(None, configs):
        values = given_values(plugin, config)
        assert allowed(plugin, {"encoder": config.encoder, **values}) == config
        for name in values:
            fewer = {other: value for other, value in values.items() if other != name}
            assert allowed(plugin, {"encoder": config.encoder, **fewer}) != config


def allowed(plugin: Plugin, values: dict[str, Any]) -> MethodConfig | None:
    """The configuration; None where a method refuses it."""
    try:
        return resolve(plugin, values)
    except UserError:
        return None


@pytest.mark.slow
def test_dev_alone_is_a_record_of_its_own(tmp_path: Path) -> None:
    """The trial embeds and scores dev only, and does not stand for the whole suite."""
    store, whole = Store(tmp_path / "store"), suite("graded")
    asked = model("tiny-bert", store, pooling=None, method=None)
    measurement = Measurement(asked, store)
    [alone] = evaluations(measurement, [whole.dev_alone])
    assert (alone.status, alone.suite, alone.test) == ("finished", "graded", {})
    sentences = set(map(str.lower, whole.texts(whole.dev)))
    assert measurement.embedder.sentences == len(sentences)
    [full] = evaluations(Measurement(asked, store), [whole])
    assert full.test
    assert alone.dev == full.dev
    assert alone.key == evaluation_key(asked, whole.dev_alone) != full.key
