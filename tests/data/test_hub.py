"""Origins of files: the mirror, then the embedded default, then the Hub; and their digests."""

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


def test_the_mirror_comes_before_the_embedded_default(mirror: Path) -> None:
    """Each file of data is searched for itself, not the whole data set."""
    name, own = "harness/graded-sentences", '{"hidden_size": 7}'
    assert model_folder("tiny-bert") == hub.EMBEDDED / "models" / "tiny-bert"
    assert model_shape("tiny-bert")["hidden_size"] == 128
    assert data_file(name, "dev.tsv") == hub.EMBEDDED / "datasets" / name / "dev.tsv"
    dev = put(mirror / "datasets" / name / "dev.tsv")
    for model in ("tiny-bert", "some-org/some-model"):
        put(mirror / "models" / model / "config.json", own)
        assert model_folder(model) == mirror / "models" / model
        assert model_shape(model) == {"hidden_size": 7}
    assert {"some-org/some-model", "tiny-bert"} <= set(known("models"))
    assert data_file(name, "dev.tsv") == dev
    assert data_file(name, "test.tsv") == hub.EMBEDDED / "datasets" / name / "test.tsv"


def test_what_is_missing_is_named(mirror: Path) -> None:
    put(mirror / "models/bert-base-uncased/config.json")
    with pytest.raises(UserError) as refusal:
        model_folder("bert-base-uncase")
    parts = ('"bert-base-uncase" was not found', "HARNESS_HUB", str(mirror),
             'did you mean "bert-base-uncased"?')  # fmt: skip
    assert all(part in str(refusal.value) for part in parts)
    assert "\n" not in str(refusal.value)
    name = "princeton-nlp/datasets-for-simcse"
    said = 'data file "{0}" was not found.*set HARNESS_HUB to a folder that has datasets/{0}'
    with pytest.raises(UserError, match=said.format(f"{name}/senteval.tar")):
        data_file(name, "senteval.tar")


def test_within_a_block_a_model_is_looked_up_once(mirror: Path) -> None:
    with looked_up_once():
        with pytest.raises(NotHere, match="the Hub was not asked"):
            model_folder("of/mine", download=False)
        put(mirror / "models/of/mine/config.json")
        with looked_up_once(), pytest.raises(NotHere, match="the Hub was not asked"):
            model_folder("of/mine", download=False)
    assert model_folder("of/mine", download=False) == mirror / "models/of/mine"


def test_within_a_block_the_files_of_a_model_are_read_once(mirror: Path) -> None:
    file = put(mirror / "models/of/mine/config.json")
    with looked_up_once():
        before = model_digest("of/mine")
        file.write_text('{"model_type": "bert"}')
        assert model_digest("of/mine") == before
    assert model_digest("of/mine") != before


def test_a_mirror_that_is_no_folder_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path / "absent"))
    with pytest.raises(UserError, match=r"HARNESS_HUB names .*absent, which is no folder"):
        model_folder("tiny-bert")


def test_a_folder_may_be_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "mine" / "config.json")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("./mine", "mine", "~/mine", str(tmp_path / "mine")):
        assert model_folder(name) == tmp_path / "mine"
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r'"\./empty": the folder has no config\.json'):
        model_folder("./empty")


def test_a_digest_is_of_names_and_contents_not_of_place_or_time(tmp_path: Path) -> None:
    one, two = put(tmp_path / "a" / "file.txt", "same"), put(tmp_path / "b" / "file.txt", "same")
    os.utime(two, (1, 1))
    assert digest_files([one]) == digest_files([two])
    others = [
        [put(tmp_path / "c" / "file.txt", "some")], [put(tmp_path / "d" / "other.txt", "same")],
        [one, two], [put(tmp_path / "1" / "a", "xy"), put(tmp_path / "1" / "b", "")],
        [put(tmp_path / "2" / "a", "x"), put(tmp_path / "2" / "b", "y")],
    ]  # fmt: skip
    assert len({digest_files(files) for files in ([one], *others)}) == 6


def test_the_digest_of_a_model_covers_every_part(tiny_encoder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny_encoder, tmp_path / "copy"))
    (copy / "README.md").write_text("not part of the model")
    digests = [model_digest(str(tiny_encoder))]
    assert model_digest(str(copy)) == digests[0]
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        with (copy / name).open("ab") as file:
            file.write(b" ")
        digests.append(model_digest(str(copy)))
    assert len(set(digests)) == 4
