"""The computations of SNCSE; `__init__.py` declares the method."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn import functional

from harness import plugin
from harness.data.batching import interleaved, pad
from harness.data.templates import hard_prompt, rewrapped
from harness.data.tokens import Template
from harness.losses.info_nce import info_nce
from harness.modules.heads import TanhHead
from harness.plugin import Kit, Stage, TextBatch

from . import NEGATIONS, Config, Declaration

PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def bidirectional_margin(
    anchors: Tensor, positives: Tensor, soft_negatives: Tensor, *, smallest: float, largest: float
) -> Tensor:
    """Mean of relu(d + smallest) + relu(-d - largest), d = cos(a, negative) - cos(a, positive).

    anchors, positives, soft_negatives: (items, width). It is 0 where the positive is nearer by
    smallest to largest (sncse.md, section 1).
    """
    near, far = (
        functional.cosine_similarity(anchors.float(), each.float())
        for each in (positives, soft_negatives)
    )
    difference = far - near
    return ((difference + smallest).relu() + (-difference - largest).relu()).mean()


class Method(Declaration, plugin.Method[Config]):
    """Encoder and head train. The encoder alone is tested, in the first template."""

    @classmethod
    def training_template(cls, config: Config, tokenizer: Any) -> Template:
        return hard_prompt(tokenizer, config.template)

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.second_template = hard_prompt(self.tokenizer, config.second_template)
        self.encoder = kit.encoder()
        self.head = TanhHead(self.encoder.hidden_size)
        self.negations = kit.artefact(NEGATIONS)

    def test_text(self, text: str) -> str:
        """A sentence with a full stop, where it ends without punctuation (sncse.md, section 2)."""
        text = text.rstrip()
        return text if not text or text[-1] in PUNCTUATION else f"{text} ."

    def prepared(self, batch: Mapping[str, TextBatch], stage: Stage) -> Mapping[str, TextBatch]:
        """And `others`: two rows of an item, its second view and its negation."""
        texts, pad_id, limit = (
            batch["contrastive"],
            self.tokenizer.pad_token_id,
            self.training_pieces,
        )
        ids, starts = self.negations["ids"], self.negations["starts"]
        rows = [ids[starts[item] : starts[item + 1]][:limit] for item in texts.items.tolist()]
        second = rewrapped(texts, self.template, self.second_template, pad_id)
        negated = texts.replaced(*pad(rows, self.second_template, pad_id))
        return {**batch, "others": interleaved(second, negated, pad_id)}

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        config, others = self.config, batch["others"]
        first = self.head(self._states(batch["contrastive"], self.template))
        second, negated = others.split(self.head(self._states(others, self.second_template)))
        smallest, largest = config.smallest_margin, config.largest_margin
        return {
            "contrastive": info_nce(first, second, temperature=config.temperature),
            "margin": bidirectional_margin(
                first, second, negated, smallest=smallest, largest=largest
            ),
        }

    def embed(self, batch: TextBatch) -> Tensor:
        return self._states(batch, self.template)

    def _states(self, texts: TextBatch, template: Template) -> Tensor:
        """The states at the mask, (rows, H)."""
        return self.encoder.at(texts, template.mask_positions(texts.attention_mask))
