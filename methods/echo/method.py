"""The computations of echo embeddings; `__init__.py` declares the method."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from harness import plugin
from harness.choices import SENTENCE
from harness.data.templates import running_prompt
from harness.data.tokens import Template
from harness.encoders.backbone import last_positions
from harness.encoders.pooling import mean
from harness.losses.info_nce import info_nce
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration


class Method(Declaration, plugin.Method[Config]):
    """The encoder, or low-rank changes of it, train on triplets, or nothing does."""

    @classmethod
    def training_template(cls, config: Config, tokenizer: Any) -> Template:
        """The prompt up to the second sentence, which `echoed` adds."""
        return running_prompt(tokenizer, config.template.removesuffix(SENTENCE).rstrip())

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()

    @property
    def longest(self) -> int:
        """As long that the sentence fits twice."""
        prompt = len(self.template)
        return prompt + (self.encoder.longest - prompt) // 2

    @property
    def training_pieces(self) -> int:
        """The limit is for the bare sentence; its echo and the prompt come on top."""
        return min(self.config.max_length, self.longest - len(self.template))

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"]
        columns = texts.split(self.embed(texts))  # (items, H) each
        return {"contrastive": info_nce(*columns, temperature=self.config.temperature)}

    def embed(self, batch: TextBatch) -> Tensor:
        texts, second = echoed(batch, self.template, self.tokenizer.pad_token_id)
        if self.config.echo_pooling == "last-token":
            return self.encoder.at(texts, last_positions(texts.attention_mask))
        return mean(self.encoder(texts), second)


def echoed(batch: TextBatch, template: Template, pad_id: int) -> tuple[TextBatch, Tensor]:
    """The rows of a batch with their sentences once more behind them.

    Returns the second sentences' places, too, (rows, length) bool. Of a sentence without a piece it
    is the last one of the prompt.
    """
    stops = batch.attention_mask.sum(dim=1, keepdim=True)  # where the second sentences begin
    pieces = stops - len(template)
    # In NumPy, because a GPU would let the CPU wait for the number of columns.
    lengths = 2 * batch.mask_on_host.numpy().sum(axis=1, keepdims=True) - len(template)
    columns = torch.arange(int(lengths.max()))
    positions = columns.to(stops.device, non_blocking=True).expand(len(stops), -1)
    behind = positions - stops
    source = torch.where(behind < 0, positions, len(template.begin) + behind)
    ids = batch.input_ids.gather(1, source.clamp(max=batch.input_ids.shape[1] - 1))
    mask = behind < pieces
    second = mask & (behind >= -(pieces == 0).long())
    ids = torch.where(mask, ids, pad_id)
    return batch.replaced(ids, mask.long(), (columns < torch.from_numpy(lengths)).long()), second
