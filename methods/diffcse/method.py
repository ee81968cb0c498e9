"""The computations of DiffCSE; `__init__.py` declares the method."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from harness import plugin
from harness.encoders.reach import first_replaced
from harness.losses.info_nce import info_nce
from harness.losses.replaced_tokens import as_padded, replaced_token_loss
from harness.modules.heads import named_head
from harness.plugin import Kit, Stage, TextBatch
from harness.plugin.sentence_editor import sentence_editor
from harness.views.masking import Masker

from . import Config, Declaration
from .ablations import augmented_contrast, detector_for, masked_or_corrective_loss


class Method(Declaration, plugin.Method[Config]):
    """Encoder, head, discriminator and detector train in full. The encoder alone is tested."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()  # f of the paper
        width = self.encoder.hidden_size
        self.head = named_head(config.head, width)  # appendix A
        if config.conditional:
            self.discriminator = kit.encoder()  # D of the paper, a separate copy
            self.detector = detector_for(config, kit, width)
        if config.conditional and config.objective == "masked-language":
            self.masker = Masker(self.tokenizer, config.masking_ratio)
        elif config.conditional or config.augments:
            self.editor = sentence_editor(config, kit, config.edits)  # with G of the paper

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"]
        views = texts.view(0).repeated(2) if self.config.setting == "unsup" else texts
        if self.config.augments:
            return {"contrastive": augmented_contrast(self, views)}
        vectors = self.head(self.encoder.cls(views))  # h of each row, (rows, H)
        temperature = self.config.temperature
        found = {"contrastive": info_nce(*views.split(vectors), temperature=temperature)}
        if self.config.conditional:
            terms = [self._discriminate(text, vectors) for text in self._to_edit(texts, views)]
            found["replaced_tokens"] = torch.stack(terms).mean()
        return found

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)

    def _to_edit(self, texts: TextBatch, views: TextBatch) -> list[TextBatch]:
        """What the discriminator reads edited: the rows themselves, in the main method.

        With running text, the second text of an item is the sentence that follows.
        """
        if self.config.edited == "same":
            return [views]
        following = texts.view(1).repeated(2)
        return [following] if self.config.edited == "next" else [views, following]

    def _discriminate(self, texts: TextBatch, vectors: Tensor) -> Tensor:
        """L_RTD of section 3: which tokens of the edited rows were replaced.

        The vector of a row stands in slot 0 of what the discriminator reads. It is not detached:
        through it this loss trains the sentence encoder (diffcse.md, section 1.3).
        """
        read = partial(self.discriminator, edit=first_replaced(vectors))
        if self.config.objective != "detection":
            return masked_or_corrective_loss(self, texts, read)
        edited = as_padded(self.editor(texts), texts, self.config.rtd_reduction)
        # The detector has two logits for each kind of edit; a row is judged by those of its own.
        # The released loss is a mean over all positions, so states at padding count in it.
        padding = self.config.rtd_reduction == "mean_all"
        logits = self.detector(read(edited.batch, padding=padding)).unflatten(-1, (-1, 2))
        rows = torch.arange(len(logits), device=logits.device)
        own = logits[rows, :, edited.kinds]  # (rows, length, 2)
        return replaced_token_loss(own, edited, self.config.rtd_reduction)
