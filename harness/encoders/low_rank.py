"""Low-rank changes of an encoder, which train in the place of its weights (peft's LoRA)."""

import warnings
from dataclasses import dataclass
from typing import Any

from harness.errors import UserError

MARK = ".lora_"
"""What stands in the names of peft's parameters"""


@dataclass(frozen=True)
class LowRank:
    """The changes of every linear layer with the weight W: W + alpha / rank * B A.

    A begins with random numbers and B with 0, so that nothing is changed at first (Hu et al. 2021,
    arXiv 2106.09685, section 4.1).
    """

    rank: int
    """Rows of A and columns of B"""
    alpha: float


def add_low_rank(model: Any, low_rank: LowRank) -> None:
    """Add low-rank changes to all linear layers of a model of transformers.

    Raises UserError when peft is not installed.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise UserError(
            "lora_rank needs peft, which is not installed; pip install harness-embeddings[lora]"
        ) from None
    config = LoraConfig(r=low_rank.rank, lora_alpha=low_rank.alpha, target_modules="all-linear")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of models that it has seen before
        inject_adapter_in_model(config, model)
