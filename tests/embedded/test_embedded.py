"""The embedded default: the committed files are those that the code writes, and they are sound."""

import csv
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

import harness.embedded
from tools.embedded.grammar import (
    DEV_PAIR_COUNT,
    SENTENCE_COUNT,
    TEST_PAIR_COUNT,
    TRIPLET_COUNT,
    corpus,
)
from tools.embedded.make import (
    CORPUS,
    MODEL,
    SEED,
    VECTORS,
    build_tokenizer,
    pretraining,
    pretraining_losses,
    untrained,
)
from tools.embedded.words import WIDTH, word_vectors

HUB = Path(harness.embedded.__file__).parent / "hub"
GRADED = {"dev.tsv": DEV_PAIR_COUNT, "test.tsv": TEST_PAIR_COUNT}


def sentences() -> list[str]:
    """Read the committed unlabelled sentences."""
    return (HUB / CORPUS / "sentences.txt").read_text(encoding="utf-8").splitlines()


def pairs(name: str) -> list[tuple[float, str, str]]:
    """Read the committed graded pairs of one file: score, first and second sentence."""
    lines = (HUB / CORPUS / name).read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return [(float(score), first, second) for score, first, second in rows]


def triplets() -> list[list[str]]:
    """Read the committed triplets, header included."""
    with (HUB / CORPUS / "triplets.csv").open(encoding="utf-8", newline="") as table:
        return list(csv.reader(table))


def test_the_committed_corpus_is_what_the_grammar_writes() -> None:
    committed = {
        path.name: path.read_bytes() for path in (HUB / CORPUS).iterdir() if path.name != VECTORS
    }
    assert committed == {name: text.encode() for name, text in corpus(SEED).items()}


def parsed(text: str) -> dict[str, np.ndarray]:
    """Parse a file of word vectors: word -> vector."""
    rows = [line.split(" ") for line in text.splitlines()]
    return {word: np.array(numbers, np.float64) for word, *numbers in rows}


@pytest.mark.slow
def test_the_committed_word_vectors_are_those_of_the_corpus() -> None:
    """They are equal up to floating-point differences, which may show in the third decimal."""
    committed = parsed((HUB / CORPUS / VECTORS).read_text(encoding="utf-8"))
    rebuilt = parsed(word_vectors(sentences()))
    assert (
        list(committed)
        == list(rebuilt)
        == sorted({word for line in sentences() for word in line.split()})
    )
    for word, vector in committed.items():
        assert vector.shape == (WIDTH,)
        assert np.abs(vector - rebuilt[word]).max() < 0.0021


def test_words_that_mean_the_same_have_similar_vectors() -> None:
    vectors = parsed((HUB / CORPUS / VECTORS).read_text(encoding="utf-8"))

    def cosine(one: str, two: str) -> float:
        lengths = np.linalg.norm(vectors[one]) * np.linalg.norm(vectors[two])
        return float(vectors[one] @ vectors[two] / lengths)

    for one, same, other in (
        ("chef", "cook", "sailor"),
        ("soup", "broth", "rocket"),
        ("garden", "backyard", "gallery"),
    ):
        assert cosine(one, same) > 0.7 > 0.5 > cosine(one, other)


def test_the_corpus_has_the_planned_sizes() -> None:
    assert len(sentences()) == SENTENCE_COUNT
    assert triplets()[0] == ["sent0", "sent1", "hard_neg"]
    assert len(triplets()) == TRIPLET_COUNT + 1
    assert {name: len(pairs(name)) for name in GRADED} == GRADED


@pytest.mark.parametrize("name", GRADED)
def test_scores_cover_the_range_from_0_to_5(name: str) -> None:
    scores = [score for score, _, _ in pairs(name)]
    assert min(scores) >= 0
    assert max(scores) <= 5
    assert {round(score) for score in scores} == {0, 1, 2, 3, 4, 5}


def test_no_sentence_occurs_twice() -> None:
    graded = [text for name in GRADED for _, *both in pairs(name) for text in both]
    written = [*sentences(), *graded, *(text for row in triplets()[1:] for text in row)]
    assert len(set(written)) == len(written)


@pytest.mark.slow
def test_every_word_is_known_to_the_tokenizer() -> None:
    tokenizer = AutoTokenizer.from_pretrained(HUB / MODEL)
    graded = [text for name in GRADED for _, *both in pairs(name) for text in both]
    texts = [*sentences(), *graded, *(text for row in triplets() for text in row), "Zyx-9 qwerty!"]
    assert all(tokenizer.unk_token_id not in row for row in tokenizer(texts)["input_ids"])


def test_tokenizer_is_a_fast_bert_tokenizer() -> None:
    tokenizer = AutoTokenizer.from_pretrained(HUB / MODEL)
    assert tokenizer.is_fast
    assert tokenizer.convert_tokens_to_ids(["[PAD]", "[UNK]", "[CLS]"]) == [0, 1, 2]
    assert (tokenizer.pad_token, tokenizer.mask_token) == ("[PAD]", "[MASK]")
    pieces = tokenizer.convert_ids_to_tokens(tokenizer("The CHEF", "soup.")["input_ids"])
    assert pieces == ["[CLS]", "the", "chef", "[SEP]", "soup", ".", "[SEP]"]


@pytest.mark.parametrize("loader", [AutoModel, AutoModelForMaskedLM])
def test_model_loads_with_finite_outputs(loader: Any) -> None:
    tokenizer = AutoTokenizer.from_pretrained(HUB / MODEL)
    model = loader.from_pretrained(HUB / MODEL)
    with torch.no_grad():
        outputs = model(**tokenizer(sentences()[:8], padding=True, return_tensors="pt"))
    assert torch.isfinite(outputs[0]).all()


def test_the_weights_are_smaller_than_4_megabytes() -> None:
    assert (HUB / MODEL / "model.safetensors").stat().st_size < 4_000_000


CURVE = [13.5311, 12.1284, 11.2224, 10.7613]
"""The mean loss (nats) of each ten of the first steps with which the committed weights began"""
END = 7.129
"""The mean loss of the last fifty of their 800 steps"""


@pytest.mark.slow
def test_the_training_of_the_committed_model_begins_again() -> None:
    """Each step depends on all before it, so that a change of what is trained changes the curve."""
    tokenizer = build_tokenizer(sentences())
    assert tokenizer.get_vocab() == AutoTokenizer.from_pretrained(HUB / MODEL).get_vocab()
    model = untrained(tokenizer, SEED)
    losses = list(islice(pretraining(model, tokenizer, sentences()), 10 * len(CURVE)))
    means = np.array(losses).reshape(-1, 10).mean(1)
    assert means == pytest.approx(CURVE, abs=0.005)


@torch.no_grad()
def test_the_committed_model_is_where_that_training_ended() -> None:
    tokenizer = AutoTokenizer.from_pretrained(HUB / MODEL)
    model = AutoModelForMaskedLM.from_pretrained(HUB / MODEL).train()  # with dropout, as trained
    torch.manual_seed(0)
    rows = [torch.tensor(row) for row in tokenizer(sentences()[::20])["input_ids"]]
    assert float(sum(pretraining_losses(model, tokenizer, rows))) == pytest.approx(END, abs=0.15)
