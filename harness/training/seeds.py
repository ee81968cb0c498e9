"""How a trial is seeded."""

import os
import random

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed every random source, and ask torch for deterministic kernels where it has them."""
    # cuBLAS is deterministic only with a workspace of fixed size.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling fresh memory takes 6 % of a step, and nothing here reads what it has not written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def seed_stage(seed: int, number: int) -> None:
    """Seed torch for stage number `number` of a method, from 0.

    Its random numbers then do not depend on how long the stages before it were.
    """
    # No seed below 2 ** 32 gives another stage's numbers.
    torch.manual_seed(seed + (number << 32))
