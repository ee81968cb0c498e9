"""harness: a distributed benchmark-and-sweep harness for contrastive sentence embeddings."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

PROTOCOL = 6
"""The number of the training loop and the evaluation, which is part of every trial's key.

It is raised by hand when a change of either changes a result.
"""

_HOMES = {
    "encoder": ("harness.export.folder", "encoder"),
    "load": ("harness.trials.publishing", "data_frame"),
    "plan": ("harness.api", "plan"),
    "run": ("harness.api", "run"),
    "sweep": ("harness.api", "sweep"),
    "table": ("harness.api", "table"),
}


def __getattr__(name: str) -> Any:
    """The functions of docs/python.md, imported when they are asked for."""
    if name not in _HOMES:
        raise AttributeError(f"harness has no {name}")
    module, function = _HOMES[name]
    return getattr(import_module(module), function)
