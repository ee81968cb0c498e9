"""Sentences to vectors at test time: each distinct sentence once, without dropout or gradients.

On a CPU, oneDNN can lay out the weights of linear layers beforehand. It then multiplies float32
matrices an eighth faster than the default library multiplies row-major ones
(benchmarks/README.md), and the numbers are the same to 1e-6. Under bf16 autocast the weights are
also rounded once, not at every call. The weights must not change meanwhile.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from harness.data.batching import TextBatch, pad
from harness.data.texts import ITEMS_AT_ONCE, slices
from harness.data.tokens import Template, check_embedded
from harness.device import token_groups
from harness.errors import TrialFailure, UserError
from harness.plugin.kit import Kit
from harness.plugin.method import FrozenMethod, Method, sentence_pieces
from harness.ranks import has_ranks

ROWS = 1024
"""The number of rows for which the layout is made; it works for any other number"""


@contextmanager
def packed_linears(module: nn.Module) -> Iterator[None]:
    """Let every float32 linear layer of `module` on a CPU work with packed weights in the block.

    Afterwards the layers are as before. Enter it under the autocast of the forward passes, since
    that decides the type of the packed weights.
    """
    # Subclasses of Linear may compute something else.
    layers = [
        layer for layer in module.modules() if type(layer) is nn.Linear and _packable(layer.weight)
    ]
    # While a method trains, a layer may have rounded weights (harness.encoders.rounded).
    before = [vars(layer).get("forward") for layer in layers]
    for layer in layers:
        layer.forward = _Packed(layer)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        # The attribute hid the method of the class, which is there again.
        for layer, forward in zip(layers, before, strict=True):
            del layer.forward
            if forward is not None:
                layer.forward = forward  # type: ignore[method-assign]


class _Packed:
    """The forward pass of one layer with packed weights."""

    def __init__(self, layer: nn.Linear) -> None:
        self.dtype = _packed_type()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(
            layer.weight.detach().to(self.dtype), ROWS
        )
        self.bias = None if layer.bias is None else layer.bias.detach().to(self.dtype)

    def __call__(self, states: Tensor) -> Tensor:
        states = states.to(self.dtype)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            states, self.weight, self.bias, "none", [], None
        )
        return product


def _packed_type() -> torch.dtype:
    """The type in which layers multiply now."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32


def _packable(weight: Tensor) -> bool:
    # The operators are private ones of torch, so a build may lack them.
    return (
        weight.dim() == 2  # one that is sharded over several processes is not there now
        and weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and _multiplies(_packed_type())
    )


def _multiplies(kind: torch.dtype) -> bool:
    """Whether oneDNN has products of this type on this CPU; torch's own layers emulate others."""
    if kind == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return kind == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())


def check_embeds(method: Method[Any], kit: Kit) -> None:
    """Raise UserError when a word piece has no embedding, or no sentence fits into a template."""
    model, name = _language_model(method), kit.config.encoder
    if model is None:
        return  # such as word vectors
    check_embedded(name, method.tokenizer, int(model.config.vocab_size))
    around = len(method.evaluation_template)
    if around >= method.longest:
        raise UserError(
            f'encoder "{name}" has room for {method.longest} tokens, and {around} stand around '
            f"every sentence: choose a shorter template, or shorter prompts"
        )


def check_trains(method: Method[Any], kit: Kit) -> None:
    """Raise UserError when a text of a corpus, cut as configured, has more tokens than positions.

    The corpora are tokenised, if they are not yet.
    """
    declared = kit.declared
    read = {name for stage in declared.stages if stage.batches.text for name in stage.streams}
    if not read or _language_model(method) is None:
        return
    for corpus in sorted({declared.corpora[name] for name in read}):
        lengths = kit.tokens(corpus, method.template).item_lengths(method.training_pieces)
        tokens = int(np.max(lengths, initial=0)) + len(method.template)
        if tokens > method.longest:
            raise UserError(
                f"{corpus} has texts of {tokens} tokens (max_length), and encoder "
                f'"{kit.config.encoder}" has room for {method.longest}: its positions, less those '
                f"that prompts take. Lower max_length by {tokens - method.longest}"
            )


def _language_model(method: Method[Any]) -> Any:
    """The model of transformers in the encoder of a method; None where there is none."""
    encoder: Any = getattr(method, "encoder", None)
    parts = encoder.modules() if hasattr(encoder, "modules") else ()
    return next((part for part in parts if isinstance(part, transformers.PreTrainedModel)), None)


Pieces = bytes
"""The word pieces of a sentence, without the template; many sentences are kept, so in few bytes"""
_PIECE = np.dtype(">u4")  # the highest byte first, so bytes sort as the numbers do


