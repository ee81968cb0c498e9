"""Where a trial runs and how it is seeded."""

import os
import random

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed every random source, and ask torch for deterministic kernels where it has them."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # filling fresh memory costs 6 % of a step, and nothing here reads what it has not written
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def seed_stage(seed: int, number: int) -> None:
    """Seed torch for a later stage (its number in the method): how long the earlier ones were does not matter."""
    torch.manual_seed(seed + (number << 32))


def device() -> torch.device:
    """The GPU where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def resolve_precision(wanted: str, on: torch.device) -> str:
    """auto -> bf16 where the hardware multiplies it, else fp32."""
    if wanted != "auto":
        return wanted
    if on.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() else "fp32"
