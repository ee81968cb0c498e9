"""Artefacts: something costly that is made once for a method, kept on disk and shared by trials."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Artefact:
    """Something costly that trials share, such as a frozen encoder's embeddings.

    It is built once for each combination of its fields, kept on disk and memory-mapped.

    Example:
        Artefact("vectors", ("corpus", "max_length"), lambda kit: {"vectors": embed(kit)})
    """

    name: str
    fields: tuple[str, ...]
    """The configuration fields on which it depends; trials that agree in them share it"""
    build: Callable[[Any], Mapping[str, np.ndarray]]
    """Kit -> named arrays"""
    embeds: bool = True
    """Whether `embed` needs it; what only training needs stays behind when a model is exported"""
