"""The hyperparameters that replaced-token detection adds to a method (DiffCSE, D2CSE)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from harness.data.revisions import repository_of
from harness.losses.replaced_tokens import Reduction
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.views.edits import Edit, Editor
from harness.views.masking import Masker

DISTILLED = {"bert": "distilbert-base-uncased", "roberta": "distilroberta-base"}
"""First part of an encoder's name -> the generator of the papers (diffcse.md, section 1)"""


class ReplacedTokenConfig(TrainingConfig):
    """The fields that DiffCSE and D2CSE share (diffcse.md, sections 1.2 and 1.4)."""

    setting: Literal["unsup", "sup"] = "unsup"
    epochs: float = Field(2, gt=0)
    masking_ratio: float = Field(
        0.3, ge=0, le=1, description="share of the word pieces that is edited"
    )
    replaced_token_weight: float = Field(
        0.005, ge=0, description="lambda of the papers; it belongs to mean_all"
    )
    rtd_reduction: Reduction = Field(
        "mean_all",
        description="of the detection loss: mean over all positions, or without padding, or a sum",
    )
    generator: str = Field(
        "", description="masked language model; default: the encoder's distilled sibling"
    )
    generator_eval: bool = Field(
        False, description="no dropout in the generator; the released code has it on"
    )
    replace_only_masked: bool = Field(
        False, description="keep what the generator writes at masked positions only"
    )
    static_corruption: bool = Field(
        False, description="corrupt the corpus once, one edit per view, for all trials"
    )

    @field_validator("generator")
    @classmethod
    def _choose_generator(cls, given: str, info: ValidationInfo) -> str:
        """The distilled sibling of BERT or RoBERTa; any other encoder generates for itself."""
        # "roberta-base" and "some/bert-large-uncased" belong to the families "roberta" and "bert".
        encoder = str(info.data.get("encoder", ""))
        family = Path(repository_of(encoder)).name.split("-")[0]
        return given or DISTILLED.get(family, encoder)


def editor(config: ReplacedTokenConfig, kit: Kit, edits: Sequence[Edit] = ("replace",)) -> Editor:
    """The editor of sentences that a configuration asks for, with its generator.

    It edits anew on every call. Where deletion is the only edit, no generator is loaded.
    """
    generator = None
    if tuple(edits) != ("delete",):
        generator = kit.generator(config.generator, dropout=not config.generator_eval)
    return Editor(
        Masker(kit.tokenizer, config.masking_ratio),
        generator,
        longest=config.max_length,
        edits=edits,
        only_masked=config.replace_only_masked,
    )
