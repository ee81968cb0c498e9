"""Sentences to vectors at test time: each distinct sentence once, sorted by length, without dropout or gradient."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from harness.data.batching import TextBatch, pad
from harness.data.tokens import piece_ids
from harness.errors import TrialFailure
from harness.kit import Kit
from harness.method import Method

TOKENS_PER_BATCH = {"cpu": 4096, "cuda": 65536}


class Embedder:
    """Embeds lists of sentences with a method; word pieces are kept, so a text is tokenised once however often it is
    embedded."""

    def __init__(self, method: Method, kit: Kit) -> None:
        self.method = method
        self.kit = kit
        self._pieces: dict[str, np.ndarray] = {}

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """(len(texts), hidden) float32. Raises TrialFailure when a value is not finite."""
        distinct = list(dict.fromkeys(texts))
        self._tokenise(distinct)
        longest_first = sorted(distinct, key=lambda text: len(self._pieces[text]), reverse=True)
        was_training = self.method.training
        self.method.eval()
        try:
            vectors = torch.cat([self._embed(group).float() for group in self._groups(longest_first)]).cpu().numpy()
        finally:
            self.method.train(was_training)
        if not np.isfinite(vectors).all():
            raise TrialFailure("the embeddings are not finite")
        place = {text: index for index, text in enumerate(longest_first)}
        return vectors[[place[text] for text in texts]]

    def _tokenise(self, texts: Sequence[str]) -> None:
        new = [text for text in texts if text not in self._pieces]
        limit = self._limit()
        for text, pieces in zip(new, piece_ids(self.kit.tokenizer, new), strict=True):
            self._pieces[text] = np.asarray(pieces[:limit], np.int64)

    def _limit(self) -> int:
        """Test sentences are cut only where the encoder's positions end."""
        return self.method.longest - len(self.method.template)

    def _groups(self, texts: list[str]) -> Iterator[list[str]]:
        """Batches of about the same number of tokens; `texts` are sorted, longest first."""
        budget = TOKENS_PER_BATCH[self.kit.device.type]
        start = 0
        while start < len(texts):
            length = len(self._pieces[texts[start]]) + len(self.method.template)
            stop = start + max(1, budget // length)
            yield texts[start:stop]
            start = stop

    def _embed(self, texts: list[str]) -> torch.Tensor:
        ids, mask = pad([self._pieces[text] for text in texts], self.method.template, self.kit.tokenizer.pad_token_id)
        return self.method.embed(TextBatch(ids, mask, torch.arange(len(texts))).to(self.kit.device))
