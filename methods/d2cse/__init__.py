"""D2CSE: shared deep prompts on a frozen encoder, trained by two tasks at once.

Lee, arXiv 2304.08991; d2cse.md. One frozen encoder with one table of prompts is the sentence
encoder, which learns contrastively, and the discriminator, which finds replaced tokens of a
sentence given its vector.
"""

from collections.abc import Collection
from typing import ClassVar, Literal

from pydantic import Field

from harness import plugin
from harness.plugin import Artefact, Stage
from harness.plugin.replaced_tokens import ReplacedTokenConfig
from harness.plugin.static_corruption import corruption_artefacts


class Config(ReplacedTokenConfig):
    """Table 7 of the paper; the field defaults are those of unsupervised BERT base."""

    learning_rate: float = Field(
        0.021, gt=0, description="of every trainable tensor but a copied discriminator's"
    )
    batch_size: int = Field(144, ge=2)
    prompt_length: int = Field(16, ge=1, description="prompt positions per layer")
    position_shift: bool = Field(
        True, description="the positions of the text start behind the prompts, as released"
    )
    cls_prompt: bool = Field(
        False, description="train one vector instead of the word embedding of [CLS]"
    )
    discriminator: Literal["shared", "plain", "copy", "unconditional"] = Field(
        "shared",
        description="Table 6: shared (d): encoder and prompts are the sentence encoder's; "
        "plain (a): no prompts; copy (b): a second encoder without prompts, trained in full; "
        "unconditional (c): shared, without sentence vector",
    )
    discriminator_learning_rate: float = Field(
        7e-6, gt=0, description="of a copied discriminator; DiffCSE's rate"
    )
    discriminator_prompts: Literal["same", "fresh"] = Field(
        "same",
        description="dropout of the prompts in the second pass: the first pass's, or drawn anew",
    )
    roberta_cls_prompt_positions: Literal["shifted", "plain"] = Field(
        "shifted", description="of the sentence pass with a [CLS] prompt (d2cse.md, section 1.2)"
    )

    published: ClassVar = {
        ("unsup", "bert-large-uncased"): {"learning_rate": 0.034},
        ("unsup", "roberta-base"): {"learning_rate": 0.044, "batch_size": 128, "cls_prompt": True},
        ("sup", "*"): {
            "learning_rate": 0.055, "batch_size": 256, "epochs": 10, "prompt_length": 12,
            "cls_prompt": True,
        },
        ("sup", "roberta-base"): {"learning_rate": 0.024},
    }  # fmt: skip
    released: ClassVar = frozenset({"position_shift"})

    @property
    def unused(self) -> Collection[str]:
        found = set()
        if not (self.cls_prompt and self.position_shift):
            found.add("roberta_cls_prompt_positions")
        if self.discriminator != "copy":
            found.add("discriminator_learning_rate")
        if not self.discriminator_prompted:
            found.add("discriminator_prompts")
        return found

    @property
    def discriminator_prompted(self) -> bool:
        """Whether the discriminator reads with prompts: (c) and (d) of Table 6."""
        return self.discriminator in ("shared", "unconditional")

    @property
    def discriminator_conditional(self) -> bool:
        """Whether the discriminator is given the sentence vector: all of Table 6 but (c)."""
        return self.discriminator != "unconditional"


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences if config.setting == "unsup" else config.triplets}

    @classmethod
    def models(cls, config: Config) -> list[str]:
        return [config.encoder, config.generator]

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        return corruption_artefacts(config)

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        trained = ["prompts.*", "head.*", "detector.*", *(["cls_vector"] * config.cls_prompt)]
        rates = dict.fromkeys(trained, "learning_rate")
        if config.discriminator == "copy":  # (b) of Table 6
            rates["discriminator.*"] = "discriminator_learning_rate"
        stage = config.stage(
            "prompts",
            trains=rates,
            streams={"contrastive": config.batch_size},
            losses={"contrastive": 1.0, "replaced_tokens": config.replaced_token_weight},  # eq. 3
        )
        return [stage]
