"""The computations of SBERT; `__init__.py` declares the method."""

from collections.abc import Mapping

from torch import Tensor

from harness import plugin
from harness.encoders.pooling import pooled
from harness.losses.nli import PairClassifier, labels_of, pair_loss
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration


class Method(Declaration, plugin.Method[Config]):
    """Encoder and classifier train. The classifier is dropped at test time."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.classifier = PairClassifier(self.encoder.hidden_size, classes=3)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        pairs = batch["pairs"]
        labels = labels_of(pairs)
        u, v = pairs.split(self.embed(pairs))  # (items, H) each
        # The classifier reads [u, v, |u - v|] (sbert.md, section 1).
        return {"classification": pair_loss(self.classifier, u, v, labels)}

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, "mean")
