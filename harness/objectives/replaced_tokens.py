"""Replaced-token detection: corruption by a generator, and the loss (diffcse.md, 1.2 to 1.4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional

from harness.data.batching import TextBatch
from harness.encoders.masked_lm import Generator
from harness.method import TrainingConfig
from harness.objectives.masking import Masked

DISTILLED = {"bert": "distilbert-base-uncased", "roberta": "distilroberta-base"}
Reduction = Literal["mean_all", "mean_nonpad", "sum"]


class ReplacedTokenConfig(TrainingConfig):
    """What DiffCSE and D2CSE share."""

    setting: Literal["unsup", "sup"] = "unsup"
    epochs: float = Field(2, gt=0)
    masking_ratio: float = Field(0.3, ge=0, le=1, description="share of the word pieces that is edited")
    replaced_token_weight: float = Field(0.005, ge=0, description="lambda of the papers; it belongs to mean_all")
    rtd_reduction: Reduction = Field(
        "mean_all",
        description="of the detection loss: mean over all positions, or without padding, or a sum",
    )
    generator: str = Field("", description="masked language model; default: the encoder's distilled sibling")
    generator_eval: bool = Field(False, description="no dropout in the generator; the released code has it on")
    replace_only_masked: bool = Field(False, description="keep what the generator changes at positions not masked")
    static_corruption: bool = Field(False, description="corrupt the corpus once, one edit per view, for all trials")

    @model_validator(mode="before")
    @classmethod
    def _choose_generator(cls, given: Any) -> Any:
        """The released siblings are known; any other encoder writes its own corruptions."""
        if not isinstance(given, Mapping) or given.get("generator"):
            return given
        encoder = given.get("encoder", cls.model_fields["encoder"].default)
        family = Path(str(encoder)).name.split("-")[0]
        return {**given, "generator": DISTILLED.get(family, encoder)}


@dataclass(frozen=True)
class Edited:
    """Edited rows, and what is to be found out about each token."""

    batch: TextBatch
    labels: Tensor
    """(rows, length): 1 where the edit shows, 0 elsewhere and at padding"""
    kinds: Tensor
    """(rows,): which of several edits was made (harness.objectives.edits); 0 where there is one"""


def corrupt(generator: Generator, batch: TextBatch, masked: Masked, *, only_masked: bool = False) -> Edited:
    """The generator's best piece at every position, or with `only_masked` at the chosen ones."""
    best = generator(masked.input_ids, batch.attention_mask)
    return compared(batch, torch.where(masked.chosen, best, batch.input_ids) if only_masked else best)


def compared(batch: TextBatch, written: Tensor) -> Edited:
    """Label 1 = replaced: the piece differs from the original; written: (rows, length).

    Position 0 keeps its piece and padding becomes id 0; both are labelled 0. A chosen token that the generator
    restores counts as not replaced, an unchosen one that it changes as replaced.
    """
    written = torch.cat([batch.input_ids[:, :1], written[:, 1:]], dim=1) * batch.attention_mask
    labels = ((written != batch.input_ids) & batch.attention_mask.bool()).long()
    return Edited(batch.replaced(written, batch.attention_mask), labels, torch.zeros_like(labels[:, 0]))


def replaced_token_loss(logits: Tensor, edited: Edited, reduction: Reduction = "mean_all") -> Tensor:
    """Cross entropy over two classes. logits: (rows, length, 2).

    `mean_all`: over all rows and positions, padding (label 0) included, as the released code has it; `mean_nonpad` and
    `sum` (the paper's) run over the real tokens.
    """
    losses = functional.cross_entropy(logits.float().flatten(0, 1), edited.labels.flatten(), reduction="none")
    if reduction == "mean_all":
        return losses.mean()
    real = losses[edited.batch.attention_mask.flatten().bool()]
    return real.sum() if reduction == "sum" else real.mean()
