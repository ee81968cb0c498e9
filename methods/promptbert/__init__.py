"""PromptBERT: a sentence is the mask's state in a hard prompt, less the prompt's own part.

Jiang et al., EMNLP 2022; promptbert.md; semisupervised.md. On a RoBERTa it is PromptRoBERTa. In
the comments h is the state at the mask, and delta is what the template alone would put there.
"""

from collections.abc import Collection
from typing import ClassVar, Literal

from pydantic import Field

from harness import plugin
from harness.choices import TemplateText
from harness.data.hub import model_shape
from harness.plugin import Stage


class Config(plugin.SemiSupervisedConfig):
    """promptbert.md, section 4; the field defaults are the unsupervised ones.

    They are the same for BERT and RoBERTa.
    """

    learning_rate: float = Field(1e-5, gt=0, description="peak rate of the linear decay")
    batch_size: int = Field(256, ge=2, description="contrastive batch, in sentences or triplets")
    template: TemplateText | None = Field(
        None, description="hard prompt with {s} and [MASK]; default: the paper's"
    )
    second_template: TemplateText | None = Field(
        None, description="of the unsupervised second view"
    )
    denoising: Literal["none", "intended", "released"] = Field(
        "intended", description="released: RoBERTa's bare templates number their positions from 0"
    )
    dev_denoise: bool = Field(True, description="subtract the template's vector on dev, too")
    test_denoise: bool = Field(False, description="subtract it in the final test")
    test_shift: bool = Field(
        True, description="false: one template vector for all lengths (code before 2023-01-14)"
    )
    head: Literal["paper", "tanh", "transform"] = Field(
        "paper",
        description="transform: the masked-LM head's, in the paper of supervised BERT; else tanh",
    )
    final_stop: bool = Field(
        True, description="end a test sentence with a full stop where it has none"
    )
    roberta_prefix_space: bool = Field(
        True,
        description="mark the space before a sentence everywhere; false: in the final test alone",
    )

    published: ClassVar = {
        ("sup", "*"): {
            "learning_rate": 5e-5, "batch_size": 512, "epochs": 3, "test_denoise": True,
        },
    }  # fmt: skip
    released: ClassVar = frozenset({
        "denoising", "dev_denoise", "test_denoise", "test_shift", "final_stop",
        "roberta_prefix_space",
    })  # fmt: skip

    @property
    def unused(self) -> Collection[str]:
        unused = {*super().unused}
        if self.denoising == "none":
            unused |= {"dev_denoise", "test_denoise", "test_shift"}
        if not self.test_denoise:
            unused.add("test_shift")
        if self.setting == "sup":
            unused.add("second_template")
        return unused

    @property
    def head_is_transform(self) -> bool:
        """Whether the head is the transform of the masked-LM head (promptbert.md, section 3)."""
        if self.head == "paper":
            return self.setting == "sup" and model_shape(self.encoder)["model_type"] == "bert"
        return self.head == "transform"


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return config.corpora()

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return config.stages_around(config.stage("contrastive", capturable=True))
