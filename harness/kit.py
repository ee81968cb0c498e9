"""What a method is built from: the encoder, its tokenizer, frozen helpers, and the artefacts that trials share."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer

from harness.data.corpora import source
from harness.data.hub import cache_folder, digest_files, model_digest, model_folder, model_shape
from harness.data.tokens import Template, Tokens, load_arrays, save_arrays, tokenised
from harness.encoders.backbone import Encoder
from harness.encoders.masked_lm import Generator
from harness.errors import UserError
from harness.method import Artefact, Plugin

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt")


class Kit:
    """The parts for one configuration of one method."""

    def __init__(self, plugin: Plugin, config: Any, device: torch.device) -> None:
        self.plugin = plugin
        self.config = config
        self.device = device

    @cached_property
    def tokenizer(self) -> Any:
        """The encoder's tokenizer, without truncation. Raises UserError when the model has none."""
        folder = model_folder(self.config.encoder)
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True, trust_remote_code=False)
            tokenizer.backend_tokenizer.no_truncation()
            tokenizer.backend_tokenizer.no_padding()
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise UserError(f'encoder "{self.config.encoder}" has no usable tokenizer: {error}') from error
        return tokenizer

    @property
    def template(self) -> Template:
        """The encoder's own special tokens around a sentence."""
        return Template((self.tokenizer.cls_token_id,), (self.tokenizer.sep_token_id,))

    def encoder(self, name: str | None = None) -> Encoder:
        """A fresh copy of the configured encoder (or of another one), all weights trainable until a stage says not."""
        return Encoder(name or self.config.encoder)

    def generator(self, name: str) -> Generator:
        """A frozen masked language model with the encoder's vocabulary."""
        return Generator(name, int(model_shape(self.config.encoder)["vocab_size"]))

    def tokens(self, corpus: str) -> Tokens:
        """A corpus in the encoder's word pieces, from the cache where it is there."""
        folder = model_folder(self.config.encoder)
        digest = digest_files(folder / name for name in TOKENIZER_FILES if (folder / name).is_file())
        return tokenised(corpus, self.tokenizer, digest)

    def artefact(self, name: str) -> Mapping[str, np.ndarray]:
        """The arrays of one of the method's artefacts; built now if no trial has built it yet."""
        artefact = {found.name: found for found in self.plugin.method.artefacts(self.config)}[name]
        folder = cache_folder() / "artefacts" / f"{self.plugin.name}-{name}-{self._digest(artefact)}"
        if not folder.is_dir():
            save_arrays(folder, dict(artefact.build(self.config, self)))
        return load_arrays(folder)

    def build_shared(self) -> None:
        """Build what trials of this configuration share: tokenised corpora and artefacts."""
        for corpus in self.plugin.method.data(self.config).values():
            self.tokens(corpus)
        for artefact in self.plugin.method.artefacts(self.config):
            self.artefact(artefact.name)

    def _digest(self, artefact: Artefact) -> str:
        values = {field: getattr(self.config, field) for field in artefact.fields}
        models = [model_digest(name) for name in self.plugin.method.models(self.config)]
        corpora = [digest_files(source(name).paths()) for name in self.plugin.method.data(self.config).values()]
        described = json.dumps([self.plugin.source_digest, values, models, corpora], sort_keys=True)
        return hashlib.sha256(described.encode()).hexdigest()[:16]
