"""Floating-point operations of a batch, from what a method declares (harness.plugin.passes).

A product of an (a, b) and a (b, c) matrix is 2 a b c operations; all else is not counted. A test
compares the numbers with those that torch counts in real steps.
"""

import functools
import itertools
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.data.corpora import at_hand, source
from harness.data.hub import model_shape
from harness.data.revisions import repository_of
from harness.errors import NotHere
from harness.files import Stamp
from harness.plugin.config import TrainingConfig
from harness.plugin.declared import Declared
from harness.plugin.engine_config import EngineConfig
from harness.plugin.passes import SPECIAL_TOKENS, Pass, Passes, Products, Shape
from harness.plugin.stage import Stage

BASE, LARGE = Shape(12, 768, 3072, 30522, 12), Shape(24, 1024, 4096, 30522, 16)
ROBERTA = 50265
"""Word pieces of RoBERTa"""
PUBLISHED_SHAPES = {
    "bert-base-uncased": BASE,
    "bert-large-uncased": LARGE,
    "roberta-base": Shape(12, 768, 3072, ROBERTA, 12),
    "roberta-large": Shape(24, 1024, 4096, ROBERTA, 16),
    "distilbert-base-uncased": Shape(6, 768, 3072, 30522, 12),
    "distilroberta-base": Shape(6, 768, 3072, ROBERTA, 12),
    "sentence-transformers/bert-base-nli-mean-tokens": BASE,
    "johngiorgi/declutr-base": Shape(12, 768, 3072, ROBERTA, 12),
    "sentence-transformers/bert-large-nli-mean-tokens": LARGE,
    "princeton-nlp/unsup-simcse-bert-large-uncased": LARGE,
    "voidism/diffcse-bert-base-uncased-sts": BASE,
    "sentence-transformers/all-MiniLM-L6-v2": Shape(6, 384, 1536, 30522, 12),
    "mistralai/Mistral-7B-v0.1": Shape(32, 4096, 14336, 32000, 32, 0.25, gated=True),
    "huggyllama/llama-7b": Shape(32, 4096, 11008, 32000, 32, gated=True),
    "Qwen/Qwen2.5-0.5B": Shape(24, 896, 4864, 151936, 14, 2 / 14, gated=True),
}
"""Model of the papers -> its sizes, for plans on machines that do not have it"""
SIZES = {
    "layers": ("num_hidden_layers", "n_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "dim", "n_embd", "d_model"),
    "inner": ("intermediate_size", "hidden_dim", "n_inner", "d_ff"),
    "heads": ("num_attention_heads", "n_heads", "n_head", "num_heads"),
}
"""Size -> its names in the families"""
PIECES = {"sentences": (20.8,), "triplets": (16.1, 7.9, 8.5), "pairs": (16.1, 7.9)}
"""Shape of a corpus -> mean word pieces of each column, as measured on the first lines of Wiki1M
and on SNLI, for corpora that are not here"""
SPREAD = (0.25, 0.45, 0.6, 0.75, 0.88, 1.0, 1.15, 1.35, 1.6, 1.97)
"""Lengths of such a corpus over their mean, each as frequent as the others"""
PIECES_OF_A_WORD = 1.07
"""Word pieces over words and punctuation marks, measured on both (1.11 and 1.03)"""
SAMPLE = 500
"""Items of a corpus whose lengths are looked at"""


@dataclass(frozen=True)
class Lengths:
    """Word pieces of the texts in a batch, as they are cut, without a template."""

    means: tuple[float, ...]
    """The mean of each column"""
    squares: tuple[float, ...]
    """The mean square of each column"""
    longest: float
    """The most pieces of a text in a batch"""
    distinct: float
    """Different lengths in a batch"""

    def of(self, column: int | None) -> tuple[float, float]:
        """The mean and the mean square of a column; None: of all."""
        if column is not None:
            return self.means[column % len(self.means)], self.squares[column % len(self.means)]
        return sum(self.means) / len(self.means), sum(self.squares) / len(self.squares)


def lengths_of(columns: Sequence[Sequence[float]]) -> Lengths:
    """The lengths of texts that are given by column."""
    every = list(itertools.chain.from_iterable(columns))
    return Lengths(
        tuple(sum(column) / len(column) for column in columns),
        tuple(sum(n * n for n in column) / len(column) for column in columns),
        max(every),
        len({round(n) for n in every}),
    )


@functools.cache
def shape_of(model: str) -> Shape:
    """The sizes of a model. Raises NotHere when it is not here and its sizes are not published.

    Raises KeyError for a model whose configuration names its sizes in another way.
    """
    try:
        settings = model_shape(model, download=False)
    except NotHere:
        published = PUBLISHED_SHAPES.get(repository_of(model)) or _small_bert(model)
        if published is None:
            raise
        return published
    sizes = {
        size: next((int(settings[name]) for name in names if settings.get(name)), None)
        for size, names in SIZES.items()
    }
    if sizes["layers"] is None or sizes["hidden"] is None:
        raise KeyError(model)
    heads = sizes["heads"] or 1
    gated = "silu" in str(settings.get("hidden_act", "")) or "gated" in str(settings)
    return Shape(
        layers=sizes["layers"],
        hidden=sizes["hidden"],
        inner=sizes["inner"] or 4 * sizes["hidden"],
        vocabulary=int(settings.get("vocab_size", 0)),
        heads=heads,
        key_share=int(settings.get("num_key_value_heads") or heads) / heads,
        gated=gated,
        selects=settings.get("model_type") in ("bert", "camembert", "electra", "roberta",
                                            "xlm-roberta", "data2vec-text", "ernie"),
    )  # fmt: skip


def _small_bert(model: str) -> Shape | None:
    """The sizes of one of Google's small BERTs, whose names have them (L-4_H-256_A-4)."""
    sizes = re.search(r"bert_uncased_L-(\d+)_H-(\d+)_A-(\d+)", model)
    if sizes is None:
        return None
    layers, hidden, heads = map(int, sizes.groups())
    return Shape(layers, hidden, 4 * hidden, BASE.vocabulary, heads)


def passes_of(declared: Declared) -> Passes[Any]:
    """The passes of a method. Raises NotHere and KeyError as `shape_of`."""
    shape = shape_of(declared.config.encoder) if declared.models else Shape(0, 1, 0, 0)
    passes: Passes[Any] = declared.plugin.passes(declared, declared.config, shape)
    return passes


def stage_lengths(declared: Declared, stage: Stage) -> dict[str, Lengths]:
    """Stream -> the lengths of its texts, from a sample of its corpus, or as published."""
    config = declared.config
    limit = config.max_length - SPECIAL_TOKENS if isinstance(config, TrainingConfig) else 512
    lengths = {}
    for stream, items in stage.streams.items():
        columns = corpus_lengths(declared.corpora[stream])
        means, squares = zip(*(_means(column, limit) for column in columns), strict=True)
        longest = min(limit, 2 * max(means) + 4)
        lengths[stream] = Lengths(means, squares, longest, min(items * len(columns), longest) * 0.9)
    return lengths


@functools.cache  # a plan asks for every configuration
def _means(column: tuple[float, ...], limit: int) -> tuple[float, float]:
    """The mean of the lengths, each cut to a limit, and the mean of their squares."""
    cut = [min(pieces, limit) for pieces in column]
    return sum(cut) / len(cut), sum(pieces * pieces for pieces in cut) / len(cut)


def corpus_lengths(corpus: str) -> list[tuple[float, ...]]:
    """About the word pieces of some texts of each column of a corpus, uncut."""
    if (found := at_hand(corpus)) is not None:
        return _sampled(corpus, *found)
    try:
        kind = source(corpus).shape
    except NotHere:
        kind = "sentences"
    means = PIECES.get(kind, PIECES["pairs"])
    return [tuple(share * mean for share in SPREAD) for mean in means]


@functools.cache
def _sampled(corpus: str, *files: Stamp) -> list[tuple[float, ...]]:
    read = source(corpus).corpus([Path(file.path) for file in files])
    numbers = range(len(read))
    # In their order, because a large corpus lies on disk and is read in parts.
    chosen = sorted(random.Random(0).sample(numbers, min(SAMPLE, len(numbers))))
    return [
        tuple(PIECES_OF_A_WORD * len(re.findall(r"\w+|[^\w\s]", texts[n])) for n in chosen)
        for texts in read.columns
    ]


def batch_operations(passes: Passes[Any], stage: Stage, lengths: Mapping[str, Lengths]) -> float:
    """Operations of one batch of every stream, forward and backward.

    lengths: of each stream, as `stage_lengths` estimates them or as a batch has them.
    """
    first = next(iter(stage.streams))
    operations = 0.0
    for part in passes.step(stage):
        stream = part.stream or first
        items = stage.streams[stream]
        count = passes.declared.items(stream)
        operations += _operations(passes, part, min(items, count or items), lengths[stream], stage)
    return operations


def layers_of(passes: Passes[Any], stage: Stage) -> float:
    """The layers through which a batch goes, one pass after the other."""
    return sum(
        (shape_of(part.model) if part.model else passes.shape).layers
        for part in passes.step(stage)
        if isinstance(part, Pass)
    )


def text_operations(
    passes: Passes[Any], work: Iterable[Pass | Products], texts: float, lengths: Lengths
) -> float:
    """Operations of forward passes of so many texts."""
    return sum(_operations(passes, part, texts, lengths, None) for part in work)


def _operations(
    passes: Passes[Any], part: Pass | Products, items: float, lengths: Lengths, stage: Stage | None
) -> float:
    """Operations of a part of a step; without a stage, forward only."""
    trains = stage is not None and passes.trains(stage, part.module)
    if isinstance(part, Products):
        mean, _ = lengths.of(None)
        tokens = lengths.longest if part.padded else mean
        met = part.tokens * (tokens + SPECIAL_TOKENS) if part.tokens else 1
        times = 1
        if stage is not None and part.backward:
            times += int(trains or not part.module) + int(part.inputs)
        return 2 * part.weights * part.rows * items * met * times
    shape = shape_of(part.model) if part.model else passes.shape
    rows = part.rows * (items if part.each == "item" else lengths.distinct)
    forward, attention = _forward(part, shape, rows, lengths, passes)
    if stage is None or not part.backward:
        return forward
    config = passes.config
    # Activations that are not kept are computed a second time.
    chunked = isinstance(config, EngineConfig) and config.chunk_size is not None
    once = forward * (2 if chunked or _checkpoints(passes) else 1)
    if trains:
        return once + 2 * forward
    # Only activations have gradients, and attention has two products for each of its own.
    trained = 2 * _beside(part, shape, passes) * shape.layers * rows * _tokens(part, lengths)
    first = 6 * shape.hidden**2 * rows * _tokens(part, lengths) if part.prefix else 0.0
    return once + forward + trained + attention - first


def _beside(part: Pass, shape: Shape, passes: Passes[Any]) -> float:
    """Numbers in what trains beside the matrices of a layer."""
    return part.beside + _rank(part, passes) * (10 * shape.hidden + 2 * shape.inner)


def _rank(part: Pass, passes: Passes[Any]) -> int:
    """The rank of the changes that train in the place of the encoder; 0: there are none."""
    config = passes.config
    if part.module != "encoder" or not isinstance(config, TrainingConfig):
        return 0
    return config.lora_rank or 0


def _checkpoints(passes: Passes[Any]) -> bool:
    config = passes.config
    return isinstance(config, TrainingConfig) and config.gradient_checkpointing


def _tokens(part: Pass, lengths: Lengths) -> float:
    """Mean tokens of a row."""
    if part.padded:
        return lengths.longest + part.around
    return part.stretch * lengths.of(part.column)[0] + part.around


def _forward(
    part: Pass, shape: Shape, rows: float, lengths: Lengths, passes: Passes[Any]
) -> tuple[float, float]:
    """Operations of a pass of so many rows, and those in its attention."""
    mean, square = lengths.of(part.column)
    tokens = _tokens(part, lengths)
    squares = tokens**2
    if not part.padded:
        squares = part.stretch**2 * (square - mean**2) + tokens**2
    layer = 2 * (shape.layer + _beside(part, shape, passes)) * rows * tokens
    attention = 4 * shape.hidden * rows * (squares + tokens * part.prefix)
    forward, attended = shape.layers * (layer + attention), shape.layers * attention
    if part.one and shape.selects and not _checkpoints(passes):
        last = 2 * shape.layer * rows
        attention_of_one = 4 * shape.hidden * rows * (shape.heads * tokens + part.prefix)
        if _rank(part, passes) or not part.folds:
            last += 4 * shape.hidden**2 * rows * tokens  # keys and values are made
            attention_of_one = 4 * shape.hidden * rows * tokens
        forward = (shape.layers - 1) * (layer + attention) + last + attention_of_one
        attended = (shape.layers - 1) * attention + attention_of_one
    if part.logits:
        forward += 2 * shape.hidden * (shape.hidden + shape.vocabulary) * rows * tokens
    return forward, attended
