"""The hyperparameters that replaced-token detection adds to a method (DiffCSE, D2CSE)."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from harness.choices import Reduction
from harness.data.revisions import repository_of
from harness.plugin.config import TrainingConfig
from harness.plugin.passes import Pass, Work
from harness.plugin.stage import Stage

CORRUPTIONS = "corruptions"
"""Name of the artefact of static corruptions"""
DETECTION = "replaced_tokens"
"""Name of the detection loss, whose weight is lambda"""
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
    rtd_texts: Literal["mean", "sum"] = Field(
        "mean",
        description="of an item's two views, or of its three NLI sentences: the mean of their "
        "detection losses, or their sum, which D2CSE prints (lambda counts once for each)",
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

    def deciding(self) -> dict[str, Any]:
        """The mean of the texts is left out: trials from before this choice keep their keys."""
        values = super().deciding()
        if self.rtd_texts == "mean":
            del values["rtd_texts"]
        return values

    def stage(self, name: str, **options: Any) -> Stage:
        """A stage in which lambda counts once for each text, where the texts are summed."""
        losses = options.get("losses") or {}
        if self.rtd_texts == "sum" and DETECTION in losses:
            texts = 3 if self.setting == "sup" else 2
            options["losses"] = {**losses, DETECTION: texts * self.replaced_token_weight}
        return super().stage(name, **options)

    @field_validator("generator")
    @classmethod
    def _choose_generator(cls, generator: str, info: ValidationInfo) -> str:
        """The distilled sibling of BERT or RoBERTa; any other encoder generates for itself."""
        # "roberta-base" and "some/bert-large-uncased" belong to the families "roberta" and "bert".
        encoder = str(info.data.get("encoder", ""))
        family = Path(repository_of(encoder)).name.split("-")[0]
        return generator or DISTILLED.get(family, encoder)


def generator_work(config: ReplacedTokenConfig, rows: float) -> Work:
    """The passes of the generator over edited rows; none where the edits were made before."""
    if config.static_corruption:
        return []
    return [Pass(rows, module="generator", model=config.generator, backward=False, logits=True)]


def generated_rows(config: ReplacedTokenConfig) -> Work:
    """Result of static corruption for each text of the corpus."""
    # In the unsup setting a sentence is edited once for each of its two views.
    rows = 2 if config.setting == "unsup" else 1
    return [Pass(rows, module="generator", model=config.generator, backward=False, logits=True)]
