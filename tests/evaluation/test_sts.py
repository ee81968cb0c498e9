"""STS evaluation: the pairs as files have them, scores by scipy on an own reading, and how sentences are embedded."""

import io
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, rankdata
from transformers import AutoModel, AutoTokenizer

from harness import device
from harness.data.batching import TextBatch
from harness.data.sts_pairs import LOADERS, sick, sts_benchmark
from harness.errors import TrialFailure, UserError
from harness.evaluation.correlation import spearman
from harness.evaluation.embedder import Embedder
from harness.evaluation.suites import suite
from harness.plugin.kit import Kit

KitFor = Callable[..., Kit]
Reading = tuple[list[str], list[str], list[float]]
ARCHIVE = "datasets/princeton-nlp/datasets-for-simcse/senteval.tar"
SIZES = {
    "sts12": 3108, "sts13": 1500, "sts14": 3750, "sts15": 3000, "sts16": 1186, "stsb": 1379, "sickr": 4927,
    "stsb-dev": 1500, "sickr-dev": 500,
}  # fmt: skip
SUBSETS = {
    "sts12": ["MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"],
    "sts13": ["FNWN", "headlines", "OnWN"],
    "sts14": ["deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"],
    "sts15": ["answers-forums", "answers-students", "belief", "headlines", "images"],
    "sts16": ["answer-answer", "headlines", "plagiarism", "postediting", "question-question"],
}


# An own reading of the raw archive


@pytest.fixture(scope="module")
def archive(hub: Path) -> dict[str, list[str]]:
    """Member -> lines, of the raw files."""
    found = {}
    with tarfile.open(hub / ARCHIVE) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member)
            if file is not None and member.name.startswith(("STS/", "SICK/")):
                found[member.name] = file.read().decode("utf-8").removesuffix("\n").split("\n")
    return found


def read(archive: Mapping[str, list[str]], task: str) -> Reading:
    """evaluation_protocol.md, section 1."""
    rows: list[tuple[str, str, str]] = []
    if task in SUBSETS:
        for subset in SUBSETS[task]:
            folder = f"STS/{task.upper()}-en-test/STS"
            texts, scores = (
                archive[f"{folder}.input.{subset}.txt"],
                archive[f"{folder}.gs.{subset}.txt"],
            )
            for text, score in zip(texts, scores, strict=True):
                if score.strip():
                    rows.append((*text.split("\t")[:2], score))  # type: ignore[arg-type]
    elif task.startswith("sickr"):
        for line in archive[
            f"SICK/SICK_{'trial' if task == 'sickr-dev' else 'test_annotated'}.txt"
        ][1:]:
            fields = line.split("\t")
            rows.append((fields[1], fields[2], fields[3]))
    else:
        for line in archive[f"STS/STSBenchmark/sts-{'dev' if task == 'stsb-dev' else 'test'}.csv"]:
            fields = line.split("\t")
            rows.append((fields[5], fields[6], fields[4]))
    first, second = ([" ".join(row[place].split()) for row in rows] for place in (0, 1))
    return first, second, [float(score) for _, _, score in rows]


def rank_correlation(first: np.ndarray, second: np.ndarray, gold: Sequence[float]) -> float:
    """Pearson's correlation of average ranks, x100, in float64."""
    one, two = first.astype(np.float64), second.astype(np.float64)
    cosines = [float(a @ b / np.sqrt((a @ a) * (b @ b))) for a, b in zip(one, two, strict=True)]
    return float(pearsonr(rankdata(cosines), rankdata(gold)).statistic) * 100


class WordVectors:
    """Stands for an Embedder: a text's vector is the sum of random vectors of its words."""

    def __init__(self) -> None:
        self.words: dict[str, np.ndarray] = {}

    def __call__(self, texts: Sequence[str], *, dev: bool = False) -> np.ndarray:
        return np.array([sum(map(self.vector, text.split())) for text in texts], np.float32)

    def vector(self, word: str) -> np.ndarray:
        if word not in self.words:
            self.words[word] = np.random.default_rng(list(word.encode())).normal(size=24)
        return self.words[word]


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(("task", "size"), SIZES.items())
def test_pairs_are_those_of_the_files(archive: dict[str, list[str]], task: str, size: int) -> None:
    pairs = LOADERS[task]()
    first, second, gold = read(archive, task)
    assert len(pairs) == len(first) == size
    assert pairs.first == first
    assert pairs.second == second
    assert pairs.gold.tolist() == gold


