"""Sentences to vectors at test time: each distinct sentence once, sorted by length, without dropout or gradient."""

import time
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from harness.data.batching import TextBatch, pad
from harness.data.tokens import piece_ids
from harness.errors import TrialFailure
from harness.evaluation.packing import packed_linears
from harness.kit import Kit
from harness.method import Method

TOKENS_PER_BATCH = {"cpu": 1024, "cuda": 65536}
"""On a CPU what fits its caches (measured with 384 wide layers: 8192 tokens take 1.4 times as long)."""

Pieces = tuple[int, ...]


class Embedder:
    """Embeds lists of sentences with a method. Sentences that differ only in what the tokenizer ignores (case, spaces)
    are one; a text is tokenised once, however often it is embedded."""

    def __init__(self, method: Method, kit: Kit) -> None:
        self.method = method
        self.kit = kit
        self.seconds = 0.0
        """Spent embedding so far"""
        self._pieces: dict[str, Pieces] = {}

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """(len(texts), hidden) float32. Raises TrialFailure when a value is not finite."""
        started = time.perf_counter()
        self._tokenise(texts)
        longest_first = sorted({self._pieces[text] for text in texts}, key=lambda pieces: (-len(pieces), pieces))
        was_training = self.method.training
        self.method.eval()
        try:
            with packed_linears(self.method):
                vectors = torch.cat([self._embed(group).float() for group in self._groups(longest_first)]).cpu().numpy()
        finally:
            self.method.train(was_training)
        self.seconds += time.perf_counter() - started
        if not np.isfinite(vectors).all():
            raise TrialFailure("the embeddings are not finite")
        place = {pieces: index for index, pieces in enumerate(longest_first)}
        in_order: np.ndarray = vectors[[place[self._pieces[text]] for text in texts]]
        return in_order

    def _tokenise(self, texts: Sequence[str]) -> None:
        """Cut only where the encoder's positions end."""
        limit = self.method.longest - len(self.method.template)
        new = [text for text in dict.fromkeys(texts) if text not in self._pieces]
        for text, pieces in zip(new, piece_ids(self.kit.tokenizer, new), strict=True):
            self._pieces[text] = tuple(pieces[:limit])

    def _groups(self, longest_first: list[Pieces]) -> Iterator[list[Pieces]]:
        """Batches of about the same number of tokens."""
        budget = TOKENS_PER_BATCH[self.kit.device.type]
        start = 0
        while start < len(longest_first):
            length = len(longest_first[start]) + len(self.method.template)
            stop = start + max(1, budget // length)
            yield longest_first[start:stop]
            start = stop

    def _embed(self, group: list[Pieces]) -> torch.Tensor:
        rows = [np.asarray(pieces, np.int64) for pieces in group]
        ids, mask = pad(rows, self.method.template, self.kit.tokenizer.pad_token_id)
        return self.method.embed(TextBatch(ids, mask, torch.arange(len(group))).to(self.kit.device))
