"""The computations of ConSERT; `__init__.py` declares the method."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from harness import plugin
from harness.choices import Augmentation
from harness.encoders.pooling import mean, pooled
from harness.losses.nli import PairClassifier, labels_of, pair_loss, triplet_loss
from harness.losses.nt_xent import nt_xent
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration
from .augmentations import adversarial, augmented


class CleanPass(NamedTuple):
    """The pass of the classification, which nothing augments."""

    vectors: tuple[Tensor, ...]
    """Of each text of an item, (items, H)"""
    output: Tensor
    """The embedding output, (rows, length, H)"""
    loss: Tensor
    """The classification loss of the vectors, a scalar"""


class Method(Declaration, plugin.Method[Config]):
    """Everything trains. There is no head."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        if "shuffle" in (config.first_view, config.second_view):
            self.encoder.family.need_positions(
                "the view shuffle moves", "choose other views, such as token-cutoff"
            )
        if config.setting != "unsup":
            classes = 3 if config.setting == "sup" else 2
            self.classifier = PairClassifier(
                self.encoder.hidden_size, classes, squared_maximum=True
            )

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        clean: CleanPass | None = None
        if "labelled" in batch:
            texts = batch["labelled"]
            vectors, output = self._clean_pass(texts)
            loss = self._classification(texts, vectors)
            found["classification"] = loss
            clean = CleanPass(vectors, output, loss)
        if "contrastive" in stage.losses:
            own = self.config.setting != "sup"  # its sentences are not the labelled ones
            texts = batch["contrastive" if own else "labelled"]
            found["contrastive"] = self._contrastive(texts, None if own else clean)
        return found

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, self.config.test_pooling)

    def embed_dev(self, batch: TextBatch) -> Tensor:
        """The mean of the last layer, as in training (consert.md, section 1)."""
        return pooled(self.encoder, batch, "mean")

    def _clean_pass(self, texts: TextBatch) -> tuple[tuple[Tensor, ...], Tensor]:
        """The vectors of each text of an item, (items, H), and the pass's embedding output."""
        outputs: list[Tensor] = []

        def keep(output: Tensor) -> Tensor:
            outputs.append(output)
            return output

        # An edit that changes nothing is the way to the embedding output.
        states = self.encoder(texts, edit=keep)
        return texts.split(mean(states, texts.attention_mask)), outputs[0]

    def _classification(self, texts: TextBatch, vectors: tuple[Tensor, ...]) -> Tensor:
        """The NLI softmax: of labelled pairs, or of triplets (semisupervised.md, section 2)."""
        if self.config.setting == "sup":
            return pair_loss(self.classifier, vectors[0], vectors[1], labels_of(texts))
        return triplet_loss(self.classifier, *vectors)

    def _contrastive(self, texts: TextBatch, clean: CleanPass | None) -> Tensor:
        """L_con of sentences, or of premises plus that of hypotheses (consert.md, section 1).

        clean: the pass of the classification over the same texts, which a clean view shares.
        """
        config, views = self.config, []
        passed = [] if clean is None else [clean.vectors]
        for name, rate in (
            (config.first_view, config.first_rate),
            (config.second_view, config.second_rate),
        ):
            # Of two clean views the second has a pass of its own: they differ by dropout alone.
            shared = name == "none" and passed
            views.append(passed.pop() if shared else self._view(texts, name, rate, clean))
        # L_con is the sum of both directions, and NT-Xent is their mean.
        losses = [
            2 * nt_xent(one, other, temperature=config.temperature)
            for one, other in zip(*views, strict=True)
        ]
        return torch.stack(losses).sum()

    def _view(
        self, texts: TextBatch, name: Augmentation, rate: float, clean: CleanPass | None
    ) -> tuple[Tensor, ...]:
        """One view of each text of an item, (items, H); consert.md, section 2."""
        if name == "adversarial":
            assert clean is not None, "the configuration allows it in the setting sup alone"
            edit = adversarial(clean.loss, clean.output, self.config.noise_norm)
            states = self.encoder(texts, edit=edit)
        else:
            states = self.encoder(texts, **augmented(name, texts.attention_mask, rate))
        return texts.split(mean(states, texts.attention_mask))
