"""Retrieval on STS-B test: whether the paraphrase of a sentence is among its nearest sentences.

Paraphrases are the pairs with gold score 5.0 (diffcse.md, section 5).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.data.senteval import archive
from harness.data.sts_pairs import LOADERS, Pairs
from harness.errors import TrialFailure
from harness.evaluation.correlation import NOISE, first_rows, unit_rows
from harness.evaluation.scores import Scores
from harness.evaluation.suites import register

CUTOFFS = (1, 3, 5, 10)
PARAPHRASE = 5.0
"""The gold score of a paraphrase"""


@dataclass(frozen=True)
class RetrievalProtocol:
    """Variant of retrieval: what is searched, and what counts as found.

    The papers do not say it. The default is that of diffcse.md, section 5.
    """

    corpus: Literal["distinct", "all", "pairs"] = "distinct"
    """Candidates: distinct sentences, all sentences, or distinct sentences of paraphrases"""
    exclude: Literal["string", "position"] = "string"
    """Exclusion for a query: every copy of it, or only the query itself"""
    accept: Literal["partner", "any5"] = "partner"
    """Hits: the other sentence of the pair, or of any pair with gold 5.0 and this query"""


PROTOCOLS = {
    "distinct": RetrievalProtocol(),
    "position": RetrievalProtocol(corpus="all", exclude="position"),
    "any5": RetrievalProtocol(accept="any5"),
    "pairs": RetrievalProtocol(corpus="pairs"),
}
"""The protocols of the calibration in diffcse.md, section 5; the first one is the default.

`position` depends on the order of the rows, because a partner may have copies. With
all-MiniLM-L6-v2, recall@1 is between 61.3 and 71.6, and 65.5 in the order of the file."""


class Retrieval:
    """The sentences of a set of pairs, which are searched by the cosines of their embeddings."""

    def __init__(self, pairs: Pairs, first: np.ndarray, second: np.ndarray) -> None:
        """Take the embeddings of the first and of the second sentences, each (pairs, hidden).

        Raises TrialFailure when they are constant or not finite, or when no pair is a paraphrase.
        """
        self.texts = pairs.texts
        self._units = unit_rows(np.concatenate([first, second]))
        self._distinct = first_rows(self.texts)
        number = {self.texts[row]: place for place, row in enumerate(self._distinct)}
        self._string = np.asarray([number[text] for text in self.texts])
        """(sentences,): a number for each sentence, equal for equal sentences"""
        # Both sentences of a paraphrase are queries, and each is the partner of the other.
        one = np.flatnonzero(pairs.gold == PARAPHRASE)
        if len(one) == 0:
            raise TrialFailure(
                f"no pair has the gold score {PARAPHRASE}: there is nothing to retrieve"
            )
        two = one + len(pairs)
        self._queries, self._partners = np.concatenate([one, two]), np.concatenate([two, one])

    def recall(self, protocol: RetrievalProtocol = PROTOCOLS["distinct"]) -> dict[int, float]:
        """Cutoff k -> percent of the queries whose partner is among the k nearest sentences.

        Both sentences of each paraphrase are queries. Another sentence that is as near as the
        partner (to 1e-6) counts as nearer. Where copies of the partner are searched, they rank in
        the order of the rows, and only the row of the partner is a hit.
        """
        corpus = self._corpus(protocol)
        cosines = self._units[self._queries] @ self._units[corpus].T
        cosines[self._excluded(corpus, protocol)] = -np.inf
        wanted = self._wanted(corpus, protocol)
        best = np.where(wanted, cosines, -np.inf).max(axis=1)
        later_copies = self._same_string(self._partners, corpus) & (
            corpus > self._partners[:, None]
        )
        # With ties against the partner, an encoder gains nothing from giving many equal vectors.
        ahead = ((cosines >= best[:, None] - NOISE) & ~wanted & ~later_copies).sum(axis=1)
        # The partner may be a copy of the query, which is taken out and so never found.
        found = best > -np.inf
        return {cutoff: float(100 * (found & (ahead < cutoff)).mean()) for cutoff in CUTOFFS}

    def _corpus(self, protocol: RetrievalProtocol) -> np.ndarray:
        """The rows that are searched."""
        if protocol.corpus == "all":
            return np.arange(len(self.texts))
        if protocol.corpus == "distinct":
            return self._distinct
        paraphrases: np.ndarray = self._distinct[np.unique(self._string[self._queries])]
        return paraphrases

    def _excluded(self, corpus: np.ndarray, protocol: RetrievalProtocol) -> np.ndarray:
        """Mask of what is no candidate for each query, (queries, corpus)."""
        # A corpus of distinct sentences has a query at most once, but perhaps in another row.
        if protocol.corpus != "all" or protocol.exclude != "position":
            return self._same_string(self._queries, corpus)
        own: np.ndarray = self._queries[:, None] == corpus
        return own

    def _wanted(self, corpus: np.ndarray, protocol: RetrievalProtocol) -> np.ndarray:
        """Mask of what counts as found for each query, (queries, corpus)."""
        wanted: np.ndarray = self._same_string(self._partners, corpus)
        if protocol.accept == "any5":
            # A product of truth values: whether any copy of the query has this partner.
            wanted = self._same_string(self._queries, self._queries) @ wanted
        elif protocol.corpus == "all":
            wanted = self._partners[:, None] == corpus
        return wanted

    def _same_string(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether two sentences are equal, (rows, others)."""
        same: np.ndarray = self._string[rows][:, None] == self._string[others]
        return same


def recalls(task: str, pairs: Pairs, vectors: np.ndarray) -> Scores:
    """The scores of the suite `retrieval` from the vectors of `pairs.texts`.

    The recall of the default protocol is reported; those of all protocols are details, named
    `retrieval/PROTOCOL/recall@k`.
    """
    found = Retrieval(pairs, vectors[: len(pairs)], vectors[len(pairs) :])
    recall = {name: found.recall(protocol) for name, protocol in PROTOCOLS.items()}
    details = {
        f"{task}/{name}/recall@{cutoff}": value
        for name in PROTOCOLS
        for cutoff, value in recall[name].items()
    }
    default = recall["distinct"]
    return Scores({f"recall@{cutoff}": value for cutoff, value in default.items()}, details)


retrieval_suite = register("retrieval", {"retrieval": LOADERS["stsb"]}, lambda: [archive()])(
    recalls
)
