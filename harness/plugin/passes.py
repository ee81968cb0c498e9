"""Arithmetic of a method, as it declares it for plans: passes through encoders, and products.

Nothing here decides a result, so a plugin's folder has it in a file of its own, `passes.py`, which
is no part of a trial's key. A test counts the operations of real steps of the shipped methods.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Generic, Literal, TypeVar

from harness.data.corpora import source
from harness.data.shapes import ROLES
from harness.errors import NotHere
from harness.plugin.config import MethodConfig, TrainingConfig
from harness.plugin.declared import Declared
from harness.plugin.stage import Stage

Config = TypeVar("Config", bound=MethodConfig)
SPECIAL_TOKENS = 2
"""[CLS] and [SEP], which are around a sentence without a template"""


@dataclass(frozen=True)
class Shape:
    """The sizes of a Transformer."""

    layers: int
    hidden: int
    """H: the width of its states"""
    inner: int
    """The width of its feed-forward layers"""
    vocabulary: int
    heads: int = 12
    key_share: float = 1.0
    """The width of keys over H; below 1 where heads share them"""
    gated: bool = False
    """Whether a feed-forward layer has three matrices and not two"""
    selects: bool = True
    """Whether its last layer can work on one position of each row alone"""

    @property
    def layer(self) -> float:
        """Numbers in the matrices of a layer."""
        attention = (2 + 2 * self.key_share) * self.hidden**2
        return attention + (3 if self.gated else 2) * self.hidden * self.inner


@dataclass(frozen=True)
class Pass:
    """Rows of a batch on their way through a Transformer."""

    rows: float = 1
    """Rows for each item of the stream, or for each length that occurs"""
    stream: str = ""
    """The stream whose items they are; "": the first one of the stage"""
    column: int | None = None
    """The text of an item that they have; None: its texts in turn"""
    module: str = "encoder"
    """The attribute of the method; `Stage.trains` says whether its weights train"""
    model: str = ""
    """The name of its pretrained model; "": the encoder of the configuration"""
    backward: bool = True
    """Whether gradients flow back through it, to its weights or to what was put into it"""
    one: bool = False
    """Whether only one position of each row is read, so that the last layer is nearly free"""
    around: float = SPECIAL_TOKENS
    """Tokens around each sentence: those of the template"""
    stretch: float = 1
    """Word pieces of a row over those of its sentence; 0: the bare template"""
    prefix: int = 0
    """Keys and values in front of those of every layer"""
    beside: float = 0
    """Numbers in further matrices beside those of each layer, which train"""
    folds: bool = True
    """Whether the last layer makes no keys and values where `one` position is read"""
    padded: bool = False
    """Whether padding is computed, too"""
    logits: bool = False
    """Whether all of its tokens get logits of all word pieces, as in a generator"""
    each: Literal["item", "length"] = "item"
    """Whether `rows` is for each item, or for each length that occurs in the batch"""


@dataclass(frozen=True)
class Products:
    """Matrices of a head, or others beside a Transformer, which every row or token meets."""

    weights: float
    """The numbers in the matrices"""
    rows: float = 1
    """Rows for each item of the stream"""
    stream: str = ""
    module: str = "head"
    """The attribute of the method, as in `Pass`"""
    tokens: float = 0
    """The share of a row's tokens that meet them; 0: each row meets them once"""
    padded: bool = False
    """Whether padding counts as tokens"""
    backward: bool = True
    inputs: bool = True
    """Whether what meets them has a gradient, too"""


Work = list[Pass | Products]


class Passes(Generic[Config]):
    """Arithmetic of a method under one configuration; here that of a plain trained encoder.

    A method that does more derives a class `Passes` in its `passes.py` and overrides what differs.

    Example:
        class Passes(plugin.Passes[Config]):
            def step(self, stage: Stage) -> Work:
                return [Pass(2, one=True), Products(self.shape.hidden**2, 2)]
    """

    keeps_encoder: bool = False
    """Whether the encoder never changes, and reads each sentence of an evaluation once a trial"""

    def __init__(self, declared: Declared, config: Config, shape: Shape) -> None:
        """shape: that of the encoder."""
        self.declared, self.config, self.shape = declared, config, shape

    def step(self, stage: Stage) -> Work:
        """A batch of each stream of a stage; a step has as many as `Stage.accumulation` says.

        By default all texts of an item pass once, and a single text passes twice.
        """
        if not stage.batches.text:
            return []
        return [Pass(max(2, self.columns(name)), name) for name in stage.streams]

    def embedding(self) -> Work:
        """A sentence of dev or test."""
        return [Pass()]

    def artefact(self, name: str) -> tuple[str, Work]:
        """The corpus behind an artefact, and what is computed for each of its texts."""
        return "", []

    def columns(self, stream: str) -> int:
        """Texts of an item of a stream."""
        return texts_of(self.declared.corpora[stream])

    def trains(self, stage: Stage, module: str) -> bool:
        """Whether the weights of a module train in a stage."""
        low_rank = isinstance(self.config, TrainingConfig) and self.config.lora_rank is not None
        if low_rank and module == "encoder":
            return False
        return any(fnmatchcase(f"{module}.x", pattern) for pattern in stage.trains)


def texts_of(corpus: str) -> int:
    """Texts of an item of a corpus; one where it is not here and its kind is not known."""
    try:
        shape = source(corpus).shape
    except NotHere:
        return 1
    if shape == "neighbours":
        return 2
    return sum(role not in ("label", "score") for role in ROLES[shape])


def template_tokens(text: str | None) -> int:
    """About as many tokens as a hard prompt has around a sentence, [CLS] and [SEP] included.

    None: one of PromptBERT's.
    """
    text = text or 'This sentence of "{s}" means [MASK].'
    parts = re.findall(r"\[MASK\]|\w+|[^\w\s]", text.replace("{s}", ""))
    return len(parts) + SPECIAL_TOKENS
