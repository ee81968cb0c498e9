"""Puts the weights that a trial has trained into the pretrained encoder that it started from."""

from typing import Any

from safetensors.torch import load_file

from harness.data.trained_encoders import WEIGHTS, parts_of, trained_folder
from harness.encoders.low_rank import MARK
from harness.errors import NotHere, UserError
from harness.manifests import MANIFEST, damage


def load_trained(model: Any, name: str) -> None:
    """Load the weights of the trial in an encoder's name; a pretrained model stays as it is.

    Raises NotHere when they are not in the cache, and UserError when they do not fit.
    """
    _, trial = parts_of(name)
    if trial is None:
        return
    folder = trained_folder(trial)
    if damage(folder / MANIFEST):
        raise NotHere(f'encoder "{name}": the weights of trial {trial[:10]} are not in the cache')
    weights = load_file(folder / WEIGHTS)
    if any(MARK in key for key in weights):
        raise UserError(
            f'encoder "{name}": trial {trial[:10]} has trained low-rank changes (lora_rank), from '
            f"which no other trial can start"
        )
    unknown = model.load_state_dict(weights, strict=False).unexpected_keys
    if unknown:
        raise UserError(f'encoder "{name}" has no weights {", ".join(sorted(unknown)[:3])}')
