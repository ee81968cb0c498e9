"""What a method is built from: the encoder, its tokenizer, frozen helpers, and the artefacts that trials share."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer

from harness import PROTOCOL
from harness.data.corpora import source
from harness.data.hub import cache_folder, digest_files, model_digest, model_folder, model_shape
from harness.data.subsets import label_subset
from harness.data.tokens import Template, Tokens, shared_arrays, tokenised
from harness.encoders.backbone import Encoder
from harness.encoders.masked_lm import Generator, VocabularyHead
from harness.errors import UserError, reason
from harness.method import Artefact, Plugin

VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
"""One of them makes a tokenizer: without, transformers gives an empty one, which knows no word"""
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
        if not any(path for name in VOCABULARIES for path in folder.glob(name)):
            raise UserError(f'encoder "{self.config.encoder}" has no tokenizer: {folder} has no {VOCABULARIES[0]}')
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True, trust_remote_code=False)
            tokenizer.backend_tokenizer.no_truncation()
            tokenizer.backend_tokenizer.no_padding()
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise UserError(
                f'encoder "{self.config.encoder}" has no usable tokenizer: {reason(error).splitlines()[0]}'
            ) from error
        return tokenizer

    def encoder(self, *, dropout: float | None = None) -> Encoder:
        """A fresh copy of the encoder, all weights trainable until a stage says not; `dropout` instead of its own."""
        checkpointing = getattr(self.config, "gradient_checkpointing", False)
        return Encoder(self.config.encoder, dropout=dropout, checkpointing=checkpointing)

    def vocabulary_head(self) -> VocabularyHead:
        """The encoder checkpoint's masked-LM head, with weights of its own. Raises UserError when it has none."""
        return VocabularyHead(self.config.encoder)

    def generator(self, name: str, *, dropout: bool = True) -> Generator:
        """A frozen masked language model with the encoder's vocabulary; `dropout`: on while training."""
        return Generator(name, int(model_shape(self.config.encoder)["vocab_size"]), dropout=dropout)

    def tokens(self, corpus: str, template: Template | None = None) -> Tokens:
        """A corpus in the encoder's word pieces, from the cache where it is there; what a template puts before a
        sentence may change its pieces."""
        folder = model_folder(self.config.encoder)
        digest = digest_files(folder / name for name in TOKENIZER_FILES if (folder / name).is_file())
        leading_space = template is not None and template.leading_space
        return tokenised(corpus, self.tokenizer, digest, leading_space=leading_space)

    def label_subset(self, corpus: str) -> np.ndarray | None:
        """The items of a labelled corpus that this configuration may see; None: all."""
        fraction, subset = getattr(self.config, "label_fraction", 1.0), getattr(self.config, "subset", 0)
        if fraction == 1 or not source(corpus).labelled:
            return None
        found = source(corpus)  # corpora that read the same files differently have other items
        name = f"{digest_files(found.paths())}-{found.read.__name__}-{fraction}-{subset}"
        folder = cache_folder() / "subsets" / name
        drawn = shared_arrays(folder, lambda: {"items": label_subset(len(self.tokens(corpus)), fraction, subset)})
        return drawn["items"]

    def artefact(self, name: str) -> Mapping[str, np.ndarray]:
        """The arrays of one of the method's artefacts; built now if no trial has built it yet, which the random state
        does not show."""
        artefact = {found.name: found for found in self.plugin.method.artefacts(self.config)}[name]
        folder = cache_folder() / "artefacts" / f"{self.plugin.name}-{name}-{self._digest(artefact)}"

        def build() -> Mapping[str, np.ndarray]:
            with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
                return artefact.build(self.config, self)

        return shared_arrays(folder, build)

    def build_shared(self) -> None:
        """Build what trials of this configuration share: tokenised corpora and artefacts."""
        for corpus in self.plugin.method.data(self.config).values():
            self.tokens(corpus)
            self.label_subset(corpus)
        for artefact in self.plugin.method.artefacts(self.config):
            self.artefact(artefact.name)

    def identity(self) -> list[Any]:
        """What an artefact depends on besides the configuration: the method's source, models and data."""
        method = self.plugin.method
        models = [model_digest(name) for name in method.models(self.config)]
        corpora = [source(name) for name in method.data(self.config).values()]
        files = [path for corpus in corpora for path in corpus.paths()]
        readers = [corpus.read.__name__ for corpus in corpora]
        data = digest_files([*files, *method.files(self.config)])
        return [self.plugin.source_digest, models, data, readers, PROTOCOL]

    def _digest(self, artefact: Artefact) -> str:
        values = {field: getattr(self.config, field) for field in artefact.fields}
        described = json.dumps([self.identity(), values], sort_keys=True)
        return hashlib.sha256(described.encode()).hexdigest()[:16]
