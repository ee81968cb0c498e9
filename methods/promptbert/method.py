"""The computations of PromptBERT; `__init__.py` declares the method."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from harness import plugin
from harness.data.templates import (
    first_prompt,
    hard_prompt,
    published_templates,
    rewrapped,
)
from harness.data.tokens import Template
from harness.losses.info_nce import info_nce
from harness.losses.nli import PairClassifier, triplet_loss
from harness.modules.denoising import distinct_lengths, template_vectors
from harness.modules.heads import TanhHead
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration


class Method(Declaration, plugin.Method[Config]):
    """Everything trains. The head is part of the embedding in the sup setting only."""

    @classmethod
    def training_template(cls, config: Config, tokenizer: Any) -> Template:
        wrapped = first_prompt(tokenizer, config.encoder, config.template)
        return wrapped if config.roberta_prefix_space else wrapped.without_leading_space()

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        marked = first_prompt(self.tokenizer, config.encoder, config.template)
        self.test_space = " " if marked.leading_space and not self.template.leading_space else ""
        _, second = published_templates(config.encoder)  # promptbert.md, section 1
        self.second_template = hard_prompt(self.tokenizer, config.second_template or second)
        self.encoder = kit.encoder()
        if config.denoising != "none":  # what stands behind a sentence keeps its position
            self.encoder.family.need_positions("denoising sets", "choose denoising=none")
        width = self.encoder.hidden_size
        self.transforms = config.head_is_transform  # promptbert.md, section 3
        self.head = kit.vocabulary_head().transform if self.transforms else TanhHead(width)
        if config.setting == "semisup":
            self.classifier = PairClassifier(width, classes=2)

    @property
    def training_pieces(self) -> int:
        """The limit is for the bare sentence; the template comes on top."""
        return self.config.max_length

    def test_text(self, text: str) -> str:
        """As the released test script reads a sentence, which adds what training and dev do not.

        It ends a sentence with a full stop (promptbert.md, section 3), and it marks the space
        before the sentence (section 1).
        """
        complete = not self.config.final_stop or text.endswith((".", "?", '"', "'")) or not text
        return f"{self.test_space}{text}{'' if complete else '.'}"

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        found = {}
        if "contrastive" in batch:
            texts = batch["contrastive"]
            supervised = self.config.setting == "sup"
            views = self._columns(texts) if supervised else self._two_templates(texts)
            found["contrastive"] = info_nce(*views, temperature=self.config.temperature)
        if "labelled" in batch:  # semisupervised.md, section 2
            vectors = self._columns(batch["labelled"], denoised=False)
            found["classification"] = triplet_loss(self.classifier, *vectors)
        return found

    def embed(self, batch: TextBatch) -> Tensor:
        headed, denoised = self.config.setting == "sup", self.config.test_denoise
        shift = self.config.test_shift
        return self._vectors(batch, self.template, headed=headed, denoised=denoised, shift=shift)

    def embed_dev(self, batch: TextBatch) -> Tensor:
        """Dev and test differ as in the released code (promptbert.md, section 3)."""
        headed, denoised = self.config.setting == "sup", self.config.dev_denoise
        return self._vectors(batch, self.template, headed=headed, denoised=denoised)

    def _columns(self, texts: TextBatch, *, denoised: bool = True) -> tuple[Tensor, ...]:
        """Training vectors of each text of an item, (items, H); all share one template."""
        return texts.split(self._vectors(texts, self.template, headed=True, denoised=denoised))

    def _two_templates(self, texts: TextBatch) -> tuple[Tensor, ...]:
        """Training vectors of the same sentences in two templates: the unsupervised views."""
        # The word pieces stay, so that a sentence is tokenised once.
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
        """h, with or without the head and delta, (rows, H); the table of promptbert.md, section 3.

        shift: whether delta has the positions that the template has around the sentence.
        """
        h = self.encoder.at(texts, template.mask_positions(texts.attention_mask))
        if denoised and self.config.denoising != "none":
            delta = self._template_vectors(texts, template, shift=shift)
            if headed and self.transforms:
                difference: Tensor = self.head(h) - self.head(delta)  # g(h) - g(delta)
                return difference
            h = h - delta
        return self.head(h) if headed else h

    def _template_vectors(self, texts: TextBatch, template: Template, *, shift: bool) -> Tensor:
        """delta of each row, (rows, H); rows of one length share it (promptbert.md, section 2)."""
        lengths, row = distinct_lengths(texts, template)
        # The released code numbers the positions from 0, which is wrong for RoBERTa alone.
        offset = -self.encoder.first_position if self.config.denoising == "released" else 0
        vectors = template_vectors(
            self.encoder, template, lengths, shift=shift, position_offset=offset
        )
        return vectors[row]
