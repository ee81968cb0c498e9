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
