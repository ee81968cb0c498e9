"""Embeddings that are kept on disk for later evaluations, and read by memory map.

A folder holds pairs of files: `NAME.npy`, (sentences, hidden) float32, and `NAME.parquet` with the
texts of these sentences in the same order. Their manifest `NAME.json` is written last, so a pair
counts only when it is there. Files never change; damaged ones are removed.
"""

import logging
import uuid
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import TrialFailure
from harness.evaluation.suites import Embed
from harness.files import written_whole
from harness.manifests import damage, seal

_logger = logging.getLogger(__name__)
_PAIR = (".npy", ".parquet")
"""The endings of the files of a pair"""


class KeptEmbeddings:
    """A model whose vectors are kept: a sentence is embedded once, ever."""

    def __init__(self, folder: Path, embed: Embed, *, write: bool) -> None:
        """Read the vectors in `folder`, and embed with `embed` what is not there.

        `write`: keep new vectors in the folder, too.
        """
        self.folder, self.embed, self.write = folder, embed, write
        self._parts: list[np.ndarray] = []
        self._place: dict[str, tuple[int, int]] = {}
        for manifest in sorted(folder.glob("*.json")):
            if why := damage(manifest):
                _logger.warning("%s; its sentences are embedded again", why)
                _remove(manifest)
                continue
            texts = pq.read_table(manifest.with_suffix(".parquet"))["text"].to_pylist()
            self._add(texts, np.load(manifest.with_suffix(".npy"), mmap_mode="r"))

    def __call__(self, texts: list[str], *, dev: bool = False) -> np.ndarray:
        """The vectors of the texts, (len(texts), hidden) float32.

        What is not kept yet is embedded in one pass. `dev`: passed on to the model. Raises
        TrialFailure when the new vectors are not as wide as the kept ones.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._place]
        if new:
            vectors = self.embed(new, dev=dev)
            self._add(new, vectors)
            if self.write:
                self._keep(new, vectors)
        places = np.asarray([self._place[text] for text in texts])
        found = np.empty((len(texts), self._parts[0].shape[1]), np.float32)
        # File by file, so that of each only the rows that are asked for are read.
        for number, part in enumerate(self._parts):
            rows = np.flatnonzero(places[:, 0] == number)
            found[rows] = part[places[rows, 1]]
        return found

    def _add(self, texts: list[str], vectors: np.ndarray) -> None:
        """Add vectors to those in memory. Raises TrialFailure for another width than theirs."""
        if self._parts and vectors.shape[1] != self._parts[0].shape[1]:
            widths = f"{self._parts[0].shape[1]} and {vectors.shape[1]}"
            raise TrialFailure(
                f"embeddings of two widths, {widths}; delete {self.folder} if the kept ones are old"
            )
        # Two processes may have kept the same sentence; the vectors read first count.
        self._place |= {
            text: (len(self._parts), row)
            for row, text in enumerate(texts)
            if text not in self._place
        }
        self._parts.append(vectors)

    def _keep(self, texts: list[str], vectors: np.ndarray) -> None:
        """Write the newest vectors. When that fails, the scores are still right."""
        # A random name, since several processes may write into one folder.
        path = self.folder / uuid.uuid4().hex
        try:
            with written_whole(path.with_suffix(".npy")) as temporary, temporary.open("wb") as file:
                np.save(file, vectors)
            with written_whole(path.with_suffix(".parquet")) as temporary:
                pq.write_table(pa.table({"text": texts}), temporary)
            # The manifest comes last: other processes look for it.
            seal(path.with_suffix(".json"), [path.with_suffix(end) for end in _PAIR])
        except OSError as error:
            _logger.warning("the embeddings %s are not kept: %s", path, error)
        else:
            # From now on they are read from the file, and their memory is free.
            self._parts[-1] = np.load(path.with_suffix(".npy"), mmap_mode="r")


def _remove(manifest: Path) -> None:
    """Remove a pair and its manifest, as far as that is possible; nothing can read it any more."""
    for end in (".json", *_PAIR):
        with suppress(OSError):
            manifest.with_suffix(end).unlink()
