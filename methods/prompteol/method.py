"""The computations of PromptEOL; `__init__.py` declares the method."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from harness import plugin
from harness.data.templates import rewrapped, running_prompt
from harness.data.tokens import Template
from harness.encoders.backbone import last_positions
from harness.errors import UserError
from harness.losses.info_nce import info_nce
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration


class Method(Declaration, plugin.Method[Config]):
    """The encoder, or low-rank changes of it, train on triplets, or nothing does."""

    @classmethod
    def training_template(cls, config: Config, tokenizer: Any) -> Template:
        """The longest prompt, so that a sentence that fits into it fits into all."""
        return max(_prompts(config, tokenizer), key=len)

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.prompts = _prompts(config, self.tokenizer)
        if len({prompt.leading_space for prompt in self.prompts}) > 1:
            raise UserError(
                "template: a space stands in front of {s} in some prompts and not in others, which "
                "gives a sentence other word pieces; write all of them in one way"
            )
        self.encoder = kit.encoder()

    @property
    def training_pieces(self) -> int:
        """The limit is for the bare sentence; the prompt comes on top."""
        return self.config.max_length

    def test_text(self, text: str) -> str:
        """As the released evaluation reads a sentence (prompteol.md, section 2)."""
        if not self.config.tidied or not text:
            return text
        text = text if text.endswith((".", "?", '"', "'")) else f"{text}."
        text = text.replace('"', "'")
        return f"{text[:-1]}." if text.endswith("?") else text

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"]
        columns = texts.split(self.embed(texts))  # (items, H) each
        return {"contrastive": info_nce(*columns, temperature=self.config.temperature)}

    def embed(self, batch: TextBatch) -> Tensor:
        pad_id = self.tokenizer.pad_token_id
        rows = [rewrapped(batch, self.template, prompt, pad_id) for prompt in self.prompts]
        states = [self.encoder.at(each, last_positions(each.attention_mask)) for each in rows]
        return torch.stack(states).mean(dim=0)


def _prompts(config: Config, tokenizer: Any) -> list[Template]:
    return [running_prompt(tokenizer, text) for text in config.template.splitlines()]
