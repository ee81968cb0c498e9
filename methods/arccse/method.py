"""The computations of ArcCSE; `__init__.py` declares the method."""

from collections.abc import Mapping

from torch import Tensor

from harness import plugin
from harness.data.templates import require_mask
from harness.modules.heads import TanhHead
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration
from .losses import angular_contrast, triplet_order
from .masked_copies import masked_copies


class Method(Declaration, plugin.Method[Config]):
    """Encoder and head train. The encoder alone is tested."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        require_mask(self.tokenizer, "a masked copy")
        self.encoder = kit.encoder()
        self.head = TanhHead(self.encoder.hidden_size)

    def prepared(self, batch: Mapping[str, TextBatch], stage: Stage) -> Mapping[str, TextBatch]:
        """And `copies`: three rows of an item, the sentence and its masked copies."""
        copies = masked_copies(
            batch["contrastive"], self.template,
            smaller=self.config.smaller_ratio, larger=self.config.larger_ratio,
            mask_id=self.tokenizer.mask_token_id, pad_id=self.tokenizer.pad_token_id,
        )  # fmt: skip
        return {**batch, "copies": copies}

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        config, rows = self.config, batch["contrastive"].repeated(2)
        first, second = rows.split(self.head(self.encoder.cls(rows)))  # (items, H) each
        copies = batch["copies"]
        whole, near, far = copies.split(self.head(self._without_dropout(copies)))
        return {
            "contrastive": angular_contrast(
                first, second, margin=config.angular_margin, temperature=config.temperature
            ),
            "triplet": triplet_order(whole, near, far, margin=config.triplet_margin),
        }

    def _without_dropout(self, texts: TextBatch) -> Tensor:
        """The states at [CLS], (rows, H), with gradients; dropout would hide what masks change."""
        training = self.encoder.training
        self.encoder.eval()
        try:
            return self.encoder.cls(texts)
        finally:
            self.encoder.train(training)

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)