class Embedder:
    """Embeds lists of sentences with a method.

    Sentences count as one when they differ only in what the tokenizer ignores, such as case and
    spaces. A text is tokenised once, however often it is embedded, and a frozen encoder reads it
    once.
    """

    def __init__(self, method: Method[Any], kit: Kit) -> None:
        """Embed with `method`, on the device of `kit`.

        Raises UserError when the encoder of the method cannot read what its tokenizer gives.
        """
        check_embeds(method, kit)
        self.method = method
        self.kit = kit
        self.seconds, self.sentences = 0.0, 0
        """Seconds spent so far, and distinct sentences embedded in them"""
        self.progress: Callable[[int, int], None] = lambda *_: None
        """Called after every batch with the number of sentences done and of all in this call"""
        self._pieces: dict[str, Pieces] = {}
        self._base: dict[Pieces, torch.Tensor] = {}

    def __call__(self, texts: Sequence[str], *, dev: bool = False) -> np.ndarray:
        """The vectors of the texts, (len(texts), hidden) float32.

        `dev`: as for the choice of a checkpoint, which differs in a few methods. Raises
        TrialFailure when a value is not finite.
        """
        started = time.perf_counter()
        if not dev:
            texts = [self.method.test_text(text) for text in texts]
        self._tokenise(texts)
        # Sorted by length, so that batches have little padding. The pieces themselves break ties:
        # the same sentences then make the same batches, whatever their order was.
        longest_first = sorted(
            {self._pieces[text] for text in texts}, key=lambda pieces: (-len(pieces), pieces)
        )
        # Dev is scored in the middle of training, which goes on afterwards.
        was_training = self.method.training
        self.method.eval()
        try:
            # A sharded weight that a pass in inference mode has made whole, or let go, could never
            # train.
            without_gradients = torch.no_grad() if has_ranks() else torch.inference_mode()
            with without_gradients, packed_linears(self.method):
                vectors = self._vectors(longest_first, dev).float().cpu().numpy()
        finally:
            self.method.train(was_training)
        self.seconds += time.perf_counter() - started
        self.sentences += len(longest_first)
        if not np.isfinite(vectors).all():
            raise TrialFailure("the embeddings are not finite")
        place = {pieces: index for index, pieces in enumerate(longest_first)}
        return vectors[[place[self._pieces[text]] for text in texts]]

    @cached_property  # it is asked for with every sentence
    def _template(self) -> Template:
        return self.method.evaluation_template

    def _tokenise(self, texts: Sequence[str]) -> None:
        """Tokenise the new ones among the texts."""
        new = [text for text in dict.fromkeys(texts) if text not in self._pieces]
        for part in slices(new, ITEMS_AT_ONCE):
            rows = sentence_pieces(self.method, self._template, part)
            for text, pieces in zip(part, rows, strict=True):
                self._pieces[text] = np.asarray(pieces, _PIECE).tobytes()

    def _vectors(self, longest_first: list[Pieces], dev: bool) -> torch.Tensor:
        """The vectors of distinct sentences, (sentences, hidden)."""
        if not isinstance(self.method, FrozenMethod):
            return self._run(self.method.embed_dev if dev else self.method.embed, longest_first)
        # What the frozen encoder gives is kept; what the method makes of it changes in training.
        new = [pieces for pieces in longest_first if pieces not in self._base]
        if new:
            self._base.update(zip(new, self._run(self.method.base, new), strict=True))
        return self.method.transform(torch.stack([self._base[pieces] for pieces in longest_first]))

    def _run(
        self, embed: Callable[[TextBatch], torch.Tensor], longest_first: list[Pieces]
    ) -> torch.Tensor:
        """Apply `embed` to distinct sentences, batch by batch; (sentences, width)."""
        around = len(self._template)
        lengths = np.asarray([len(each) // _PIECE.itemsize + around for each in longest_first])
        parts: list[torch.Tensor] = []
        done = 0
        for group in token_groups(lengths, self.kit.device):
            rows = longest_first[group]
            vectors = embed(self._batch(rows))
            # A user's plugin may give anything.
            if (
                vectors.ndim != 2
                or len(vectors) != len(rows)
                or (parts and vectors.shape[1] != parts[0].shape[1])
            ):
                raise TrialFailure(
                    f"embed() gave the shape {tuple(vectors.shape)} for {len(rows)} sentences"
                )
            parts.append(vectors)
            done += len(rows)
            self.progress(done, len(longest_first))
        return torch.cat(parts)

    def _batch(self, group: list[Pieces]) -> TextBatch:
        rows = [np.frombuffer(pieces, _PIECE).astype(np.int64) for pieces in group]
        ids, mask = pad(rows, self._template, self.method.tokenizer.pad_token_id)
        batch = TextBatch(ids, mask, torch.arange(len(group)))
        # While a GPU reads one batch, the CPU makes the next one.
        return (batch.pinned() if self.kit.device.type == "cuda" else batch).to(self.kit.device)
