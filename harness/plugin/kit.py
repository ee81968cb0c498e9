"""The kit that a method is built from: encoders, tokenizer, a generator, and artefacts."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from harness import PROTOCOL
from harness.arrays import SharedArrays
from harness.data.batching import TextBatch, item_batch
from harness.data.corpora import source
from harness.data.hub import model_digest, model_shape
from harness.data.items import label_subset
from harness.data.revisions import short_name
from harness.data.templates import require_mask
from harness.data.tokens import (
    Template,
    Tokens,
    check_embedded,
    check_same_tokenizer,
    load_tokenizer,
    tokenised,
)
from harness.device import random_state_kept
from harness.encoders.backbone import Encoder
from harness.encoders.families import is_decoder
from harness.encoders.low_rank import MARK
from harness.encoders.masked_lm import Generator, VocabularyHead
from harness.encoders.next_token import NextTokenHead
from harness.encoders.pretrained import Loading
from harness.errors import UserError
from harness.files import cache_folder, digest_of
from harness.plugin.config import DECODER_FIELDS, MethodConfig, TrainingConfig, label_share
from harness.plugin.declared import Declared
from harness.plugin.stage import Artefact
from harness.ranks import alone, has_ranks


class Kit:
    """The parts for one configuration of one method.

    Every call of `encoder`, `vocabulary_head` and `generator` loads a fresh copy.
    """

    empty = False
    """Whether the weights of pretrained models are left out, because they are set afterwards"""

    def __init__(self, declared: Declared, device: torch.device, tokenizer: Any = None) -> None:
        """declared: what the method declares. device: where the method computes.

        tokenizer: the one of `load_tokenizer`, when it is loaded already and nothing changes it.
        """
        self.declared, self.device, self._tokenizer = declared, device, tokenizer

    @cached_property
    def template(self) -> Template:
        """Template around each sentence when the method trains."""
        found: Template = self.declared.method.training_template(self.config, self.tokenizer)
        return found

    @property
    def config(self) -> MethodConfig:
        """The configuration of the trial."""
        return self.declared.config

    def build(self) -> Any:
        """The method itself, with its modules, on the kit's device.

        Where the ranks will shard its weights, it is in the memory of the CPU.
        """
        method = self.declared.method(self.config, self)
        self._widen_trained(method)
        return method.to(self.build_device)

    @property
    def build_device(self) -> torch.device:
        """Device on which modules are built; sharded weights need not fit into one device."""
        config = self.config
        sharded = isinstance(config, TrainingConfig) and config.shards_weights and has_ranks()
        return torch.device("cpu") if sharded else self.device

    def _widen_trained(self, method: Any) -> None:
        """Make float32 what a stage changes; where that is a part of an encoder, all of it."""
        stages = self.declared.stages
        patterns = [pattern for stage in stages for pattern in (*stage.trains, *stage.moves)]
        kept = {*kept_weights(method)}
        changed = {
            name: parameter
            for name, parameter in method.named_parameters()
            if name not in kept and any(fnmatchcase(name, pattern) for pattern in patterns)
        }
        for parameter in changed.values():
            parameter.data = parameter.data.float()
        for name, part in method.named_modules():
            if not isinstance(part, Encoder):
                continue
            inside = any(parameter.startswith(f"{name}.") for parameter in changed)
            if part.low_rank is not None and not inside:
                raise UserError(
                    f"lora_rank: {self.declared.name} trains no weights of its encoder, in the "
                    f"place of which low-rank changes could train; leave it out"
                )
            # A norm in bf16 does not take the float32 states of a layer that trains before it.
            if part.low_rank is None and inside:
                part.float()

    @cached_property
    def tokenizer(self) -> Any:
        """The encoder's tokenizer, without truncation. Raises UserError when the model has none."""
        config = self.config
        return self._tokenizer or load_tokenizer(config.encoder, ends=config.ends_sentences)

    def encoder(
        self,
        name: str | None = None,
        *,
        dropout: float | None = None,
        depth: int | None = None,
        own_pieces: bool = False,
    ) -> Encoder:
        """The encoder of the configuration, or another model. The stages say which weights train.

        name: a model that `models()` has, as a configuration names its encoder; None: the encoder.
        Another model gets no low-rank changes. dropout: 0 to 1, in every layer; None:
        `encoder_dropout` of the configuration, or another model's own. depth: layers that are kept,
        from the first one on; None: all. own_pieces: another model reads batches of `reading`, and
        not those of the encoder. Raises UserError when `models()` does not have it, when it has
        fewer layers, and when it cannot read the rows.
        """
        config = self.config
        loading: Loading = {
            "dropout": dropout,
            "decoding": config.decoding,
            "as_stored": self.as_stored,
            "device": self.build_device,
            "empty": self.empty,
        }
        if name is not None:
            self._check_reads(name, "encoder", own_pieces=own_pieces)
            tokenizer = self.tokenizer
            if own_pieces:
                tokenizer = load_tokenizer(name, ends=config.ends_sentences)
            check_embedded(name, tokenizer, int(model_shape(name)["vocab_size"]))
        if not isinstance(config, TrainingConfig):
            return Encoder(name or config.encoder, depth=depth, **loading)
        if name is None and dropout is None:
            loading["dropout"] = config.encoder_dropout
        encoder = Encoder(
            name or config.encoder,
            checkpointing=config.gradient_checkpointing,
            chunk_size=config.chunk_size,
            low_rank=config.low_rank if name is None else None,
            depth=depth,
            **loading,
        )
        if name is not None and encoder.longest < config.max_length:
            raise UserError(
                f'encoder "{name}" has room for {encoder.longest} tokens, and max_length is '
                f"{config.max_length}; lower it"
            )
        return encoder

    def reading(self, corpus: str, name: str) -> Callable[[TextBatch], TextBatch]:
        """The batch that another model reads in the place of one of a corpus: its own word pieces.

        The batch has the same items, one row for each of their texts, with the model's own [CLS]
        and [SEP] and at most `max_length` tokens. It is for `prepared`. name: a model that
        `models()` has. Raises UserError when it does not, and without a tokenizer.
        """
        self.declared.check_named(name)
        config = self.config
        assert isinstance(config, TrainingConfig), "what trains nothing has no batches"

        @cache  # an exported method never reads the corpus
        def parts() -> tuple[Tokens, Template]:
            tokenizer = load_tokenizer(name, ends=config.ends_sentences)
            tokens = Tokens.of(tokenised(corpus, tokenizer).read(), tokenizer.pad_token_id)
            return tokens, Template.plain(tokenizer)

        def read(batch: TextBatch) -> TextBatch:
            tokens, template = parts()
            limit = config.max_length - len(template)
            found = item_batch(tokens, template, limit, batch.items.numpy())
            return replace(found, epoch=batch.epoch, shuffled_length=found.input_ids.shape[1])

        return read

    @property
    def as_stored(self) -> bool:
        """Whether a frozen encoder that is stored in bf16 stays so: float32 is not asked for."""
        return getattr(self.config, "precision", None) != "fp32"

    def _check_reads(self, name: str, role: str, *, own_pieces: bool = False) -> None:
        """Raise UserError unless a further model is declared, and has the encoder's tokenizer.

        role: of the model, in the message. own_pieces: its tokenizer may be any.
        """
        encoder = self.config.encoder
        self.declared.check_named(name)
        if name != encoder and not own_pieces:
            whose = (f'{role} "{name}"', f'encoder "{encoder}"')
            check_same_tokenizer(load_tokenizer(name), self.tokenizer, whose)

    def vocabulary_head(self) -> VocabularyHead:
        """The masked-LM head of the encoder's checkpoint, with weights of its own.

        Raises UserError when the checkpoint has none, and without a token that can mask.
        """
        head = VocabularyHead(self.config.encoder, empty=self.empty)
        require_mask(self.tokenizer, "a masked-LM loss or head")
        return head

    def next_token_head(self) -> NextTokenHead | VocabularyHead:
        """The head of a decoder's checkpoint, with weights of its own: logits of the next piece.

        A bidirectional encoder has `vocabulary_head` in its place. Raises UserError when the
        checkpoint has none.
        """
        if not is_decoder(model_shape(self.config.encoder)):
            return self.vocabulary_head()
        return NextTokenHead(self.config.encoder, as_stored=self.as_stored, empty=self.empty)

    def generator(self, name: str, *, dropout: bool = True) -> Any:
        """A frozen masked language model with the encoder's vocabulary.

        dropout: whether its dropout is on while the method trains. Raises UserError when the model
        has another tokenizer or no masked-LM head, and without a token that can mask.
        """
        vocabulary = int(model_shape(self.config.encoder)["vocab_size"])
        model = Generator(name, vocabulary, dropout=dropout)
        require_mask(self.tokenizer, "replacing masked words")
        self._check_reads(name, "generator")
        return model

    def tokens(self, corpus: str, template: Template | None = None) -> Tokens:
        """A corpus in the encoder's word pieces, from the cache if it is there.

        template: a space that it puts before a sentence may change the sentence's pieces.
        """
        arrays = self.tokenised(corpus, template).read()
        return Tokens.of(arrays, self.tokenizer.pad_token_id)

    def tokenised(self, corpus: str, template: Template | None = None) -> SharedArrays:
        """The arrays of `tokens`, which may not be there yet."""
        leading_space = template is not None and template.leading_space
        return tokenised(corpus, self.tokenizer, leading_space=leading_space)

    def label_subset(self, corpus: str) -> np.ndarray | None:
        """The items of a labelled corpus that this configuration may see; None: all of them."""
        drawn = self.drawn_labels(corpus)
        return None if drawn is None else drawn.read()["items"]

    def drawn_labels(self, corpus: str) -> SharedArrays | None:
        """The array `items` of `label_subset`, which may not be there yet; None: all items."""
        fraction, subset = label_share(self.config)
        origin = source(corpus)
        if fraction == 1 or not origin.labelled:
            return None
        name = f"{origin.digest(origin.paths())}-{fraction}-{subset}"
        return SharedArrays(
            cache_folder() / "subsets" / name,
            f"label subset {subset} with {fraction:g} of {corpus}",
            lambda: {"items": np.asarray(label_subset(len(self.tokens(corpus)), fraction, subset))},
        )

    def artefact(self, name: str) -> Mapping[str, np.ndarray]:
        """The arrays of one of the method's artefacts, by name.

        They are built now if no trial has built them yet.
        """
        declared: dict[str, Artefact] = {found.name: found for found in self.declared.artefacts}
        return self.built(declared[name]).read()

    def built(self, artefact: Artefact) -> SharedArrays:
        """The arrays of an artefact, which may not be there yet."""
        name = artefact.name
        # The plugin's source is part of the digest, so a changed `build` builds again.
        fields = (*artefact.fields, *DECODER_FIELDS)  # they change what an encoder gives
        values: dict[str, Any] = {field: getattr(self.config, field) for field in fields}
        values["as_stored"] = self.as_stored
        digest = digest_of([self.identity(artefact.models), values])
        folder = cache_folder() / "artefacts" / f"{self.declared.name}-{name}-{digest}"

        def build() -> Mapping[str, np.ndarray]:
            # Whether this trial or another one builds must not change what the trial draws next.
            with random_state_kept(self.device), alone():
                return artefact.build(self)

        of = ", ".join(map(short_name, artefact.models or (self.config.encoder,)))
        title = f"{name} of {self.declared.name} for {of}"
        return SharedArrays(folder, f"the artefact {title}", build)

    def shared(self) -> list[list[SharedArrays]]:
        """Arrays that trials of this configuration share, in the order in which it is built.

        The arrays of one list do not need one another.
        """
        corpora = list(dict.fromkeys(self.declared.corpora.values()))
        return [
            [self.tokenised(corpus, self.template) for corpus in corpora],
            [drawn for drawn in map(self.drawn_labels, corpora) if drawn is not None],
            [self.built(artefact) for artefact in self.declared.artefacts],
        ]

    def build_shared(self) -> None:
        """Build all of `shared`."""
        for group in self.shared():
            for arrays in group:
                arrays.read()

    def identity(self, models: tuple[str, ...] | None = None) -> list[Any]:
        """Digests of what an artefact depends on besides the configuration.

        models: those of which it is made; None: all of the method.
        """
        declared = self.declared
        readings = [corpus.reading for corpus in declared.sources]
        for name in models or ():
            declared.check_named(name)
        digests = [model_digest(name) for name in (declared.models if models is None else models)]
        return [declared.source_digest, digests, declared.data_digest(), readings, PROTOCOL]


def kept_weights(method: nn.Module) -> Iterator[str]:
    """The names of the parameters that no stage trains, because low-rank changes train instead."""
    for path, part in method.named_modules():
        if isinstance(part, Encoder) and part.low_rank is not None:
            yield from (name for name, _ in part.named_parameters(path) if MARK not in name)
