"""Sentences to vectors at test time: each distinct sentence once, sorted by length, without dropout or gradient."""

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from harness.data.batching import TextBatch, pad
from harness.data.tokens import Template, piece_ids
from harness.device import token_groups
from harness.errors import TrialFailure
from harness.evaluation.packing import packed_linears
from harness.plugin.kit import Kit
from harness.plugin.method import FrozenMethod, Method

Pieces = tuple[int, ...]


class Embedder:
    """Embeds lists of sentences with a method. Sentences that differ only in what the tokenizer ignores (case, spaces)
    are one; a text is tokenised once, however often it is embedded, and a frozen encoder reads it once."""

    def __init__(self, method: Method, kit: Kit) -> None:
        self.method = method
        self.kit = kit
        self.seconds, self.sentences = 0.0, 0
        """Spent embedding so far, and how many sentences were"""
        self.progress: Callable[[int, int], None] = lambda *_: None
        """Told after every batch how many sentences of how many are embedded"""
        self._pieces: dict[str, Pieces] = {}
        self._base: dict[Pieces, torch.Tensor] = {}

    @property
    def dev_differs(self) -> bool:
        """Whether a sentence has another vector on dev than on test."""
        plain = type(self.method)
        return plain.embed_dev is not Method.embed_dev or plain.test_text is not Method.test_text

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str], *, dev: bool = False) -> np.ndarray:
        """(len(texts), hidden) float32; `dev`: as for choosing a checkpoint, which differs in a few methods.

        Raises TrialFailure when a value is not finite.
        """
        started = time.perf_counter()
        if not dev:
            texts = [self.method.test_text(text) for text in texts]
        self._tokenise(texts)
        longest_first = sorted(
            {self._pieces[text] for text in texts}, key=lambda pieces: (-len(pieces), pieces)
        )
        was_training = self.method.training
        self.method.eval()
        try:
            with packed_linears(self.method):
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

    @property
    def _template(self) -> Template:
        return self.method.evaluation_template

    def _tokenise(self, texts: Sequence[str]) -> None:
        """Cut only where the encoder's positions end."""
        limit = self.method.longest - len(self._template)
        space = " " if self._template.leading_space else ""
        new = [text for text in dict.fromkeys(texts) if text not in self._pieces]
        for text, pieces in zip(
            new, piece_ids(self.method.tokenizer, [space + text for text in new]), strict=True
        ):
            self._pieces[text] = tuple(pieces[:limit])

    def _vectors(self, longest_first: list[Pieces], dev: bool) -> torch.Tensor:
        if not isinstance(self.method, FrozenMethod):
            return self._run(self.method.embed_dev if dev else self.method.embed, longest_first)
        new = [pieces for pieces in longest_first if pieces not in self._base]
        if new:
            self._base.update(zip(new, self._run(self.method.base, new), strict=True))
        return self.method.transform(torch.stack([self._base[pieces] for pieces in longest_first]))

    def _run(
        self, embed: Callable[[TextBatch], torch.Tensor], longest_first: list[Pieces]
    ) -> torch.Tensor:
        lengths = np.asarray([len(pieces) + len(self._template) for pieces in longest_first])
        found: list[torch.Tensor] = []
        done = 0
        for group in token_groups(lengths, self.kit.device):
            rows = longest_first[group]
            vectors = embed(self._batch(rows))
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
