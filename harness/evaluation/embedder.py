"""Sentences to vectors at test time: each distinct sentence once, without dropout or gradients."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import numpy as np
import torch

from harness.data.batching import TextBatch, pad
from harness.data.tokens import Template
from harness.device import token_groups
from harness.errors import TrialFailure
from harness.evaluation.fitting import check_embeds
from harness.evaluation.packing import packed_linears
from harness.plugin.kit import Kit
from harness.plugin.method import FrozenMethod, Method, sentence_pieces
from harness.ranks import has_ranks

Pieces = tuple[int, ...]
"""The word pieces of a sentence, without the template"""


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

    @property
    def dev_differs(self) -> bool:
        """Whether a sentence may have another vector on dev than on test."""
        plain = type(self.method)
        return plain.embed_dev is not Method.embed_dev or plain.test_text is not Method.test_text

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
            with _without_gradients(), packed_linears(self.method):
                vectors = self._vectors(longest_first, dev).float().cpu().numpy()
        finally:
            self.method.train(was_training)
        self.seconds += time.perf_counter() - started
        self.sentences += len(longest_first)
        if not np.isfinite(vectors).all():
            raise TrialFailure("the embeddings are not finite")
        place = {pieces: index for index, pieces in enumerate(longest_first)}
        in_order: np.ndarray = vectors[[place[self._pieces[text]] for text in texts]]
        return in_order

    @cached_property  # it is asked for with every sentence
    def _template(self) -> Template:
        return self.method.evaluation_template

    def _tokenise(self, texts: Sequence[str]) -> None:
        """Tokenise the new ones among the texts."""
        new = [text for text in dict.fromkeys(texts) if text not in self._pieces]
        rows = sentence_pieces(self.method, self._template, new)
        for text, pieces in zip(new, rows, strict=True):
            self._pieces[text] = tuple(pieces)

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
        lengths = np.asarray([len(pieces) + len(self._template) for pieces in longest_first])
        found: list[torch.Tensor] = []
        done = 0
        for group in token_groups(lengths, self.kit.device):
            rows = longest_first[group]
            vectors = embed(self._batch(rows))
            # A user's plugin may give anything.
            if (
                vectors.ndim != 2
                or len(vectors) != len(rows)
                or (found and vectors.shape[1] != found[0].shape[1])
            ):
                raise TrialFailure(
                    f"embed() gave the shape {tuple(vectors.shape)} for {len(rows)} sentences"
                )
            found.append(vectors)
            done += len(rows)
            self.progress(done, len(longest_first))
        return torch.cat(found)

    def _batch(self, group: list[Pieces]) -> TextBatch:
        rows = [np.asarray(pieces, np.int64) for pieces in group]
        ids, mask = pad(rows, self._template, self.method.tokenizer.pad_token_id)
        return TextBatch(ids, mask, torch.arange(len(group))).to(self.kit.device)


def _without_gradients() -> AbstractContextManager[object]:
    """In the block, nothing is kept for a backward pass."""
    # A sharded weight that a pass in inference mode has made whole, or let go, could never train.
    return torch.no_grad() if has_ranks() else torch.inference_mode()
