"""`harness eval`: models, suites, the records in the store, and messages about missing things."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook
from transformers import PreTrainedTokenizerFast

from harness.data.corpora import GRADED
from harness.data.hub import EMBEDDED
from harness.encoders.backbone import Encoder
from harness.files import content_digest
from harness.plugin import registry
from harness.training.saved_state import SavedState
from harness.trials.record import Record
from harness.trials.run import attempt
from harness.trials.store import Store
from harness.trials.trial import Trial, key
from tests.cli.conftest import Harness, SentEval, Shown, check_sentence, sets
from tests.programs import Answer
from tests.sweeping import BAG, HEAD

pytestmark = pytest.mark.slow  # most of these tests run a model over a suite

SMALL = {
    "suite": "graded", "sentences": "graded-sentences", "max_steps": 2, "batch_size": 8,
    "precision": "fp32",
}  # fmt: skip
GRADED_EVAL = ["--suite", "graded"]
Plugin = MySuite = Callable[..., Path]
PLUGIN = f'''\
"""A bag of words."""

{HEAD}

class Config(plugin.MethodConfig):
    encoder: str = "tiny-bert"
    suite: str = "graded"


{BAG}

class Method(Bag):
    config_type = Config

    def embed(self, batch):
        vectors = super().embed(batch)
        if Path("FLAG").exists():
            BROKEN
        return vectors
'''
SUITE = '''\
"""How long the vectors of some sentences are."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from harness.errors import UserError
from harness.evaluation.suites import Scores, register


def needed():
    if not Path("FLAG").exists():
        raise UserError("FLAG, line 3: no sentence")
    texts = ["a red bird", "the cat sees the dog", "the old farmer", "a red bird"]
    return SimpleNamespace(texts=texts)


def short():
    return SimpleNamespace(texts=["the cat", "a dog runs"])


@register("mine", {"short": short, "long": needed}, lambda: [])
def mine(task, data, vectors):
    norm = float(np.linalg.norm(vectors, axis=1).mean())
    return Scores({task: norm}, {f"{task}/rows": float(len(vectors))})
