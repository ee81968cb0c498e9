"""Files that a trial names by paths reach a machine that does not have them, without Ray.

A folder stands for a laptop. It is moved away before the trial is built again, as on a machine that
has never seen it. Only the function that reads files of the other machine knows where it is.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.data.corpora import source
from harness.data.hub import EMBEDDED, model_shape
from harness.errors import UserError
from harness.evaluation import suites
from harness.plugin import registry
from harness.relocation import Relocation, relocate
from harness.sweeps.cluster.capacity import digests_of
from harness.sweeps.workers import files, worker
from harness.sweeps.workers.files import brought, file_list
from harness.trials.trial import Trial, arrived, describe, key, portable
from tests.kits import forget

PLUGIN = '''\
from pathlib import Path

from harness import plugin

from .names import NAMES


class Config(plugin.TrainingConfig):
    words: Path


class Method(plugin.Method[Config]):
    """It has a file of its own, and one that its configuration names."""

    names = NAMES

    @classmethod
    def corpora(cls, config):
        return {"contrastive": config.sentences}

    @classmethod
    def files(cls, config):
        return [config.words]

    @classmethod
    def stages(cls, config):
        return [config.stage("contrastive")]
'''
NAMES = """\
from pathlib import Path

NAMES = Path(__file__).with_name("names.txt").read_text()
"""
SUITE = '''\
from pathlib import Path

from harness.data.hub import data_file
from harness.evaluation.suites import Scores, SuiteCard, register

DEV, TEST = Path("data/dev.txt"), Path(__file__).with_name("test.txt")
GRADED = data_file("harness/graded-sentences", "dev.tsv")


class Lines:
    """The lines of a file: one is named from the working directory, one beside this file."""

    def __init__(self, path):
        self.texts = path.read_text().splitlines()


@register(
    SuiteCard("own", dev_tasks=("own-dev",)),
    {"own-dev": lambda: Lines(DEV), "own": lambda: Lines(TEST)},
    lambda: [DEV, TEST, GRADED],
)
def score(task, data, vectors):
    return Scores({task: 1.0})
'''
Read = Callable[[str], Iterator[bytes]]


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, with a plugin, a suite, a corpus, a model and their files."""
    folder = tmp_path / "laptop"
    for name, text in {
        "my_method/__init__.py": PLUGIN,
        "my_method/names.py": NAMES,
        "my_method/names.txt": "Ada",
        "my_method/.git/config": "not a part of the plugin",
        "my_suite.py": SUITE,
        "data/dev.txt": "one\ntwo\n",
        "test.txt": "three\nfour\n",
        "words.txt": "five\n",
        "texts/real.txt": "a sentence\nanother one\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copytree(EMBEDDED / "models" / "tiny-bert", folder / "models" / "real-bert")
    (folder / "corpus.txt").symlink_to(folder / "texts" / "real.txt")
    (folder / "my-bert").symlink_to(folder / "models" / "real-bert")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    forget(registry, suites)  # as a process on another machine
    yield folder
    relocate(None)


@pytest.fixture
def trial(laptop: Path) -> Trial:
    """A trial that names all of it by paths, relative ones and an absolute one."""
    values = {"encoder": "./my-bert", "suite": "my_suite.py", "sentences": "corpus.txt"}
    return Trial("my_method", values | {"words": str(laptop / "words.txt")}, seed=0)


@pytest.fixture
def elsewhere(laptop: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Read]:
    """elsewhere(): from now on this machine does not have the files; returns what reads them."""

    def go() -> Read:
        moved = laptop.with_name("far away")
        laptop.rename(moved)
        (moved / "corpus.txt").unlink()  # its link leads to where the folder was
        monkeypatch.chdir(laptop.parent)
        forget(registry, suites)  # as a process on another machine

        def read(path: str) -> Iterator[bytes]:
            content = (moved / Path(path).relative_to(laptop)).read_bytes()
            yield from (content[start : start + 100] for start in range(0, len(content), 100))

        return read

    return go


def nobody(path: str) -> Iterator[bytes]:
    """Reads no file."""
    pytest.fail(f"{path} was read")


def test_trial_is_the_same_on_a_machine_without_its_files(
    trial: Trial, laptop: Path, elsewhere: Callable[[], Read]
) -> None:
    sent, manifest = portable(trial), file_list(trial)
    expected, digests = describe(trial), digests_of(trial)
    read = elsewhere()
    with pytest.raises(UserError):
        describe(arrived(sent))
    relocate(brought(manifest, read))

    there = arrived(sent)
    assert key(there) == expected.key
    assert describe(there) == expected
    assert digests_of(there) == digests
    # What the plugin, the suite, the corpus and the model read is there, too.
    assert there.plugin.method.names == "Ada"
    assert there.config.words.read_text() == "five\n"
    assert str(there.config.words) == str(laptop / "words.txt")
    assert suites.suite("my_suite.py").load("own-dev").texts == ["one", "two"]
    assert suites.suite("my_suite.py").load("own").texts == ["three", "four"]
    corpus = source("corpus.txt")
    assert corpus.corpus(corpus.paths()).columns[0] == ["a sentence", "another one"]
    assert model_shape("./my-bert")["model_type"] == "bert"
    assert source(str(laptop / "corpus.txt")).paths() == corpus.paths()


def test_list_has_what_is_named_by_a_path_and_nothing_else(
    trial: Trial, laptop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is copied where the files are."""
    sent, manifest, expected = portable(trial), file_list(trial), key(trial)
    names = {Path(file.path).relative_to(laptop).as_posix() for file in manifest.files}
    models = {name for name in names if name.startswith("models/real-bert/")}
    assert models >= {"models/real-bert/config.json", "models/real-bert/model.safetensors"}
    assert names - models == {
        *(f"my_method/{name}" for name in ("__init__.py", "names.py", "names.txt")),
        *("my_suite.py", "data/dev.txt", "test.txt", "texts/real.txt", "words.txt"),
    }  # and neither .git nor the file of a data set that every machine finds by its name
    by_name = Trial("simcse", {"encoder": "tiny-bert", "suite": "graded"}, seed=0)
    assert {Path(file.path).suffix for file in file_list(by_name).files} == {".py"}
    monkeypatch.chdir("/")  # a worker of Ray begins anywhere
    relocate(brought(manifest, nobody))
    assert Path.cwd() == laptop
    assert key(arrived(sent)) == expected


def test_what_was_brought_is_used_again_unless_it_is_damaged(
    trial: Trial, elsewhere: Callable[[], Read]
) -> None:
    manifest = file_list(trial)
    read = elsewhere()

    def changed(path: str) -> Iterator[bytes]:
        yield from [b"six\n"] if path.endswith("words.txt") else read(path)

    with pytest.raises(UserError, match=r"words\.txt has changed since the sweep began; give the"):
        brought(manifest, changed)
    assert not list((files.cache_folder() / "travelled").glob("*/__init__.py"))
    first = brought(manifest, read)
    assert brought(manifest, nobody) == first
    # Another list has other contents; what is in both is brought once.
    assert brought(replace(manifest, links={}), nobody).root != first.root
    [words] = [file for file in manifest.files if file.path.endswith("words.txt")]
    copy = first.place(Path(words.path))
    copy.write_text("other\n")
    assert brought(manifest, read) == first
    assert copy.read_text() == "five\n"


def test_too_much_is_refused_unless_it_is_there(
    trial: Trial, laptop: Path, elsewhere: Callable[[], Read], monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = file_list(trial)
    read = elsewhere()
    monkeypatch.setattr(files, "LARGEST_TRAVELLING", 10_000)
    shared = laptop / "models" / "real-bert"
    with pytest.raises(UserError, match="GiB of files would travel to ") as refused:
        brought(manifest, read)
    assert f"the largest is {shared / 'model.safetensors'}, and " in str(refused.value)
    # A folder that all machines share has the model, and then the rest is little.
    shutil.copytree(laptop.with_name("far away") / "models" / "real-bert", shared)
    relocate(brought(manifest, read))
    assert Path("models/real-bert/model.safetensors").resolve() == shared / "model.safetensors"
    assert Path("my_method/__init__.py").is_file()


def test_home_folder_is_that_of_the_other_machine(tmp_path: Path) -> None:
    there = Relocation(tmp_path, Path("/home/ada/work"), Path("/home/ada"))
    assert there.place(Path("~/models/x")) == tmp_path / "home/ada/models/x"
    assert there.place(Path("a/../../b.txt")) == tmp_path / "home/ada/b.txt"
    assert there.place(Path("../../../../etc/passwd")) == tmp_path / "etc/passwd"


def test_machine_that_joined_later_with_other_data_runs_no_trial(trial: Trial) -> None:
    files = {"listed": file_list(trial), "node": "which is not asked: all of them are here"}
    sent = {"trial": portable(trial), "part": None, "files": files}
    worker.arrive({**sent, "key": key(trial)})
    with pytest.raises(UserError, match=r"has other models or data than the machine where .*_HUB$"):
        worker.arrive({**sent, "key": "0" * 32})
