"""`harness export`: a trial leaves, and gives the same scores again."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.export.folder import encoder
from harness.trials.record import Record
from harness.trials.store import Store
from tests.cli.conftest import Harness, Shown, check_sentence, sets

pytestmark = pytest.mark.slow


@pytest.fixture
def store(swept: Any, tmp_path: Path) -> Store:
    """A copy of a store with two final trials of SimCSE."""
    shutil.copytree(swept.store, tmp_path / "store")
    shutil.copytree(Store(swept.store).weights_folder, tmp_path / "store-weights")
    return Store(tmp_path / "store")


def finals(store: Store) -> list[Record]:
    records = [record for record in store.matching("") if record.role == "final"]
    return sorted(records, key=lambda record: record.seed)


def evaluated(shown: Shown, store: Store, folder: Path) -> Record:
    shown("eval", folder, "--suite", "graded", "--store", store.folder)
    (row,) = [record for record in store.matching("") if record.encoder == str(folder)]
    return row


def test_a_trial_and_back(harness: Harness, shown: Shown, store: Store, tmp_path: Path) -> None:
    trial, folder = finals(store)[0], tmp_path / "model"
    answer = harness("export", trial.key[:8], folder, "--store", store.folder)
    assert (answer.code, answer.err.splitlines()) == (0, [
        f"exporting {trial.key[:8]} into {folder}", "loading torch and sentence-transformers",
        "loading the model", "writing the model",
        "loading the written model, and comparing its embeddings",
    ])  # fmt: skip
    loads = "loads it without harness. The versions of sentence-transformers from 3 to 6 load"
    assert loads in answer.out
    modules = json.loads((folder / "modules.json").read_text())
    assert all(module["type"].startswith("sentence_transformers.") for module in modules)
    again = evaluated(shown, store, folder)
    assert again.test == pytest.approx(trial.test, abs=1e-4)
    # The vectors agree but for their last digits, which decide the order of pairs nearly tied.
    assert again.dev == pytest.approx(trial.dev, abs=1e-3)
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: sentence-transformers\n")
    whole = store.get(trial.key)
    assert whole is not None
    low, high = (f"{getattr(whole.uncertainty['graded'], end):.2f}" for end in ("low", "high"))
    for words in (
        f"\n| graded | graded | {trial.test['graded']:.2f} | {low} to {high} |",
        "mean±std over seeds (n = 2)", "`graded-sentences` (contrastive)", '"learning_rate":',
        "harness run simcse", "Licence",
    ):  # fmt: skip
        assert words in card
    assert str(tmp_path) not in card
    # The file of the weights alone says itself what it is, without a store.
    shown("export", store.weights(trial.key), tmp_path / "file", "--store", tmp_path / "empty")
    texts = ["one sentence", "and another"]
    one, other = (encoder(path).encode(texts) for path in (folder, tmp_path / "file"))
    assert (one == other).all()
    assert "no scores" in (tmp_path / "file" / "README.md").read_text()


def test_the_card_is_neither_markup_nor_folders_of_this_machine(
    shown: Shown, tiny_encoder: Path, tmp_path: Path
) -> None:
    """An encoder may lie anywhere, and may be called anything."""
    encoder = tmp_path / "my folder" / "of secrets" / "a`b\x1b[2J\n<b>*c*"
    shutil.copytree(tiny_encoder, encoder)
    store, folder = Store(tmp_path / "store"), tmp_path / "model"
    words = ("--encoder", encoder, "--set", "suite=graded", "--set", "pooling=cls")
    shown("run", "pooling", *words, "--store", store.folder)
    (trial,) = finals(store)
    shown("export", trial.key, folder, "--store", store.folder)
    card = (folder / "README.md").read_text()
    assert "# pooling on a\\`b\\\\x1b\\[2J \\<b\\>\\*c\\*\n" in card
    assert "`a'b\\x1b[2J <b>*c*`" in card
    assert "\n    harness run pooling --encoder 'a`b\\x1b[2J\n    <b>*c*' --seed" in card
    assert "\x1b" not in card
    assert "folder of" not in card
    assert "secrets" not in card


def test_a_method_of_ours_and_back(shown: Shown, tmp_path: Path) -> None:
    """The library has no such pooling, so the folder names the module of the package."""
    store, folder = Store(tmp_path / "store"), tmp_path / "model"
    words = ("--encoder", "tiny-bert", "--set", "suite=graded", "--set", "pooling=first-last")
    shown("run", "pooling", *words, "--store", store.folder)
    (trial,) = finals(store)
    out = shown("export", trial.key, folder, "--store", store.folder)
    assert "harness.encoder" in out
    assert not list(folder.rglob("*.py"))
    assert evaluated(shown, store, folder).test == pytest.approx(trial.test, abs=1e-4)


def test_a_card_says_what_share_of_the_labels_has_trained_the_model(
    shown: Shown, tmp_path: Path
) -> None:
    store, folder = Store(tmp_path / "store"), tmp_path / "model"
    settings = sets(setting="sup", triplets="graded-triplets", label_fraction=0.25, subset=3)
    words = ("--encoder", "tiny-bert", *settings, *sets(suite="graded", max_steps=1))
    shown("run", "simcse", *words, "--store", store.folder)
    shown("export", finals(store)[0].key, folder, "--store", store.folder)
    card = (folder / "README.md").read_text()
    assert "`graded-triplets` (contrastive); 25 % of the labels, subset 3. Encoder" in card


def test_what_cannot_leave(harness: Harness, store: Store, tmp_path: Path) -> None:
    trial, new = finals(store)[0], tmp_path / "new"
    searched = next(record for record in store.matching("") if record.role == "search")
    weights, below = store.weights(trial.key), tmp_path / "file" / "out"
    (tmp_path / "file").touch()

    def refuse(key: str, folder: Path, *parts: str) -> None:
        check_sentence(harness("export", key, folder, "--store", store.folder), *parts)

    refuse(trial.key, tmp_path, "is there already")
    refuse("ffffffff", new, "no trial in")
    refuse(searched.key, new, "a search trial keeps none")
    unwritable = f"{below} cannot be written (Not a directory); choose another folder"
    refuse(trial.key, below, unwritable)
    check_sentence(harness("publish", store.folder, below), unwritable)
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    refuse(trial.key, new, "makes them again")
    weights.unlink()
    refuse(trial.key, new, "makes them again")
    assert not new.exists()
