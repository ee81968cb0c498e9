"""Embeddings kept on disk for later evaluations: read by memory map, only the sentences that are asked for.

A folder holds pairs of files: `NAME.npy`, (sentences, hidden) float32, and `NAME.parquet` with their texts in the
same order. A pair is there when its texts are; files are never changed.
"""

import logging
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import TrialFailure, UserError
from harness.evaluation.suites import Embed

_logger = logging.getLogger(__name__)


class KeptEmbeddings:
    """A model whose vectors are kept: sentences are embedded once, ever."""

    def __init__(self, folder: Path, embed: Embed, *, write: bool) -> None:
        """`write`: keep new vectors too. Raises UserError when a kept file is damaged."""
        self.folder, self.embed, self.write = folder, embed, write
        self._parts: list[np.ndarray] = []
        self._place: dict[str, tuple[int, int]] = {}
        for path in sorted(folder.glob("*.parquet")):
            try:
                self._add(
                    pq.read_table(path)["text"].to_pylist(),
                    np.load(path.with_suffix(".npy"), mmap_mode="r"),
                )
            except (
                OSError,
                EOFError,
                ValueError,
                KeyError,
                pa.ArrowException,
                TrialFailure,
            ) as error:
                reason = str(error).splitlines()[0]
                raise UserError(
                    f"kept embeddings {path} cannot be read ({reason}); delete {folder}"
                ) from None

    def __call__(self, texts: list[str], *, dev: bool = False) -> np.ndarray:
        """(len(texts), hidden) float32; what is not kept yet is embedded in one pass."""
        new = [text for text in dict.fromkeys(texts) if text not in self._place]
        if new:
            vectors = self.embed(new, dev=dev)
            self._add(new, vectors)
            if self.write:
                self._keep(new, vectors)
        places = np.asarray([self._place[text] for text in texts])
        found = np.empty((len(texts), self._parts[0].shape[1]), np.float32)
        for number, part in enumerate(self._parts):
            rows = np.flatnonzero(places[:, 0] == number)
            found[rows] = part[places[rows, 1]]
        return found

    def _add(self, texts: list[str], vectors: np.ndarray) -> None:
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ValueError(f"{len(texts)} sentences, and vectors of the shape {vectors.shape}")
        if self._parts and vectors.shape[1] != self._parts[0].shape[1]:
            widths = f"{self._parts[0].shape[1]} and {vectors.shape[1]}"
            raise TrialFailure(
                f"embeddings of two widths, {widths}; delete {self.folder} if the kept ones are old"
            )
        self._place |= {
            text: (len(self._parts), row)
            for row, text in enumerate(texts)
            if text not in self._place
        }
        self._parts.append(vectors)

    def _keep(self, texts: list[str], vectors: np.ndarray) -> None:
        """Write the newest vectors. A full disk costs the files, no score."""
        path = self.folder / uuid.uuid4().hex
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            np.save(path.with_suffix(".npy"), vectors)
            pq.write_table(pa.table({"text": texts}), path.with_suffix(".tmp"))
            path.with_suffix(".tmp").replace(path.with_suffix(".parquet"))
        except OSError as error:
            _logger.warning("the embeddings %s are not kept: %s", path, error)
        else:
            self._parts[-1] = np.load(
                path.with_suffix(".npy"), mmap_mode="r"
            )  # not in memory any longer
