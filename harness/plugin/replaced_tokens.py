"""The hyperparameters that replaced-token detection adds to a method: what DiffCSE and D2CSE share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from harness.losses.replaced_tokens import Reduction
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.views.edits import Edit, Editor
from harness.views.masking import Masker

DISTILLED = {"bert": "distilbert-base-uncased", "roberta": "distilroberta-base"}


class ReplacedTokenConfig(TrainingConfig):
    """What DiffCSE and D2CSE share."""

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
        False, description="keep what the generator changes at positions not masked"
    )
    static_corruption: bool = Field(
        False, description="corrupt the corpus once, one edit per view, for all trials"
    )

    @model_validator(mode="before")
    @classmethod
    def _choose_generator(cls, given: Any) -> Any:
        """The released siblings are known; any other encoder writes its own corruptions."""
        if not isinstance(given, Mapping) or given.get("generator"):
            return given
        encoder = given.get("encoder", cls.model_fields["encoder"].default)
        family = Path(str(encoder)).name.split("-")[0]
        return {**given, "generator": DISTILLED.get(family, encoder)}


def editor(config: ReplacedTokenConfig, kit: Kit, edits: Sequence[Edit] = ("replace",)) -> Editor:
    """The editor of sentences that a configuration asks for, with its generator."""
    masker = Masker(kit.tokenizer, config.masking_ratio)
    generator = None
    if tuple(edits) != ("delete",):
        generator = kit.generator(config.generator, dropout=not config.generator_eval)
    only_masked = config.replace_only_masked
    return Editor(
        masker, generator, longest=config.max_length, edits=edits, only_masked=only_masked
    )
