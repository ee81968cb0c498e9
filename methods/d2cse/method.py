"""The computations of D2CSE; `__init__.py` declares the method."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from harness import plugin
from harness.encoders.reach import Reach, WordVectors, first_replaced
from harness.losses.info_nce import info_nce
from harness.losses.replaced_tokens import as_padded, replaced_token_loss
from harness.modules.heads import BatchNormHead
from harness.modules.prompts import DeepPrompts
from harness.plugin import Kit, Stage, TextBatch
from harness.plugin.sentence_editor import sentence_editor

from . import Config, Declaration


class Method(Declaration, plugin.Method[Config]):
    """Prompts, head, detector and (if wanted) one [CLS] vector train.

    The sentence encoder is frozen, but its dropout stays on: it makes the two views differ.
    """

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.prompts = DeepPrompts(self.encoder, config.prompt_length, shift=config.position_shift)
        self.head = BatchNormHead(self.encoder.hidden_size)
        self.detector = nn.Linear(self.encoder.hidden_size, 2)
        self.editor = sentence_editor(config, kit)
        self.discriminator = kit.encoder() if config.discriminator == "copy" else None
        self.cls_vector = None
        if config.cls_prompt:
            # It begins as the pretrained embedding of [CLS] (section 4.1 of the paper).
            words = self.encoder.model.get_input_embeddings().weight
            self.cls_vector = nn.Parameter(words[self.tokenizer.cls_token_id].detach().clone())

    @property
    def longest(self) -> int:
        return self.encoder.longest - self.prompts.position_offset

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"]
        if self.config.setting == "unsup":
            texts = texts.repeated(2)  # two views, (2 * items) rows
        prompts = self.prompts.reach(texts)
        sentences = self.head(self._encode(texts, prompts))  # h of each row, (rows, H)
        views = texts.split(sentences)
        return {
            "contrastive": info_nce(*views, temperature=self.config.temperature),  # eq. 1
            "replaced_tokens": self._detect(texts, sentences, prompts),  # eq. 2
        }

    def embed(self, batch: TextBatch) -> Tensor:
        """The state before the head, in both settings (d2cse.md, section 1.3)."""
        return self._encode(batch, self.prompts.reach(batch))

    def _encode(self, texts: TextBatch, prompts: Reach) -> Tensor:
        """The state at [CLS], (rows, H). With a [CLS] prompt its word embedding is trained."""
        if self.cls_vector is None:
            return self.encoder.cls(texts, **prompts)
        reach = prompts.copy()
        first = torch.zeros_like(texts.input_ids[:, :1])
        reach["words"] = WordVectors(first, self.cls_vector[None])
        roberta = "roberta" in self.encoder.model.config.model_type
        if roberta and self.config.roberta_cls_prompt_positions == "plain":
            reach["position_offset"] = 0
        return self.encoder.cls(texts, **reach)

    def _detect(self, texts: TextBatch, sentences: Tensor, prompts: Reach) -> Tensor:
        """Which tokens of edited rows were replaced, judged with the sentence vector in slot 0.

        The main method (d) reads with the prompts of the first pass. The vector is not detached:
        through it the detection trains the sentence encoder (d2cse.md, section 1.4).
        """
        edited = as_padded(self.editor(texts), texts, self.config.rtd_reduction)
        # The other cells of Table 6 read without prompts, or without the vector.
        reach: Reach = {}
        if self.config.discriminator_prompted:
            fresh = self.config.discriminator_prompts == "fresh"
            reach = self.prompts.reach(texts) if fresh else prompts.copy()
        # The released loss is a mean over all positions, so states at padding count in it.
        reach["padding"] = self.config.rtd_reduction == "mean_all"
        if self.config.discriminator_conditional:
            reach["edit"] = first_replaced(sentences)
        discriminator = self.encoder if self.discriminator is None else self.discriminator
        logits = self.detector(discriminator(edited.batch, **reach))
        return replaced_token_loss(logits, edited, self.config.rtd_reduction)
