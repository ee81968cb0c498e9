"""The kit of a method that is used and not trained: what only training reads is left out."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch import nn

from harness.data.tokens import Template, Tokens
from harness.plugin.kit import Kit


class EmbeddingKit(Kit):
    """A kit without corpora, generators, and artefacts that only training reads.

    In their places a method gets what looks like them and has no content, so that it can be built
    where only its weights are.
    """

    def artefact(self, name: str) -> Mapping[str, np.ndarray]:
        """As `Kit.artefact`; of what only training reads, arrays without content."""
        needed = {each.name for each in self.declared.artefacts if each.embeds}
        return self.needed_artefact(name) if name in needed else _NoContent()

    def needed_artefact(self, name: str) -> Mapping[str, np.ndarray]:
        """The arrays of an artefact that embedding needs."""
        return super().artefact(name)

    def tokens(self, corpus: str, template: Template | None = None) -> Tokens:
        """A corpus of two items without text."""
        columns, items = 3, 2
        return Tokens(
            [np.zeros(0, np.int32)] * columns,
            [np.zeros(items + 1, np.int64)] * columns,
            np.zeros(items, np.int64),
            self.tokenizer.pad_token_id,
        )

    def generator(self, name: str, *, dropout: bool = True) -> Any:
        """A module in the place of a generator."""
        return nn.Identity()


class _NoContent(Mapping[str, np.ndarray]):
    """An array with one zero under every name."""

    def __getitem__(self, name: str) -> np.ndarray:
        return np.zeros((1, 1), np.float32)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
