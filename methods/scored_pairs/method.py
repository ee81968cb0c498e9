"""The computations of Scored pairs; `__init__.py` declares the method."""

from collections.abc import Mapping

from torch import Tensor

from harness import plugin
from harness.encoders.pooling import pooled
from harness.errors import TrialFailure
from harness.losses.scored_pairs import cosent, cosine_mse
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration


class Method(Declaration, plugin.Method[Config]):
    """The encoder trains; nothing is added to it."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        pairs, config = batch["pairs"], self.config
        assert pairs.labels is not None  # the corpus has been checked to be of scored pairs
        first, second = pairs.split(self.embed(pairs))  # (items, H) each
        if config.objective == "cosent":
            return {"cosent": cosent(first, second, pairs.labels, scale=config.scale)}
        similarities = (pairs.labels - config.lowest_score) / (
            config.highest_score - config.lowest_score
        )
        return {"cosine-mse": cosine_mse(first, second, similarities)}

    def prepared(self, batch: Mapping[str, TextBatch], stage: Stage) -> Mapping[str, TextBatch]:
        """The same batch. Raises TrialFailure where a score is outside of the range."""
        scores, config = batch["pairs"].labels, self.config
        if config.objective == "cosine-mse" and scores is not None:
            low, high = float(scores.min()), float(scores.max())
            if low < config.lowest_score or high > config.highest_score:
                raise TrialFailure(
                    f"{config.scored_pairs} has scores from {low:g} to {high:g}; set lowest_score "
                    f"and highest_score to their range"
                )
        return batch

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, self.config.pooling)
