"""The names that configurations choose from, and what each of them means.

They stand apart from what computes with them, so that a configuration is read without torch.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator

Batching = Literal["shuffled", "grouped"]
"""Items that meet in a batch: any, as in the papers, or those of about one length"""
Pooling = Literal["cls", "mean", "first-last", "first-last-embeddings", "last-two"]
"""The vector of a sentence in a plain encoder (plain_encoders.md, section 1)"""
ReleasedPooling = Literal["pooler", "mask", "prompts", "prompts-pooler"]
"""The vector of a sentence in a checkpoint that has further parts, or reads a sentence in a prompt
(plain_encoders.md, section 3)"""
EncoderPooling = Literal[Pooling, ReleasedPooling]
"""All of them"""
DecoderPooling = Literal["last-token", "mean", "weighted-mean"]
"""The vector of a sentence in a decoder: the state of its last token, or a mean over tokens.

weighted-mean: token k counts k times, from 1 on (SGPT, Muennighoff 2022, section 4)."""
DecoderAttention = Literal["causal", "bidirectional"]
"""causal: each token sees those before it, as the model was pretrained. bidirectional: all."""
HeadName = Literal["tanh", "batchnorm"]
"""The module between an encoder and a contrastive loss: SimCSE's, or DiffCSE's"""
Reduction = Literal["mean_all", "mean_nonpad", "sum"]
"""Reduction of the detection loss: a mean over all positions, one without padding, or a sum"""
Edit = Literal["replace", "insert", "delete"]
"""Edit of a word piece (diffcse.md, section 2)"""
EDITS: tuple[Edit, ...] = get_args(Edit)
Augmentation = Literal[
    "none", "adversarial", "shuffle", "token-cutoff", "feature-cutoff", "dropout"
]
"""A change at the embedding layer that makes a view (consert.md, section 2)"""
RepetitionRange = Literal["code", "paper"]
"""Source of the bound for the number of repeated pieces (ESimCSE)"""
MomentumStart = Literal["pretrained", "random"]
"""Beginning of a momentum encoder: with the encoder's weights, or with random ones"""
Permutation = Literal["reverse", "invertible"]
"""Mixing of the channels of a flow: in a fixed order, or by a learned map"""
LowRankKind = Literal["adapter", "lora"]
"""DiffAug's alternatives to prefixes (diffaug.md, section 6)"""
Combination = Literal["mean", "sum", "first", "second"]
"""Weights of two sets at test time, where a sentence has no view"""
SENTENCE, MASK = "{s}", "[MASK]"
"""Placeholders of the sentence and of the mask token in the text of a template"""


@dataclass(frozen=True)
class Decoding:
    """Pooling and attention of a decoder. They change nothing in a bidirectional encoder."""

    pooling: DecoderPooling = "last-token"
    attention: DecoderAttention = "causal"


@dataclass(frozen=True)
class LowRank:
    """The changes of every linear layer with the weight W: W + alpha / rank * B A.

    A begins with random numbers and B with 0, so that nothing is changed at first (Hu et al. 2021,
    arXiv 2106.09685, section 4.1).
    """

    rank: int
    """Rows of A and columns of B"""
    alpha: float


def complete_template(text: str) -> str:
    """The text of a hard prompt. Raises ValueError unless it has one {s} and a [MASK].

    Where it has several, the last one is read.
    """
    if text.count(SENTENCE) != 1 or MASK not in text:
        raise ValueError(f"a template has one {SENTENCE} and at least one {MASK}")
    return text


TemplateText = Annotated[str, AfterValidator(complete_template)]
"""A hard prompt as configurations hold it, such as `This sentence of "{s}" means [MASK].`"""