'''


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """The file that the plugin and the suite look for."""
    return tmp_path / "flag.txt"


@pytest.fixture
def plugin(tmp_path: Path, flag: Path) -> Iterator[Plugin]:
    """plugin(broken): a method that does `broken` while the flag is there."""

    def write(broken: str = "pass") -> Path:
        path = tmp_path / "toy.py"
        path.write_text(PLUGIN.replace("FLAG", str(flag)).replace("BROKEN", broken), "utf-8")
        return path

    yield write
    registry.load.cache_clear()


@pytest.fixture
def my_suite(tmp_path: Path, flag: Path) -> MySuite:
    """my_suite(old, new): the suite above, with one text replaced."""

    def write(old: str = "FLAG", new: str = "FLAG", name: str = "my_suite.py") -> Path:
        assert old in SUITE
        path = tmp_path / name
        path.write_text(SUITE.replace(old, new).replace("FLAG", str(flag)), encoding="utf-8")
        return path

    return write


@pytest.fixture
def evaluated(shown: Shown, store: Path) -> Shown:
    """evaluated(name, option, ...): what an evaluation with the suite `graded` prints."""
    return lambda name, *options: shown("eval", name, *GRADED_EVAL, "--store", store, *options)


@pytest.fixture
def ran(harness: Harness, store: Path) -> Callable[..., Record]:
    """ran(method, option, ...): the one record of the store after `harness run`."""

    def run(method: object, *options: object) -> Record:
        answer = harness("run", method, *options, "--store", store)
        assert answer.code in (0, 1), answer.err
        [record] = rows(store)
        return record

    return run


def rows(store: Path) -> list[Record]:
    return Store(store).read().records()


def evaluation(store: Path, suite: str = "graded") -> Record:
    """The single evaluation by this suite."""
    [row] = [row for row in rows(store) if row.role == "evaluation" and row.suite == suite]
    return row


def check_scores(row: Record, expected: Record) -> None:
    """Check that a row has the scores, details and uncertainties of another one."""
    for column in ("test", "details", "dev"):
        wanted, found = getattr(expected, column), getattr(row, column)
        assert wanted or column == "dev"
        assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=1e-6), column
    for name, spread in expected.uncertainty.items():
        assert vars(row.uncertainty[name]) == pytest.approx(vars(spread), abs=1e-6)


def check_steps(answer: Answer, title: str, sentences: int = 0, *tasks: str) -> None:
    """Check that an evaluation lacks scores, and has said on stderr its steps alone.

    title: its model and suites. sentences: the number to embed; 0: it gets no further. tasks: what
    it scores, such as "sts (9)".
    """
    steps = [f"evaluating {title}", "loading torch and the model"]
    steps += [f"embedding sentences ({sentences:,})"] if sentences else []
    steps += [f"scoring the tasks of {each}" for each in tasks]
    assert (answer.code, answer.err.splitlines()) == (1, steps)


def not_here(*_: object) -> None:
    """A hook of torch where nothing may be computed."""
    pytest.fail("it computes")


def test_an_encoder_offline_has_the_scores_of_the_method_pooling(
    process: Any, shown: Shown, store: Path
) -> None:
    answer = process("eval", "tiny-bert", *GRADED_EVAL, "--pooling", "cls", "--store", store)
    assert answer.code == 0, answer.err
    assert "tiny-bert (cls pooling)" in answer.out
    run = ["run", "pooling", "--encoder", "tiny-bert", *sets(suite="graded", pooling="cls")]
    shown(*run, "--store", store)
    [trial] = [row for row in rows(store) if row.role == "final"]
    row = evaluation(store)
    check_scores(row, trial)
    assert (row.status, row.reason, row.evaluates) == ("finished", None, trial.key)
    assert row.key != trial.key
    values = row.method, row.encoder, row.configuration["pooling"]
    assert values == ("pooling", "tiny-bert", "cls")
    assert set(row.uncertainty) == {"graded", "graded-dev"}
    filled = "evaluation_seconds sentences_per_second peak_host_memory_mib threads started host"
    assert all(getattr(row, name) for name in (*filled.split(), "device", "versions"))
    assert (row.parameters_trainable, row.parameters_added) == (0, 0)
    assert row.parameters_total == trial.parameters_total > 0
    assert row.wall_seconds > row.evaluation_seconds
    # Trials have the same columns as evaluations.
    spread, score = trial.uncertainty["graded"], trial.test["graded"]
    assert spread.low < score < spread.high
    assert 0 < spread.standard_error < 10
    assert trial.details["graded/all/spearman"] == pytest.approx(score)
    assert "graded/all/pearson" in trial.details


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a search trial of SimCSE and a final one."""
    store = Store(tmp_path_factory.mktemp("trained") / "store")
    values = {**SMALL, "encoder": "tiny-bert", "learning_rate": 1e-3}
    for role, seed in (("search", 42), ("final", 1)):
        trial = Trial("simcse", values, seed, role)
        store.write(attempt(trial, lambda _: None, store.weights(key(trial))))
    assert [row.status for row in store.read().records()] == ["finished"] * 2
    return store.folder


Trials = dict[str, Record]


@pytest.fixture
def trials(trained: Path, store: Path) -> Trials:
    """Role -> row, in a store that only this test uses."""
    shutil.copytree(trained, store)
    shutil.copytree(Store(trained).weights("KEY").parent, Store(store).weights("KEY").parent)
    return {row.role: row for row in rows(store)}


def test_a_final_trial_has_its_own_scores_from_its_weights_and_without_them(
    evaluated: Shown, trials: Trials, store: Path
) -> None:
    trial = trials["final"]
    with register_optimizer_step_pre_hook(not_here):
        evaluated(trial.key[:8])
    row = evaluation(store)
    check_scores(row, trial)
    assert row.evaluates == trial.key
    names = "seed", "steps", "parameters_trainable", "precision", "configuration", "source_digest"
    assert [getattr(row, name) for name in names] == [getattr(trial, name) for name in names]
    weights = Store(store).weights(trial.key)
    weights.unlink()
    (store / f"{row.key}.parquet").unlink()
    evaluated(trial.key)  # it is trained again
    check_scores(evaluation(store), trial)
    assert weights.is_file()


def test_a_search_trial_is_trained_again_and_gets_test_scores(
    evaluated: Shown, shown: Shown, trials: Trials, store: Path, tmp_path: Path
) -> None:
    trial = trials["search"]
    assert trial.test == {}
    evaluated(trial.key)
    values = {name: value for name, value in trial.configuration.items() if value is not None}
    shown("run", "simcse", *sets(**values), "--seed", trial.seed, "--store", tmp_path / "other")
    [final] = rows(tmp_path / "other")
    row = evaluation(store)
    assert row.evaluates == trial.key != final.key
    check_scores(row, final)
    assert row.dev["graded-dev"] == pytest.approx(trial.dev["graded-dev"], abs=1e-6)


@pytest.mark.parametrize(
    ("role", "damage"), [("final", "a bit"), ("final", "another trial's"), ("search", "cut")]
)
def test_weights_that_do_not_match_their_record_are_trained_again(
    role: str, damage: str, evaluated: Shown, trials: Trials, store: Path, caplog: Any
) -> None:
    """Also those of a search trial, which an evaluation has trained, and no record names."""
    trial = expected = trials[role]
    weights = Store(store).weights(trial.key)
    if role == "search":
        evaluated(trial.key)
        assert trial.weights_digest is None
        expected = evaluation(store)
        (store / f"{expected.key}.parquet").unlink()
    content = weights.read_bytes()
    if damage == "another trial's":
        values = {**trial.configuration, "learning_rate": 0.01}
        attempt(Trial("simcse", values, trial.seed), lambda _: None, weights)
    elif damage == "cut":
        weights.write_bytes(content[:1000])
    else:
        weights.write_bytes(content[:-3] + bytes([content[-3] ^ 4]) + content[-2:])
    evaluated(trial.key)
    [line] = caplog.messages
    assert str(weights) in line
    assert "is trained again" in line
    check_scores(evaluation(store), expected)
    assert weights.read_bytes() == content


def test_other_weights_than_those_of_the_record_are_not_kept(
    evaluated: Shown, trials: Trials, store: Path, caplog: Any
) -> None:
    """Another machine trains other weights; a score counts for the weights it measured."""
    trial = trials["final"]
    evaluated(trial.key)
    before = evaluation(store)
    (store / f"{trial.key}.parquet").unlink()
    Store(store).write(replace(trial, weights_digest="0" * 64))
    assert "graded (embedding" in evaluated(trial.key)  # and not from the store
    assert evaluation(store) == before
    refused, differ = caplog.messages
    assert "is trained again" in refused
    assert trial.label in differ
    assert not Store(store).weights(trial.key).exists()


def test_a_trial_whose_plugin_has_no_name_here_or_has_changed(
    harness: Harness, evaluated: Shown, ran: Any, plugin: Plugin, store: Path
) -> None:
    path = plugin()
    trial = ran(path)
    command = ["eval", trial.key, *GRADED_EVAL, "--store", store]
    check_sentence(harness(*command), "there is no method toy here", "--method PATH")
    evaluated(trial.key, "--method", path)
    check_scores(evaluation(store), trial)
    path.write_text(path.read_text() + "\n# a remark\n")
    registry.load.cache_clear()
    answer = harness(*command, "--method", path)
    check_sentence(answer, trial.key[:10], "have changed since it ran", "harness show")


def test_what_is_not_for_a_trial(
    harness: Harness, plugin: Plugin, flag: Path, trials: Trials, store: Path
) -> None:
    def refuse(name: str, options: list[object], *parts: str) -> None:
        check_sentence(harness("eval", name, *GRADED_EVAL, *options, "--store", store), *parts)

    refuse(final := trials["final"].key, ["--pooling", "cls"], "--pooling", final[:10])
    refuse("0123abcd", [], '"0123abcd"', "was not found")
    flag.touch()
    path = plugin("raise ValueError('odd')")
    assert harness("run", path, "--store", store).code == 1
    [failed] = [row.key for row in rows(store) if row.status == "failed"]
    refuse(failed, ["--method", path], "has not finished", "ValueError: odd")


def test_what_is_stored_is_not_measured_again(
    shown: Shown, my_suite: MySuite, flag: Path, store: Path
) -> None:
    """Also of a suite of a file, which is another one when it is edited."""
    flag.touch()
    command = ["eval", "tiny-bert", "--store", store, "--suite"]
    shown(*command, "graded")
    [before] = store.glob("*.parquet")
    written = before.stat().st_mtime_ns
    assert "graded (in the store)" in shown(*command, f"{my_suite()},graded")
    assert before.stat().st_mtime_ns == written
    row = evaluation(store, "mine")
    assert (row.status, set(row.test)) == ("finished", {"short", "long"})
    assert row.details == {"short/rows": 2, "long/rows": 4}, "a row for every text, copies too"
    assert row.evaluates == evaluation(store).evaluates, "one model, whatever is measured"
    assert row.test["short"] > 0
    with register_module_forward_pre_hook(not_here):
        assert "mine (in the store)" in shown(*command, f"graded,{my_suite()}")
    assert len(rows(store)) == 2
    shown(*command, my_suite("float(np.linalg.norm(vectors, axis=1).mean())", "2.5"))
    [other] = [each for each in rows(store) if each.suite == "mine" and each.key != row.key]
    assert (other.test, other.evaluates) == ({"short": 2.5, "long": 2.5}, row.evaluates)


@pytest.mark.parametrize(
    ("ends", "code"),
    [("raise KeyboardInterrupt", 130), ("os.kill(os.getpid(), signal.SIGKILL)", -9)],
)
def test_an_end_in_between_keeps_the_suites_before_it(
    ends: str, code: int, process: Any, my_suite: MySuite, store: Path
) -> None:
    path = my_suite("    return Scores(", f"    {ends}\n    return Scores(")
    answer = process("eval", "tiny-bert", "--suite", f"graded,{path}", "--store", store)
    assert answer.code == code
    assert ("the same command goes on from there" in answer.err) == (code == 130)
    [row] = rows(store)
    assert (row.suite, row.status) == ("graded", "finished")
    assert {path.name for path in store.iterdir()} == {f"{row.key}.parquet"}


def test_suites_that_are_refused(harness: Harness, my_suite: MySuite, store: Path) -> None:
    def refuse(suites: str, *parts: object) -> None:
        answer = harness("eval", "tiny-bert", "--suite", suites, "--store", store)
        check_sentence(answer, *parts)
        assert not store.exists()

    path = my_suite("@register(", "@(lambda *_: lambda score: score)(")
    refuse(f"graded,{path}", path, "it holds 0", "@register")
    two = "\n\n@register('yours', {}, list)\ndef yours(*_): ...\n\n\n@register"
    refuse(f"graded,{my_suite(f'{chr(10)}{chr(10)}@register', two)}", "it holds 2")
    refuse(f"{my_suite()},{my_suite(name='other.py')}", "two", '"mine"')
    refuse("graded,retrival", 'unknown suite "retrival"', 'did you mean "retrieval"?')


def test_a_suite_that_raises_or_lacks_its_data_costs_its_task_alone(
    harness: Harness, my_suite: MySuite, flag: Path, store: Path
) -> None:
    """A missing task is tried again."""
    raises = my_suite("    return Scores(", "    assert task != 'long', 'odd'\n    return Scores(")
    why = f"long: {flag}, line 3: no sentence"
    for path, reason, steps in (
        (my_suite(name="lacking.py"), why, (2002, "mine (2)", "graded (2)")),
        (raises, "long: AssertionError: odd", (5, "mine (2)")),  # graded's are in the store
    ):
        command = ["eval", "tiny-bert", "--suite", f"{path},graded", "--store", store]
        answer = harness(*command)
        check_steps(answer, f"tiny-bert on {path},graded", *steps)
        assert f"missing in mine: {reason}" in answer.out
        *_, row = [row for row in rows(store) if row.suite == "mine" and row.reason]
        assert (row.status, row.reason, set(row.test)) == ("partial", reason, {"short"})
        assert evaluation(store).status == "finished"
        flag.touch()
        assert harness(*command).code == (path == raises)
        again = Store(store).get(row.key)
        assert again is not None
        assert (again.status == "finished") == (path != raises) == ("long" in again.test)


# Bad data of one task: the other tasks are scored


STSB, SICK = "STS/STSBenchmark/sts-test.csv", "SICK/SICK_test_annotated.txt"


def no_score(text: str) -> str:
    """The text of SICK, whose second line has a word in the place of its score."""
    head, line, *rest = text.split("\n")
    return "\n".join([head, "\t".join([*line.split("\t")[:3], "high"]), *rest])


def test_a_damaged_file_is_named_and_the_other_tasks_are_scored(
    harness: Harness, senteval: SentEval, store: Path
) -> None:
    """A trial stops before its training."""
    archive = senteval({STSB: None, SICK: no_score})
    answer = harness("eval", "tiny-bert", "--suite", "sts,graded", "--store", store)
    check_steps(answer, "tiny-bert on sts,graded", 2000, "sts (9)", "graded (2)")
    row = evaluation(store, "sts")
    assert row.status == "partial"
    reason = str(row.reason)
    for part in (
        f"stsb: {archive} has no member {STSB}", f"sickr: {archive}", SICK,
        'line 2: the gold score "high"', f"missing in sts: {reason}",
    ):  # fmt: skip
        assert part in reason or part in answer.out
    assert set(row.test) == {"sts12", "sts13", "sts14", "sts15", "sts16"}
    assert set(row.dev) == {"stsb-dev", "sickr-dev"}
    assert all(np.isfinite([*row.test.values(), *row.details.values()]))
    assert not [name for name in row.details if name.startswith(("stsb/", "sickr/"))]
    assert evaluation(store).status == "finished"
    settings = sets(sentences="graded-sentences", max_steps=2, batch_size=8)
    words = ("run", "simcse", "--encoder", "tiny-bert", *settings, "--store", f"{store}-none")
    with register_optimizer_step_pre_hook(not_here):
        check_sentence(harness(*words), f"{archive} has no member {STSB}")
    assert not Path(f"{store}-none").exists()


def test_all_suites_of_a_call_are_embedded_in_one_pass(
    shown: Shown, senteval: SentEval, store: Path, counted: Any
) -> None:
    """A whole archive has an average of its rounded scores."""
    senteval()
    sizes, texts = counted
    suites = "sts,retrieval,geometry,graded"
    shown("eval", "tiny-bert", "--suite", suites, "--store", store)
    row = evaluation(store, "sts")
    tests = {name: score for name, score in row.test.items() if name != "avg"}
    assert row.test["avg"] == pytest.approx(np.mean([round(score, 2) for score in tests.values()]))
    assert set(row.uncertainty) == {*row.test, "stsb-dev", "sickr-dev"}
    recalls = {f"recall@{count}" for count in (1, 3, 5, 10)}
    assert set(evaluation(store, "retrieval").test) == recalls
    assert -8 <= evaluation(store, "geometry").test["uniformity"] <= 0
    distinct = graded_texts()
    assert set(texts) == distinct, "the archive's sentences are the graded ones"
    assert len(texts) == len(distinct)
    assert sum(sizes) == len({text.lower() for text in distinct})
    assert len({row.evaluation_seconds for row in rows(store)}) == 1


def test_no_archive_at_all(harness: Harness, store: Path) -> None:
    """A suite without data is a mistake when it is alone; beside another one, that is measured."""
    answer = harness("eval", "tiny-bert", "--suite", "retrieval,sts", "--store", store)
    check_sentence(answer, "senteval.tar", "was not found", "set HARNESS_HUB")
    assert not store.exists()
    answer = harness("eval", "tiny-bert", "--suite", "sts,graded", "--store", store)
    check_steps(answer, "tiny-bert on sts,graded", 2000, "graded (2)")
    assert evaluation(store).status == "finished"
    reason = str(evaluation(store, "sts").reason)
    assert reason.startswith("sts12, sts13,")
    assert reason.count("senteval.tar") == 2, "one sentence for all tasks"


@pytest.mark.parametrize(
    ("broken", "reason", "steps"),
    [("return vectors * float('nan')", "graded-dev, graded: the embeddings are not finite",
      (2000,)),
     ("return vectors * 0 + 1", "the embedding is constant", (2000, "graded (2)")),
     ("return vectors[:-1]", "embed() gave the shape", ()),
     ("raise ValueError('odd')", "graded-dev, graded: ValueError: odd", ())],
)  # fmt: skip
def test_a_broken_embedding_is_never_a_score(
    broken: str,
    reason: str,
    steps: Any,
    harness: Harness,
    ran: Any,
    plugin: Plugin,
    flag: Path,
    store: Path,
) -> None:
    """A failed evaluation is tried again."""
    path = plugin(broken)
    trial = ran(path)
    flag.touch()
    command = ["eval", trial.key, *GRADED_EVAL, "--method", path, "--store", store]
    answer = harness(*command)
    check_steps(answer, f"{trial.key} on graded", *steps)
    row = evaluation(store)
    assert (row.status, row.dev, row.test, row.details) == ("failed", {}, {}, {})
    assert reason in str(row.reason)
    assert row.reason in answer.out
    flag.unlink()
    assert harness(*command).code == 0
    check_scores(evaluation(store), trial)


class Counting:
    """A tokenizer of the tokenizers library, which notes the texts that it is given."""

    def __init__(self, backend: Any, texts: list[str]) -> None:
        self.backend, self.texts = backend, texts

    def encode_batch_fast(self, texts: list[str], **options: Any) -> Any:
        self.texts += texts
        return self.backend.encode_batch_fast(texts, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[int], list[str]]]:
    """The sizes of all batches that an encoder gets, and every tokenised text."""
    sizes: list[int] = []
    texts: list[str] = []

    def count(module: nn.Module, given: tuple[Any, ...]) -> None:
        if isinstance(module, Encoder):
            sizes.append(len(given[0].input_ids))

    backend = property(lambda self: Counting(self._tokenizer, texts))
    monkeypatch.setattr(PreTrainedTokenizerFast, "backend_tokenizer", backend)
    with register_module_forward_pre_hook(count):
        yield sizes, texts


def graded_texts() -> set[str]:
    """The distinct sentences of the graded pairs."""
    folder = EMBEDDED / "datasets" / GRADED
    texts = "".join((folder / f"{split}.tsv").read_text("utf-8") for split in ("dev", "test"))
    return {text for line in texts.splitlines() for text in line.split("\t")[1:]}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the embeddings of this test are kept."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "embeddings"


def test_kept_embeddings_serve_later_suites(
    shown: Shown, senteval: SentEval, store: Path, kept: Path, counted: Any, tmp_path: Path
) -> None:
    """A later call embeds what is not kept. Scores are those of a call that keeps nothing."""
    senteval()
    command = ["eval", "tiny-bert", "--suite"]
    sizes, _ = counted
    shown(*command, "graded,geometry", "--store", tmp_path / "other", "--pooling", "mean")
    assert not kept.exists(), "nothing is kept unless it is asked"
    sizes.clear()
    out = shown(*command, "retrieval", "--keep-embeddings", "--store", store)
    [folder] = kept.glob("*/*")
    assert str(folder) in out
    assert {path.suffix for path in (folder / "test").iterdir()} == {".npy", ".parquet", ".json"}
    first = sum(sizes)
    sizes.clear()
    shown(*command, "graded,geometry", "--keep-embeddings", "--store", store)
    distinct = graded_texts()
    assert first + sum(sizes) == len({text.lower() for text in distinct})
    with register_module_forward_pre_hook(not_here):
        shown(*command, "graded,geometry", "--store", tmp_path / "third")
    for name in ("graded", "geometry"):
        for place in (store, tmp_path / "third"):
            check_scores(evaluation(place, name), evaluation(tmp_path / "other", name))
    array = min((folder / "test").glob("*.npy"), key=lambda path: path.stat().st_mtime_ns)
    vectors = np.load(array, mmap_mode="r")
    texts = pq.read_table(array.with_suffix(".parquet"))["text"].to_pylist()
    assert isinstance(vectors, np.memmap)
    assert vectors.dtype == np.float32
    assert len(vectors) == len(texts) == len(set(texts)) == first


def test_kept_vectors_are_those_of_the_same_weights(
    shown: Shown, trials: Trials, store: Path, kept: Path, tmp_path: Path
) -> None:
    """Two stores may have other weights of one trial, such as those of another kind of machine."""
    trial = trials["final"]
    command = ["eval", trial.key, *GRADED_EVAL, "--store"]
    shown(*command, store, "--keep-embeddings")
    other, cold = Store(tmp_path / "other"), Store(tmp_path / "cold")
    state = SavedState.read(Store(store).weights(trial.key))
    for value in state.weights.values():
        if value.is_floating_point():
            value.mul_(-1.5)
    state.write(other.weights(trial.key))
    digest = content_digest(other.weights(trial.key))
    cold.keep(f"{trial.key}.safetensors", other.weights(trial.key))
    for copy in (other, cold):
        copy.write(replace(trial, weights_digest=digest))
    shown(*command, other.folder)
    shutil.rmtree(kept)
    shown(*command, cold.folder)
    check_scores(evaluation(other.folder), evaluation(cold.folder))
    assert evaluation(other.folder).test != evaluation(store).test


def test_dev_vectors_are_kept_apart_where_they_differ(
    evaluated: Shown, ran: Any, plugin: Plugin, store: Path, kept: Path, caplog: Any
) -> None:
    """Embeddings that cannot be kept cost no score."""
    path = plugin()
    other = "\n    def embed_dev(self, batch):\n        return self.embed(batch) ** 3\n"
    path.write_text(path.read_text() + other)
    trial = ran(path)
    options = ["--method", path, "--keep-embeddings"]
    evaluated(trial.key, *options)
    assert sorted(folder.name for folder in (kept / trial.key).glob("*/*")) == ["dev", "test"]
    (store / f"{evaluation(store).key}.parquet").unlink()
    assert "embeddings were kept" in evaluated(trial.key, *options)
    check_scores(evaluation(store), trial)
    (store / f"{evaluation(store).key}.parquet").unlink()
    shutil.rmtree(kept)
    kept.touch()
    evaluated(trial.key, *options)
    check_scores(evaluation(store), trial)
    assert "are not kept" in caplog.text
