"""The computations of CoT-BERT; `__init__.py` declares the method."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from harness import plugin
from harness.data.templates import hard_prompt, rewrapped
from harness.data.tokens import Template
from harness.losses.info_nce import cosines
from harness.modules.denoising import distinct_lengths, template_vectors
from harness.modules.heads import TanhHead
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration
from .padding import padded_template_vectors


def extended_info_nce(
    first: Tensor,
    second: Tensor,
    negatives: Tensor,
    *,
    temperature: float,
    contrasts_second: bool = True,
) -> Tensor:
    """Mean over i of the cross entropy with the target cos(first_i, second_i).

    It is the loss of cotbert.md, section 2. first, second, negatives: (N, width). The candidates of
    i are the cosines of first_i and all second, those of first_i and all negatives and, with
    `contrasts_second`, those of second_i and all negatives; there are 3 N.
    """
    candidates = [cosines(first, second), cosines(first, negatives)]
    if contrasts_second:
        candidates.append(cosines(second, negatives))
    targets = torch.arange(len(first), device=first.device)
    return functional.cross_entropy(torch.cat(candidates, dim=1) / temperature, targets)


class Method(Declaration, plugin.Method[Config]):
    """Encoder and head train. The encoder alone is tested, without denoising."""

    @classmethod
    def training_template(cls, config: Config, tokenizer: Any) -> Template:
        return hard_prompt(tokenizer, config.templates[0])

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.templates = [hard_prompt(self.tokenizer, text) for text in config.templates]
        self.encoder = kit.encoder()
        if config.denoising == "positions":  # what stands behind a sentence keeps its position
            self.encoder.family.need_positions("denoising sets", "choose denoising=padding")
        self.head = TanhHead(self.encoder.hidden_size)

    @property
    def training_pieces(self) -> int:
        """The limit is for the bare sentence; the template comes on top."""
        return self.config.max_length

    def test_text(self, text: str) -> str:
        """A sentence with a full stop, unless it ends with . ? " or ' (cotbert.md, section 4)."""
        return text if not text or text.endswith((".", "?", '"', "'")) else f"{text}."

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        config, texts = self.config, batch["contrastive"]
        first, second, negatives = (self._denoised(texts, each) for each in self.templates)
        loss = extended_info_nce(
            first, second, negatives,
            temperature=config.temperature, contrasts_second=config.contrasts_second,
        )  # fmt: skip
        return {"contrastive": loss}

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.at(batch, self.template.mask_positions(batch.attention_mask))

    def _denoised(self, texts: TextBatch, template: Template) -> Tensor:
        """Training vectors of the sentences in one of the templates, (items, H)."""
        rows = rewrapped(texts, self.template, template, self.tokenizer.pad_token_id)
        states = self.encoder.at(rows, template.mask_positions(rows.attention_mask))
        if self.config.denoising != "none":
            states = states - self._alone(rows, template)
        headed: Tensor = self.head(states)
        return headed

    def _alone(self, rows: TextBatch, template: Template) -> Tensor:
        """What the template alone gives at the length of each row, (rows, H)."""
        if self.config.denoising == "positions":
            lengths, row = distinct_lengths(rows, template)
            return template_vectors(self.encoder, template, lengths)[row]
        counted = self.config.denoising == "padding"
        pad_id = self.tokenizer.pad_token_id
        return padded_template_vectors(self.encoder, template, rows, pad_id, counted=counted)
