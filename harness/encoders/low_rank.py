"""Low-rank changes of an encoder, which train in the place of its weights (peft's LoRA)."""

import warnings
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from harness.choices import LowRank
from harness.data.revisions import WEIGHTS, parts_of, trained_folder
from harness.errors import NotHere, UserError, extra
from harness.manifests import MANIFEST, damage

MARK = ".lora_"
"""Part of the names of peft's parameters"""
CHANGED_LAYER = ".base_layer."
"""Part of the names of the weights that they change"""


def add_low_rank(model: Any, low_rank: LowRank) -> None:
    """Add low-rank changes to all linear layers of a model of transformers.

    Raises UserError when peft is not installed.
    """
    with extra("lora", "lora_rank"):
        from peft import LoraConfig, inject_adapter_in_model
    config = LoraConfig(r=low_rank.rank, lora_alpha=low_rank.alpha, target_modules="all-linear")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of models that it has seen before
        inject_adapter_in_model(config, model)


def merged_weights(model: Any) -> dict[str, Tensor]:
    """The weights of a model by their names in a model without low-rank changes.

    Such changes are added to the weights that they change.
    """
    weights: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        layer, base, part = name.partition(CHANGED_LAYER)
        if MARK in name:
            continue
        if base and part == "weight":
            value = value + model.get_submodule(layer).get_delta_weight("default").to(value.dtype)
        weights[f"{layer}.{part}" if base else name] = value
    return weights


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
