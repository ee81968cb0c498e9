"""Where files come from: the mirror, then the embedded default, then the Hub; and their digests."""

import os
import shutil
from pathlib import Path

import pytest

from harness.data import hub
from harness.data.hub import (
    data_file,
    known,
    looked_up_once,
    model_digest,
    model_folder,
    model_shape,
)
from harness.errors import NotHere, UserError
from harness.files import digest_files


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty mirror, which HARNESS_HUB names."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    monkeypatch.setenv("HARNESS_HUB", str(folder))
    return folder


def put(path: Path, content: str = "{}") -> Path:
    """Write a file with its folders, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_a_model_of_the_mirror_comes_before_an_embedded_one(mirror: Path) -> None:
    assert model_folder("tiny-bert") == hub.EMBEDDED / "models" / "tiny-bert"
    assert model_shape("tiny-bert")["hidden_size"] == 128
    put(mirror / "models/tiny-bert/config.json", '{"hidden_size": 7}')
    assert model_folder("tiny-bert") == mirror / "models" / "tiny-bert"
    assert model_shape("tiny-bert") == {"hidden_size": 7}


def test_a_file_of_the_mirror_comes_before_an_embedded_one(mirror: Path) -> None:
    name = "harness/graded-sentences"
    assert data_file(name, "dev.tsv") == hub.EMBEDDED / "datasets" / name / "dev.tsv"
    own = put(mirror / "datasets" / name / "dev.tsv", "own")
    assert data_file(name, "dev.tsv") == own
    # Each file is searched for itself, not the whole data set.
    assert data_file(name, "test.tsv") == hub.EMBEDDED / "datasets" / name / "test.tsv"


def test_without_a_mirror_the_embedded_default_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    assert model_folder("tiny-bert") == hub.EMBEDDED / "models" / "tiny-bert"


def test_a_model_may_have_an_organisation(mirror: Path) -> None:
    put(mirror / "models/some-org/some-model/config.json")
    assert model_folder("some-org/some-model") == mirror / "models/some-org/some-model"
    assert {"some-org/some-model", "tiny-bert"} <= set(known("models"))


def test_a_missing_model_is_named_with_the_nearest_name(mirror: Path) -> None:
    put(mirror / "models/bert-base-uncased/config.json")
    with pytest.raises(UserError) as refusal:
        model_folder("bert-base-uncase")
    message = str(refusal.value)
    assert '"bert-base-uncase" was not found' in message
    assert "HARNESS_HUB" in message
    assert str(mirror) in message
    assert 'did you mean "bert-base-uncased"?' in message
    assert "\n" not in message


@pytest.mark.usefixtures("mirror")
def test_within_a_block_a_model_is_looked_up_once(mirror: Path) -> None:
    with looked_up_once():
        with pytest.raises(NotHere, match="the Hub was not asked"):
            model_folder("of/mine", download=False)
        put(mirror / "models/of/mine/config.json")
        with looked_up_once(), pytest.raises(NotHere, match="the Hub was not asked"):
            model_folder("of/mine", download=False)
    assert model_folder("of/mine", download=False) == mirror / "models/of/mine"


def test_a_model_is_not_downloaded_unasked() -> None:
    with pytest.raises(UserError, match="the Hub was not asked"):
        model_folder("roberta-base", download=False)


@pytest.mark.usefixtures("mirror")
def test_a_missing_data_file_is_named_in_full() -> None:
    with pytest.raises(UserError) as refusal:
        data_file("princeton-nlp/datasets-for-simcse", "senteval.tar")
    message, name = str(refusal.value), "princeton-nlp/datasets-for-simcse/senteval.tar"
    assert f'data file "{name}" was not found' in message
    assert f"set HARNESS_HUB to a folder that has datasets/{name}" in message


def test_a_mirror_that_is_no_folder_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path / "absent"))
    with pytest.raises(UserError, match=r"HARNESS_HUB names .*absent, which is no folder"):
        model_folder("tiny-bert")


def test_a_folder_may_be_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "mine" / "config.json")
    monkeypatch.chdir(tmp_path)
    for name in ("./mine", "mine", str(tmp_path / "mine")):
        assert model_folder(name) == tmp_path / "mine"
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r'"\./empty": the folder has no config\.json'):
        model_folder("./empty")


def test_a_model_may_lie_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    put(tmp_path / "mine" / "config.json")
    assert model_folder("~/mine") == tmp_path / "mine"


def test_a_digest_is_of_name_and_content_not_of_place_or_time(tmp_path: Path) -> None:
    one, two = put(tmp_path / "a" / "file.txt", "same"), put(tmp_path / "b" / "file.txt", "same")
    os.utime(two, (1, 1))
    assert digest_files([one]) == digest_files([two])
    assert digest_files([put(tmp_path / "c" / "file.txt", "some")]) != digest_files([one])
    assert digest_files([put(tmp_path / "d" / "other.txt", "same")]) != digest_files([one])
    assert digest_files([one, two]) != digest_files([one])


def test_content_that_moves_to_another_file_changes_the_digest(tmp_path: Path) -> None:
    first = [put(tmp_path / "1" / "a", "xy"), put(tmp_path / "1" / "b", "")]
    second = [put(tmp_path / "2" / "a", "x"), put(tmp_path / "2" / "b", "y")]
    assert digest_files(first) != digest_files(second)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_the_digest_of_a_model_covers_every_part(
    tiny_encoder: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(tiny_encoder, tmp_path / "copy")
    before = model_digest(str(tmp_path / "copy"))
    assert before == model_digest(str(tiny_encoder))
    (tmp_path / "copy" / "README.md").write_text("not part of the model")
    assert model_digest(str(tmp_path / "copy")) == before
    with (tmp_path / "copy" / name).open("ab") as file:
        file.write(b" ")
    assert model_digest(str(tmp_path / "copy")) != before