@pytest.mark.usefixtures("hub")
def test_training_sets_have_the_published_sizes() -> None:
    assert len(sts_benchmark("train")) == 5749
    assert len(sick("train")) == 4500


def test_scores_of_every_task_and_their_average(archive: dict[str, list[str]]) -> None:
    """One Spearman over all pairs of a year; the average is that of the rounded scores of the seven test sets."""
    vectors = WordVectors()
    found = suite("sts").score_test(cast("Embedder", vectors))
    expected = {}
    for task in SIZES:
        first, second, gold = read(archive, task)
        expected[task] = rank_correlation(vectors(first), vectors(second), gold)
    dev = expected.pop("stsb-dev")
    del expected["sickr-dev"]
    assert set(found.metrics) == {*expected, "avg"}
    for task, score in expected.items():
        assert found.metrics[task] == pytest.approx(score, abs=1e-6), task
        spread = found.uncertainty[task]
        assert spread.low < score < spread.high
    assert found.metrics["avg"] == pytest.approx(
        np.mean([round(score, 2) for score in expected.values()]), abs=1e-9
    )
    assert suite("sts").score_dev(cast("Embedder", vectors)) == pytest.approx(dev, abs=1e-6)
    assert min(expected.values()) > 20, (
        "word overlap is worth something: pairs and scores belong together"
    )


@pytest.mark.slow
def test_a_real_encoder_end_to_end(
    hub: Path, archive: dict[str, list[str]], kit_for: KitFor
) -> None:
    """mini-bert with mean pooling on STS-B dev, against plain transformers on sentences without padding."""
    kit = kit_for("pooling", encoder="mini-bert", pooling="mean")
    embedder = Embedder(kit.build(), kit)
    first, second, gold = read(archive, "stsb-dev")
    vectors = by_transformers(hub / "models/mini-bert", {*first, *second})
    one, two = (np.array([vectors[text] for text in texts]) for texts in (first, second))
    own_one, own_two = embedder(first), embedder(second)
    assert np.abs(own_one - one).max() < 1e-5
    assert np.abs(own_two - two).max() < 1e-5
    score = suite("sts").score_dev(embedder)
    assert score == pytest.approx(rank_correlation(one, two, gold), abs=1e-3), (
        "rounding may swap neighbours"
    )
    assert score == pytest.approx(62.7, abs=0.1), "the mirror's README"


