"""PromptBERT: a sentence is the mask's state in a hard prompt, less what the prompt alone would put there.

Jiang et al., EMNLP 2022; promptbert.md; semisupervised.md; diffaug.md, section 2. On a RoBERTa it is PromptRoBERTa.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from harness import plugin
from harness.data.hub import model_shape
from harness.data.templates import TemplateText, hard_prompt, published_templates, rewrapped
from harness.data.tokens import Template
from harness.losses.info_nce import info_nce
from harness.losses.nli import PairClassifier, triplet_loss
from harness.modules.denoising import distinct_lengths, sentence_lengths, template_vectors
from harness.modules.heads import TanhHead
from harness.plugin import Kit, Setting, Stage, TextBatch
from harness.plugin.semisupervised import (
    CLASSIFICATION,
    CONTRASTIVE,
    LABELLED,
    SemiSupervisedConfig,
    corpora,
    schedule,
)


class Config(SemiSupervisedConfig):
    """Field defaults: unsupervised, which BERT and RoBERTa share."""

    setting: Setting = "unsup"
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
    test_denoise: bool = Field(False, description="subtract it at the final test")
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
        True, description="mark the space before a training sentence, as in evaluation"
    )

    published: ClassVar = {
        ("sup", "*"): {"learning_rate": 5e-5, "batch_size": 512, "epochs": 3, "test_denoise": True},
    }


class Method(plugin.Method[Config]):
    """Everything trains; the head is in evaluation only where it is supervised."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return corpora(config)

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return schedule(config, config.stage(CONTRASTIVE))

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        first, second = published_templates(config.encoder)
        self.wrapped = hard_prompt(self.tokenizer, config.template or first)
        self.template = (
            self.wrapped if config.roberta_prefix_space else self.wrapped.without_leading_space()
        )
        self.second_template = hard_prompt(self.tokenizer, config.second_template or second)
        self.encoder = kit.encoder()
        paper = (
            config.setting == "sup" and "roberta" not in model_shape(config.encoder)["model_type"]
        )
        self.transforms = paper if config.head == "paper" else config.head == "transform"
        self.head = (
            kit.vocabulary_head().transform
            if self.transforms
            else TanhHead(self.encoder.hidden_size)
        )
        if config.setting == "semisup":
            self.classifier = PairClassifier(self.encoder.hidden_size, classes=2)

    @property
    def training_pieces(self) -> int:
        """The limit is for the bare sentence; the template comes on top."""
        return self.config.max_length

    @property
    def evaluation_template(self) -> Template:
        return self.wrapped

    def test_text(self, text: str) -> str:
        """The released test script's final full stop."""
        complete = not self.config.final_stop or text.endswith((".", "?", '"', "'")) or not text
        return text if complete else f"{text}."

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        found = {}
        if CONTRASTIVE in batch:
            texts = batch[CONTRASTIVE]
            views = (
                self._triplets(texts, denoised=True)
                if self.config.setting == "sup"
                else self._two_views(texts)
            )
            found[CONTRASTIVE] = info_nce(*views, temperature=self.config.temperature)
        if LABELLED in batch:
            found[CLASSIFICATION] = triplet_loss(
                self.classifier, *self._triplets(batch[LABELLED], denoised=False)
            )
        return found

    def embed(self, batch: TextBatch) -> Tensor:
        denoised, supervised = self.config.test_denoise, self.config.setting == "sup"
        return self._vectors(
            batch, self.template, headed=supervised, denoised=denoised, shift=self.config.test_shift
        )

    def embed_dev(self, batch: TextBatch) -> Tensor:
        denoised, supervised = self.config.dev_denoise, self.config.setting == "sup"
        return self._vectors(batch, self.template, headed=supervised, denoised=denoised)

    def _triplets(self, texts: TextBatch, *, denoised: bool) -> tuple[Tensor, ...]:
        """Training vectors of premises, entailments and contradictions, which share the template vectors."""
        return texts.split(self._vectors(texts, self.template, headed=True, denoised=denoised))

    def _two_views(self, texts: TextBatch) -> tuple[Tensor, ...]:
        """Training vectors of the same sentences in two templates."""
        second = rewrapped(texts, self.template, self.second_template, self.tokenizer.pad_token_id)
        passes = ((texts, self.template), (second, self.second_template))
        return tuple(self._vectors(*each, headed=True, denoised=True) for each in passes)

    def _vectors(
        self,
        texts: TextBatch,
        template: Template,
        *,
        headed: bool,
        denoised: bool,
        shift: bool = True,
    ) -> Tensor:
        """The states at the mask, (rows, H), with or without the head and the template's part."""
        states = self.encoder.at(texts, template.mask_positions(texts.attention_mask))
        if denoised and self.config.denoising != "none":
            alone = self._template_vectors(texts, template, shift=shift)
            if (
                headed and self.transforms
            ):  # g(h) - g(template), where a tanh head is for the difference
                transformed: Tensor = self.head(states) - self.head(alone)
                return transformed
            states = states - alone
        return self.head(states) if headed else states

    def _template_vectors(self, texts: TextBatch, template: Template, *, shift: bool) -> Tensor:
        """What the template alone gives at each row's length, (rows, H); rows of one length share it."""
        lengths, row = distinct_lengths(sentence_lengths(texts, template))
        offset = -self.encoder.first_position if self.config.denoising == "released" else 0
        return template_vectors(
            self.encoder, template, lengths, shift=shift, position_offset=offset
        )[row]
