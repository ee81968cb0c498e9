"""Encoders that a trial has trained: their names, and the place of their weights in the cache.

`bert-base-uncased@KEY` is bert-base-uncased with the weights that the trial KEY has trained. Its
configuration and its tokenizer are those of the pretrained model.
"""

import re
from pathlib import Path

from harness.files import cache_folder

WEIGHTS = "weights.safetensors"
"""The file of the weights; the names in it are those of the pretrained model"""
_NAME = re.compile(r"(?P<model>.+)@(?P<trial>[0-9a-f]{32})")


def parts_of(encoder: str) -> tuple[str, str | None]:
    """The pretrained model behind an encoder, and the key of the trial that has trained it.

    The key is None for a pretrained model.
    """
    found = _NAME.fullmatch(encoder)
    return (found["model"], found["trial"]) if found else (encoder, None)


def trained_name(encoder: str, trial: str) -> str:
    """The name of the encoder that the trial with this key has trained."""
    return f"{encoder}@{trial}"


def trained_folder(trial: str) -> Path:
    """The folder of the cache that has the encoder of the trial with this key."""
    return cache_folder() / "encoders" / trial
