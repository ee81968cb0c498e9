"""Retrieval on STS-B test: whether a sentence's paraphrase (gold 5.0) is among its nearest (diffcse.md, section 5)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.data.senteval import archive
from harness.data.sts_pairs import LOADERS, Pairs
from harness.errors import TrialFailure
from harness.evaluation.cosines import NOISE, first_rows, unit_rows
from harness.evaluation.suites import Scores, register

CUTOFFS = (1, 3, 5, 10)
PARAPHRASE = 5.0


@dataclass(frozen=True)
class RetrievalProtocol:
    """What counts as found. The papers do not say; the default is that of diffcse.md, section 5."""

    corpus: Literal["distinct", "all", "pairs"] = "distinct"
    """What is searched: distinct sentences; all of them, copies included; the distinct ones of the paraphrases"""
    exclude: Literal["string", "position"] = "string"
    """What is taken out for a query: every copy of it, or only itself"""
    accept: Literal["partner", "any5"] = "partner"
    """The other sentence of its pair, or that of any pair with gold 5.0 that has the query, with all copies"""


PROTOCOLS = {
    "distinct": RetrievalProtocol(),
    "position": RetrievalProtocol(corpus="all", exclude="position"),
    "any5": RetrievalProtocol(accept="any5"),
    "pairs": RetrievalProtocol(corpus="pairs"),
}
"""Those of the calibration in diffcse.md, section 5, the default first. `position` depends on the order of the rows where
the partner has copies: with all-MiniLM-L6-v2 recall@1 is 61.3 to 71.6, in the order of the file 65.5."""


class Retrieval:
    """The sentences of a set of pairs, to be searched by the cosines of their embeddings."""

    def __init__(self, pairs: Pairs, first: np.ndarray, second: np.ndarray) -> None:
        """first, second: (pairs, hidden). Raises TrialFailure when they are constant or not finite, or no pair is a
        paraphrase."""
        self.texts = pairs.texts
        self._units = unit_rows(np.concatenate([first, second]))
        self._distinct = first_rows(self.texts)
        number = {self.texts[row]: place for place, row in enumerate(self._distinct)}
        self._string = np.asarray([number[text] for text in self.texts])
        """(sentences,): equal for equal sentences"""
        one = np.flatnonzero(pairs.gold == PARAPHRASE)
        if len(one) == 0:
            raise TrialFailure(
                f"no pair has the gold score {PARAPHRASE}: there is nothing to retrieve"
            )
        two = one + len(pairs)
        self._queries, self._partners = np.concatenate([one, two]), np.concatenate([two, one])

    def recall(self, protocol: RetrievalProtocol | None = None) -> dict[int, float]:
        """Cutoff k -> percent of the queries (both sentences of each paraphrase) whose partner is among the k nearest.

        Another sentence as near as the partner (to 1e-6) counts as nearer, so that no encoder gains from ties. Copies
        of the partner, where they are searched, rank in the order of the rows: only the partner's own row is a hit.
        """
        protocol = protocol or RetrievalProtocol()
        corpus = self._corpus(protocol)
        cosines = self._units[self._queries] @ self._units[corpus].T
        cosines[self._excluded(self._queries, corpus, protocol)] = -np.inf
        wanted = self._wanted(corpus, protocol)
        best = np.where(wanted, cosines, -np.inf).max(axis=1)
        later_copies = self._same_string(self._partners, corpus) & (
            corpus > self._partners[:, None]
        )
        ahead = ((cosines >= best[:, None] - NOISE) & ~wanted & ~later_copies).sum(axis=1)
        found = best > -np.inf  # an own copy may be the partner, and taken out
        return {cutoff: float(100 * (found & (ahead < cutoff)).mean()) for cutoff in CUTOFFS}

    def nearest(self, query: str, vector: np.ndarray, count: int) -> list[tuple[str, float]]:
        """The `count` distinct sentences nearest to any sentence, its vector (hidden,), with cosines, nearest first.

        The query itself is left out, in upper or lower case: the papers print sentences in lower case, and two of
        DiffCSE's three queries are not in the set. Raises TrialFailure when the vector is not finite or zero.
        """
        norm = float(np.linalg.norm(np.asarray(vector, np.float64)))
        if not np.isfinite(norm) or norm == 0:
            raise TrialFailure(
                f'the embedding of "{query}" has no direction (its length is {norm})'
            )
        corpus = np.asarray(
            [row for row in self._distinct if self.texts[row].lower() != query.lower()]
        )
        cosines = self._units[corpus] @ np.asarray(vector, np.float64) / norm
        order = np.argsort(-cosines, kind="stable")[:count]
        return [(self.texts[corpus[place]], float(cosines[place])) for place in order]

    def _corpus(self, protocol: RetrievalProtocol) -> np.ndarray:
        """The rows that are searched."""
        if protocol.corpus == "all":
            return np.arange(len(self.texts))
        if protocol.corpus == "distinct":
            return self._distinct
        paraphrases: np.ndarray = self._distinct[np.unique(self._string[self._queries])]
        return paraphrases

    def _excluded(
        self, queries: np.ndarray, corpus: np.ndarray, protocol: RetrievalProtocol
    ) -> np.ndarray:
        """(queries, corpus): what is no candidate. A corpus of distinct sentences has a query once at most."""
        own: np.ndarray = queries[:, None] == corpus
        by_position = protocol.corpus == "all" and protocol.exclude == "position"
        return own if by_position else self._same_string(queries, corpus)

    def _wanted(self, corpus: np.ndarray, protocol: RetrievalProtocol) -> np.ndarray:
        """(queries, corpus): what counts as found."""
        wanted: np.ndarray = self._same_string(self._partners, corpus)
        if protocol.accept == "any5":
            wanted = self._same_string(self._queries, self._queries) @ wanted
        elif protocol.corpus == "all":
            wanted = self._partners[:, None] == corpus
        return wanted

    def _same_string(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """(rows, others)."""
        same: np.ndarray = self._string[rows][:, None] == self._string[others]
        return same


def recalls(task: str, pairs: Pairs, vectors: np.ndarray) -> Scores:
    """The default protocol's recall is reported; the others' are details, `retrieval/protocol/recall@k`."""
    found = Retrieval(pairs, vectors[: len(pairs)], vectors[len(pairs) :])
    recall = {name: found.recall(protocol) for name, protocol in PROTOCOLS.items()}
    details = {
        f"{task}/{name}/recall@{k}": value
        for name in PROTOCOLS
        for k, value in recall[name].items()
    }
    return Scores({f"recall@{k}": value for k, value in recall["distinct"].items()}, details)


retrieval_suite = register("retrieval", {"retrieval": LOADERS["stsb"]}, lambda: [archive()])(
    recalls
)
