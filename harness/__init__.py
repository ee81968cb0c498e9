"""harness: a distributed benchmark-and-sweep harness for contrastive sentence embeddings."""

__version__ = "0.1.0"

PROTOCOL = 3
"""Raised by hand when the training loop or the evaluation changes results; part of every trial's key."""
