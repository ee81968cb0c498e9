"""The computations of a pretrained encoder as it is; `__init__.py` declares the method."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from harness import plugin
from harness.data.templates import first_prompt
from harness.data.tokens import Template
from harness.encoders.pooling import pooled
from harness.errors import UserError
from harness.modules.heads import TanhHead
from harness.modules.prompts import DeepPrompts
from harness.plugin import Kit, TextBatch

from . import HEADS, PARTS, PROMPTS, Config, Declaration


class Method(Declaration, plugin.Method[Config]):
    """Nothing trains. A head and prompts are those of the checkpoint."""

    @classmethod
    def training_template(cls, config: Config, tokenizer: Any) -> Template:
        if config.pooling == "mask":
            return first_prompt(tokenizer, config.encoder, None)
        return super().training_template(config, tokenizer)

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.head: nn.Module = nn.Identity()
        self.prompts: DeepPrompts | None = None
        parts: Mapping[str, np.ndarray] = kit.artefact(PARTS) if self.artefacts(config) else {}
        if config.pooling in HEADS:
            self.head = TanhHead(self.encoder.hidden_size)
            for name, parameter in self.head.linear.named_parameters():
                self._set(parameter, parts[name], f"{HEADS[config.pooling]}.{name}")
        if config.pooling in PROMPTS:
            table = parts["prompts"]
            self.prompts = DeepPrompts(self.encoder, len(table))
            self._set(self.prompts.table, table, PROMPTS[config.pooling])

    @property
    def longest(self) -> int:
        return self.encoder.longest - (self.prompts.position_offset if self.prompts else 0)

    @property
    def dev_differs(self) -> bool:
        return self.config.pooling == "mask"

    def test_text(self, text: str) -> str:
        """PromptBERT's test script ends a sentence with a full stop (promptbert.md, section 3)."""
        if self.config.pooling != "mask" or not text or text.endswith((".", "?", '"', "'")):
            return text
        return f"{text}."

    def embed(self, batch: TextBatch) -> Tensor:
        match self.config.pooling:
            case "mask":
                where = self.template.mask_positions(batch.attention_mask)
                return self.encoder.at(batch, where)
            case "pooler" | "prompts" | "prompts-pooler":
                prompts = {} if self.prompts is None else self.prompts.reach(batch)
                vectors: Tensor = self.head(self.encoder.cls(batch, **prompts))
                return vectors
            case plain:
                return pooled(self.encoder, batch, plain)

    def _set(self, parameter: nn.Parameter, values: np.ndarray, name: str) -> None:
        """Give a parameter the values of the checkpoint. Raises UserError for another shape."""
        if values.shape != parameter.shape:
            raise UserError(
                f'model "{self.config.encoder}": {name} has the shape {list(values.shape)}, and '
                f"{list(parameter.shape)} is asked for"
            )
        with torch.no_grad():
            parameter.copy_(torch.tensor(values))
