"""harness: a distributed benchmark-and-sweep harness for contrastive sentence embeddings."""

__version__ = "0.1.0"

PROTOCOL = 4
"""The number of the training loop and the evaluation, which is part of every trial's key.

It is raised by hand when a change of either changes a result.
"""
