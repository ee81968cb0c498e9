"""The computations of GloVe; `__init__.py` declares the method."""

from dataclasses import dataclass

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor

from harness import plugin
from harness.modules.vector_table import VectorTable
from harness.plugin import Kit, TextBatch

from . import Config, Declaration
from .words import NO_WORD


@dataclass(frozen=True)
class WordTokenizer:
    """What the harness needs of a tokenizer: words instead of pieces, and no special tokens."""

    backend_tokenizer: Tokenizer
    pad_token_id: int = 0
    cls_token_id: int | None = None
    sep_token_id: int | None = None


class Method(Declaration, plugin.Method[Config]):
    """There is no encoder: whitespace tokens are looked up, and unknown ones are skipped.

    The vector of a sentence without a known word is 0.
    """

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.vectors = VectorTable(kit.artefact("words")["vectors"], kit.device)

    def load_tokenizer(self, kit: Kit) -> WordTokenizer:
        words = kit.artefact("words")["words"].tobytes().decode().split("\n")
        numbers = {word: number for number, word in enumerate(words)}
        tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=NO_WORD))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        if self.config.lowercase:
            tokenizer.normalizer = normalizers.Lowercase()
        return WordTokenizer(tokenizer)

    @property
    def longest(self) -> int:
        return 2**31  # no positions, so no limit

    def embed(self, batch: TextBatch) -> Tensor:
        # Number 0 is the unknown word and the padding, and its vector is 0.
        known = (batch.input_ids > 0).sum(dim=1, keepdim=True)
        return self.vectors(batch.input_ids).sum(dim=1) / known.clamp(min=1)
