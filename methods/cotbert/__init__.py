"""CoT-BERT: a prompt in two steps, whose last mask is read, and a prompt that denies them.

Zhang et al., ICANN 2024 (arXiv 2309.11143); cotbert.md.
"""

from typing import ClassVar, Literal

from pydantic import Field

from harness import plugin
from harness.choices import TemplateText
from harness.data.hub import model_shape
from harness.plugin import Stage

TEMPLATES = {
    "bert": (
        'The sentence of "{s}" means [MASK], so it can be summarized as [MASK].',
        'The sentence : "{s}" means [MASK], so it can be summarized as [MASK].',
        'The sentence : "{s}" does not mean [MASK], so it cannot be summarized as [MASK].',
    ),
    "roberta": (
        "The sentence of ' {s} ' means [MASK] , so it can be summarized as [MASK] .",
        "The sentence : ' {s} ' means [MASK] , so it can be summarized as [MASK] .",
        "The sentence : ' {s} ' does not mean [MASK] , so it cannot be summarized as [MASK] .",
    ),
}
"""Family of encoders -> templates of the first view, the second view and the negative"""


class Config(plugin.TrainingConfig):
    """cotbert.md, section 5. The values are the same for BERT and RoBERTa."""

    setting: Literal["unsup"] = "unsup"
    learning_rate: float = Field(1e-5, gt=0)
    batch_size: int = Field(128, ge=2, description="sentences of a batch")
    accumulation: int = Field(
        2, ge=1, description="batches per step, each with negatives of its own alone; the "
        "released script has one on each of two GPUs",
    )  # fmt: skip
    template: TemplateText | None = Field(
        None, description="of the first view, and at test time; default: the paper's"
    )
    second_template: TemplateText | None = Field(
        None, description="of the second view; default: the paper's"
    )
    negative_template: TemplateText | None = Field(
        None, description="of the hard negative; default: the paper's"
    )
    denoising: Literal["none", "positions", "padding", "released"] = Field(
        "padding",
        description="what stands for the sentence in the template that is subtracted: its "
        "positions alone (PromptBERT's way), or padding that is seen; released: RoBERTa's padding "
        "does not count in its positions",
    )
    contrasts_second: bool = Field(
        True, description="the loss tells the second views from the negatives, too"
    )

    released: ClassVar = frozenset({"denoising"})

    @property
    def templates(self) -> tuple[str, str, str]:
        """The hard prompts of the first view, the second view and the negative."""
        family = "roberta" if "roberta" in model_shape(self.encoder)["model_type"] else "bert"
        first, second, negative = TEMPLATES[family]
        return (
            self.template or first,
            self.second_template or second,
            self.negative_template or negative,
        )


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [config.stage("contrastive")]