def by_transformers(folder: Path, texts: set[str]) -> dict[str, np.ndarray]:
    """Mean pooling by plain calls; only sentences of one length meet in a batch."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    lengths: dict[int, list[str]] = {}
    for text in sorted(texts):
        lengths.setdefault(len(tokenizer(text)["input_ids"]), []).append(text)
    vectors = {}
    with torch.inference_mode():
        for group in lengths.values():
            for start in range(0, len(group), 32):
                part = group[start : start + 32]
                states = model(**tokenizer(part, return_tensors="pt")).last_hidden_state
                vectors |= dict(zip(part, states.mean(dim=1).numpy(), strict=True))
    return vectors


# The score


def test_spearman_against_ranks_with_ties() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, 300, 6)).astype(np.float32)
    gold = generator.integers(0, 6, 300).astype(float)
    assert spearman(first, second, gold) == pytest.approx(
        rank_correlation(first, second, gold.tolist()), abs=1e-9
    )
    assert spearman(first * 1000, second * 1e-3, gold) == pytest.approx(
        spearman(first, second, gold), abs=1e-6
    )


def test_cosines_are_computed_in_float64() -> None:
    """Pairs whose cosines differ by 1e-9 keep their order."""
    angles = 1.0 + np.arange(50) * 1e-9
    second = np.stack([np.cos(angles), np.sin(angles)], axis=1) * np.random.default_rng(0).uniform(
        0.5, 5, (50, 1)
    )
    first = np.tile([1.0, 0.0], (50, 1))
    assert spearman(first, second, -angles) == pytest.approx(100)
    # a float32 embedding: lengths must not be rounded to float32 before they divide
    generator = np.random.default_rng(1)
    one = generator.normal(size=(2000, 8)).astype(np.float32)
    two = one + (generator.normal(size=one.shape) * 1e-3).astype(np.float32)
    gold = generator.normal(size=2000)
    assert spearman(one, two, gold) == pytest.approx(
        rank_correlation(one, two, gold.tolist()), abs=1e-6
    )


def test_perfect_order_is_100_and_its_reverse_minus_100() -> None:
    angles = np.linspace(0.1, 1.5, 20)
    first, second = np.tile([1.0, 0.0], (20, 1)), np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert spearman(first, second, -angles) == pytest.approx(100)
    assert spearman(first, second, angles) == pytest.approx(-100)


def test_a_zero_vector_has_cosine_zero() -> None:
    first = np.array([[1.0, 0], [1, 0], [1, 0]])
    second = np.array([[1.0, 0], [0, 0], [-1, 0]])
    assert spearman(first, second, np.array([3.0, 2, 1])) == pytest.approx(100)


# What a broken encoder is told


def with_embedding(kit_for: KitFor, embed: Callable[[TextBatch], torch.Tensor]) -> Embedder:
    kit = kit_for("pooling", encoder="tiny-bert", suite="graded")
    method = kit.build()
    method.embed = embed  # type: ignore[method-assign]
    return Embedder(method, kit)


@pytest.mark.parametrize("value", [1.0, 0.1, 0.0])
def test_constant_embedding_fails_the_trial(kit_for: KitFor, value: float) -> None:
    embedder = with_embedding(kit_for, lambda batch: torch.full((len(batch.input_ids), 128), value))
    with pytest.raises(TrialFailure, match="constant"):
        suite("graded").score_dev(embedder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_embedding_that_is_not_finite_fails_the_trial(kit_for: KitFor, value: float) -> None:
    def embed(batch: TextBatch) -> torch.Tensor:
        vectors = torch.randn(len(batch.input_ids), 8)
        vectors[0, 3] = value
        return vectors

    embedder = with_embedding(kit_for, embed)
    with pytest.raises(TrialFailure, match="not finite"):
        suite("graded").score_test(embedder)


# How sentences are embedded


class Rows:
    """Counts what a method is asked to embed."""

    def __init__(self, kit: Kit) -> None:
        self.method = kit.build()
        self.batches: list[TextBatch] = []
        self.training: list[bool] = []
        embed = self.method.embed

        def counted(batch: TextBatch) -> torch.Tensor:
            self.batches.append(batch)
            self.training.append(self.method.training)
            return embed(batch)

        self.method.embed = counted  # type: ignore[method-assign]
        self.embedder = Embedder(self.method, kit)


TEXTS = [
    "the cat sees the dog",
    "a red bird",
    "the cat sees the dog",
    "the",
    "a red bird",
    "the old farmer paints",
] * 3


def test_each_distinct_sentence_is_encoded_once(kit_for: KitFor) -> None:
    rows = Rows(kit_for("pooling", pooling="mean"))
    vectors = rows.embedder(TEXTS)
    assert sum(len(batch.input_ids) for batch in rows.batches) == 4
    assert vectors.shape == (18, 32)
    assert vectors.dtype == np.float32
    for one, text in zip(vectors, TEXTS, strict=True):
        assert np.array_equal(one, vectors[TEXTS.index(text)])


def test_the_graded_suite_is_embedded_in_one_pass(kit_for: KitFor) -> None:
    rows = Rows(kit_for("pooling", encoder="tiny-bert"))
    suite("graded").score_test(rows.embedder)
    pairs = LOADERS["graded"]()
    assert sum(len(batch.input_ids) for batch in rows.batches) == len({*pairs.first, *pairs.second})


def test_order_and_batches_do_not_matter(kit_for: KitFor, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = kit_for("pooling", encoder="tiny-bert", pooling="mean")
    pairs = LOADERS["graded-dev"]()
    whole = Embedder(kit.build(), kit)
    order = np.random.default_rng(0).permutation(len(pairs))
    texts = [*pairs.first, *pairs.second]
    shuffled = [pairs.second[index] for index in order] + [pairs.first[index] for index in order]
    expected = dict(zip(texts, whole(texts), strict=True))
    score = spearman(whole(pairs.first), whole(pairs.second), pairs.gold)
    for budget in (4096, 100, 1):
        monkeypatch.setitem(device.TOKENS_PER_BATCH, "cpu", budget)
        rows = Rows(kit)
        found = rows.embedder(shuffled)
        assert (
            max(
                np.abs(one - expected[text]).max()
                for one, text in zip(found, shuffled, strict=True)
            )
            < 1e-5
        )
        second, first = found[: len(order)], found[len(order) :]
        assert spearman(first, second, pairs.gold[order]) == pytest.approx(score, abs=1e-3)
        assert max(batch.input_ids.numel() for batch in rows.batches) <= max(budget, 64)
    assert len(rows.batches) == len({*texts}), "a budget of one token: one sentence a batch"


def test_vectors_are_those_of_the_sentence_alone(kit_for: KitFor) -> None:
    rows = Rows(kit_for("pooling", pooling="cls"))
    found = rows.embedder(["a red bird", "the old farmer paints the house", "the"])
    tokenizer, model = rows.embedder.kit.tokenizer, rows.method.encoder.model.eval()
    for vector, text in zip(
        found, ["a red bird", "the old farmer paints the house", "the"], strict=True
    ):
        state = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, 0]
        assert np.abs(vector - state.detach().numpy()).max() < 1e-5


def test_no_truncation_but_where_the_positions_end(kit_for: KitFor) -> None:
    """The training length (32) does not cut test sentences; the tiny model has 40 positions."""
    rows = Rows(kit_for("d2cse", prompt_length=3))
    rows.embedder(["cat " * 34, "cat " * 100])
    lengths = sorted(
        length for batch in rows.batches for length in batch.attention_mask.sum(dim=1).tolist()
    )
    assert lengths == [36, 37]


def test_dropout_is_off_and_training_goes_on_afterwards(kit_for: KitFor) -> None:
    rows = Rows(kit_for("simcse"))
    rows.method.train()
    one, two = rows.embedder(TEXTS), rows.embedder(TEXTS)
    assert np.array_equal(one, two)
    assert rows.training == [False] * len(rows.training)
    assert rows.method.training
    rows.method.eval()
    rows.embedder(TEXTS)
    assert not rows.method.training


def test_embedding_after_an_update_is_new(kit_for: KitFor) -> None:
    """Word pieces may be kept, vectors may not."""
    rows = Rows(kit_for("simcse"))
    before = rows.embedder(TEXTS)
    with torch.no_grad():
        rows.method.encoder.model.encoder.layer[1].output.dense.weight.mul_(2)
    assert np.abs(rows.embedder(TEXTS) - before).max() > 0.01


# What the user is told about a bad archive


def make_archive(folder: Path, members: Mapping[str, str], prefix: str = "") -> None:
    path = folder / ARCHIVE
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w") as tar:
        for name, text in members.items():
            content = text.encode()
            entry = tarfile.TarInfo(prefix + name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def year(**changed: str) -> dict[str, str]:
    """STS13 with two pairs a subset."""
    members = {}
    for subset in SUBSETS["sts13"]:
        members[f"STS/STS13-en-test/STS.input.{subset}.txt"] = (
            f"{subset} one\ttwo  words \n{subset} three\tfour\n"
        )
        members[f"STS/STS13-en-test/STS.gs.{subset}.txt"] = "1.5\n4\n"
    return members | {f"STS/STS13-en-test/STS.{name}.txt": text for name, text in changed.items()}


@pytest.fixture
def fake_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("prefix", ["", "downstream/", "SentEval/data/downstream/"])
def test_archive_may_have_folders_around(fake_hub: Path, prefix: str) -> None:
    make_archive(fake_hub, year(), prefix)
    pairs = LOADERS["sts13"]()
    assert pairs.first == [
        "FNWN one",
        "FNWN three",
        "headlines one",
        "headlines three",
        "OnWN one",
        "OnWN three",
    ]
    assert pairs.second == ["two words", "four"] * 3
    assert pairs.gold.tolist() == [1.5, 4] * 3


def test_pairs_without_gold_score_are_dropped(fake_hub: Path) -> None:
    make_archive(
        fake_hub,
        year(
            **{"gs.headlines": "\n2.0\n", "input.OnWN": "a\tb\r\nc\td\r\n", "gs.OnWN": "1\r\n \r\n"}
        ),
    )
    pairs = LOADERS["sts13"]()
    assert pairs.first == ["FNWN one", "FNWN three", "headlines three", "a"]
    assert pairs.gold.tolist() == [1.5, 4, 2, 1]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"input.headlines": "a\tb\nno tab here\n"},
            r"STS\.input\.headlines\.txt, line 2: 2 tab-separated fields",
        ),
        (
            {"input.headlines": "a\tb\tc\nd\te\n"},
            r"STS\.input\.headlines\.txt, line 1: 2 .* expected, 3 found",
        ),
        (
            {"gs.OnWN": "1.5\nhigh\n"},
            r'STS\.gs\.OnWN\.txt, line 2: the gold score "high" is no number',
        ),
        ({"gs.OnWN": "nan\n1\n"}, r'STS\.gs\.OnWN\.txt, line 1: the gold score "nan" is no number'),
        ({"gs.FNWN": "1.5\n"}, r"FNWN has 2 pairs and 1 gold scores"),
    ],
)
def test_malformed_year_is_named_with_its_line(
    fake_hub: Path, changed: dict[str, str], told: str
) -> None:
    make_archive(fake_hub, year(**changed))
    with pytest.raises(UserError, match=r"senteval\.tar.*" + told):
        LOADERS["sts13"]()


def test_malformed_tables_are_named_with_their_line(fake_hub: Path) -> None:
    good = "genre\tfile\tyear\t0001\t2.5\tone\ttwo\textra\n"
    header, row = (
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tjudgment\n",
        "1\ta\tb\t4.5\tNEUTRAL\n",
    )
    make_archive(
        fake_hub,
        {
            "STS/STSBenchmark/sts-dev.csv": good * 2 + "genre\tfile\tyear\t0001\t2.5\tone\n" + good,
            "STS/STSBenchmark/sts-test.csv": good + good.replace("2.5", "-"),
            "SICK/SICK_test_annotated.txt": header + row + "2\ta\tb\n",
        },
    )
    with pytest.raises(
        UserError, match=r"sts-dev\.csv, line 3: 7 tab-separated fields were expected, 6 found"
    ):
        LOADERS["stsb-dev"]()
    with pytest.raises(UserError, match=r'sts-test\.csv, line 2: the gold score "-" is no number'):
        LOADERS["stsb"]()
    with pytest.raises(
        UserError, match=r"SICK_test_annotated\.txt, line 3: 4 tab-separated fields"
    ):
        LOADERS["sickr"]()


def test_missing_member_and_broken_archive(fake_hub: Path) -> None:
    make_archive(fake_hub, year())
    with pytest.raises(
        UserError, match=r"senteval\.tar has no member STS/STSBenchmark/sts-dev\.csv"
    ):
        LOADERS["stsb-dev"]()
    (fake_hub / ARCHIVE).write_bytes(b"this is no archive")
    with pytest.raises(UserError, match=r"senteval\.tar.*cannot be read"):
        LOADERS["sts13"]()


def test_unknown_suite_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r'unknown suite "grade"; did you mean "graded"\?'):
        suite("grade")


def test_graded_suite_against_its_file(kit_for: KitFor) -> None:
    from harness.data.hub import EMBEDDED

    kit = kit_for("pooling", encoder="tiny-bert")
    embedder = Embedder(kit.build(), kit)
    expected: dict[str, Any] = {}
    for split in ("dev", "test"):
        text = (EMBEDDED / "datasets/harness/graded-sentences" / f"{split}.tsv").read_text()
        rows = [line.split("\t") for line in text.splitlines()]
        first, second = (embedder([row[place] for row in rows]) for place in (1, 2))
        expected[split] = rank_correlation(first, second, [float(row[0]) for row in rows])
    assert suite("graded").score_dev(embedder) == pytest.approx(expected["dev"], abs=1e-3)
    assert suite("graded").score_test(embedder).metrics == {
        "graded": pytest.approx(expected["test"], abs=1e-3)
    }
