"""Where files come from: the mirror before the embedded default before the Hub, and digests of their content."""

import os
import shutil
from pathlib import Path

import pytest

from harness.data import hub
from harness.data.hub import data_file, known, model_digest, model_folder, model_shape
from harness.errors import UserError
from harness.files import digest_files


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "mirror"
    folder.mkdir()
    monkeypatch.setenv("HARNESS_HUB", str(folder))
    return folder


def put(path: Path, content: str = "{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_mirror_comes_before_the_embedded_default(mirror: Path) -> None:
    assert model_folder("tiny-bert") == hub.EMBEDDED / "models" / "tiny-bert"
    assert model_shape("tiny-bert")["hidden_size"] == 128
    put(mirror / "models/tiny-bert/config.json", '{"hidden_size": 7}')
    assert model_folder("tiny-bert") == mirror / "models" / "tiny-bert"
    assert model_shape("tiny-bert") == {"hidden_size": 7}


def test_data_of_the_mirror_comes_before_the_embedded(mirror: Path) -> None:
    name = "harness/graded-sentences"
    assert data_file(name, "dev.tsv") == hub.EMBEDDED / "datasets" / name / "dev.tsv"
    own = put(mirror / "datasets" / name / "dev.tsv", "own")
    assert data_file(name, "dev.tsv") == own
    assert data_file(name, "test.tsv") == hub.EMBEDDED / "datasets" / name / "test.tsv", (
        "file by file"
    )


def test_without_a_mirror_the_embedded_default_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    assert model_folder("tiny-bert") == hub.EMBEDDED / "models" / "tiny-bert"


def test_names_with_an_organisation(mirror: Path) -> None:
    put(mirror / "models/some-org/some-model/config.json")
    assert model_folder("some-org/some-model") == mirror / "models/some-org/some-model"
    assert {"some-org/some-model", "tiny-bert"} <= set(known("models"))


def test_missing_model_says_where_and_what_was_meant(mirror: Path) -> None:
    put(mirror / "models/bert-base-uncased/config.json")
    with pytest.raises(UserError) as told:
        model_folder("bert-base-uncase")
    message = str(told.value)
    assert '"bert-base-uncase" was not found' in message
    assert "HARNESS_HUB" in message
    assert str(mirror) in message
    assert 'did you mean "bert-base-uncased"?' in message
    assert "\n" not in message


@pytest.mark.usefixtures("mirror")
def test_model_that_is_not_to_be_downloaded() -> None:
    with pytest.raises(UserError, match="the Hub was not asked"):
        model_folder("roberta-base", download=False)


@pytest.mark.usefixtures("mirror")
def test_missing_data_file_is_named_in_full() -> None:
    with pytest.raises(UserError) as told:
        data_file("princeton-nlp/datasets-for-simcse", "senteval.tar")
    message = str(told.value)
    assert 'data file "princeton-nlp/datasets-for-simcse/senteval.tar" was not found' in message
    assert (
        "set HARNESS_HUB to a folder that has datasets/princeton-nlp/datasets-for-simcse/senteval.tar"
        in message
    )


def test_mirror_that_is_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path / "absent"))
    with pytest.raises(UserError, match=r"HARNESS_HUB names .*absent, which is no folder"):
        model_folder("tiny-bert")


def test_folder_as_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "mine" / "config.json")
    monkeypatch.chdir(tmp_path)
    assert (
        model_folder("./mine")
        == model_folder("mine")
        == model_folder(str(tmp_path / "mine"))
        == tmp_path / "mine"
    )
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r'"\./empty": the folder has no config\.json'):
        model_folder("./empty")


def test_folder_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    put(tmp_path / "mine" / "config.json")
    assert model_folder("~/mine") == tmp_path / "mine"


def test_digest_is_of_content_not_of_place_or_time(tmp_path: Path) -> None:
    one, two = put(tmp_path / "a" / "file.txt", "same"), put(tmp_path / "b" / "file.txt", "same")
    os.utime(two, (1, 1))
    assert digest_files([one]) == digest_files([two])
    assert digest_files([put(tmp_path / "c" / "file.txt", "some")]) != digest_files([one])
    assert digest_files([put(tmp_path / "d" / "other.txt", "same")]) != digest_files([one])
    assert digest_files([one, two]) != digest_files([one])


def test_digest_follows_a_file_that_is_written_again(tmp_path: Path) -> None:
    path = put(tmp_path / "file.txt", "before")
    os.utime(path, ns=(1, 1))
    before = digest_files([path])
    path.write_text("after!")  # as long as before
    os.utime(path, ns=(2, 2))
    after = digest_files([path])
    assert after != before
    assert after == digest_files([put(tmp_path / "elsewhere" / "file.txt", "after!")])


def test_content_does_not_move_between_files(tmp_path: Path) -> None:
    first = [put(tmp_path / "1" / "a", "xy"), put(tmp_path / "1" / "b", "")]
    second = [put(tmp_path / "2" / "a", "x"), put(tmp_path / "2" / "b", "y")]
    assert digest_files(first) != digest_files(second)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_model_digest_sees_every_part(tiny_encoder: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(tiny_encoder, tmp_path / "copy")
    before = model_digest(str(tmp_path / "copy"))
    assert before == model_digest(str(tiny_encoder))
    (tmp_path / "copy" / "README.md").write_text("not part of the model")
    assert model_digest(str(tmp_path / "copy")) == before
    with (tmp_path / "copy" / name).open("ab") as file:
        file.write(b" ")
    assert model_digest(str(tmp_path / "copy")) != before
