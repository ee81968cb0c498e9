"""The computations of A sentence-transformers model; `__init__.py` declares the method."""

from typing import Any

from torch import Tensor

from harness import plugin
from harness.data.tokens import Template, piece_ids
from harness.encoders.families import EncoderFamily
from harness.plugin import Kit, TextBatch
from harness.plugin.library_model import load_model
from harness.plugin.rebuilt import RebuiltMethod

from . import Config, Declaration
from .loading import add_lower_case


class Method(Declaration, plugin.Method[Config]):
    """Nothing trains."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.prompt_length = 0
        """Positions that pooling may leave out, as the library counts them"""
        if self.exported is not None:
            self.template = self.exported.evaluation_template
            return
        if self.encoder[0].do_lower_case:
            add_lower_case(self.tokenizer)
        prompt = self.encoder.prompts.get(self.encoder.default_prompt_name) or ""
        whole, pieces = piece_ids(self.tokenizer, [prompt, prompt.removesuffix(" ")])
        self.prompt_length = len(self.template.begin) + len(whole) if prompt else 0
        # The prompt becomes a part of the template, so that it is tokenised once.
        begin = (*self.template.begin, *pieces)
        self.template = Template(begin, self.template.end, leading_space=prompt.endswith(" "))

    def load_tokenizer(self, kit: Kit) -> Any:
        self.encoder = load_model(self.config.encoder)
        return super().load_tokenizer(kit) if self.exported is None else self.exported.tokenizer

    @property
    def exported(self) -> plugin.Method[Any] | None:
        """The method of the harness in a folder that it has exported; it reads texts its own way.

        None: a folder of the library alone.
        """
        first = self.encoder[0]
        return first.method if isinstance(first, RebuiltMethod) else None

    @property
    def longest(self) -> int:
        """The folder's length, but no more than there are positions.

        Those of RoBERTa begin behind its padding_idx.
        """
        if self.exported is not None:
            return self.exported.longest
        positions = EncoderFamily(self.config.encoder, self.encoder[0].model).longest
        return min(int(self.encoder.max_seq_length), positions)

    def test_text(self, text: str) -> str:
        return text if self.exported is None else self.exported.test_text(text)

    def embed_dev(self, batch: TextBatch) -> Tensor:
        return self.embed(batch) if self.exported is None else self.exported.embed_dev(batch)

    def embed(self, batch: TextBatch) -> Tensor:
        if self.exported is not None:
            return self.exported.embed(batch)
        # The library pools and normalises; only the cut to fewer dimensions is left to do.
        features = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        prompt = {"prompt_length": self.prompt_length} if self.prompt_length else {}
        vectors: Tensor = self.encoder(features | prompt)["sentence_embedding"]
        return vectors[:, : self.encoder.truncate_dim]
