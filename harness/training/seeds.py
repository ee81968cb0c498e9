"""Seeds of a trial."""

import os
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed every random source, and ask torch for deterministic kernels where it has them."""
    # cuBLAS is deterministic only with a workspace of fixed size.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    # As `use_deterministic_algorithms(True, warn_only=True)`, which also imports the compiler: 1 s.
    torch.set_deterministic_debug_mode("warn")
    # torch prefers cuDNN's attention on some GPUs. Its backward pass is not deterministic, and it
    # prepares itself anew for every shape.
    torch.backends.cuda.enable_cudnn_sdp(False)
    # Filling fresh memory takes 6 % of a step, and nothing here reads what it has not written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def seed_stage(seed: int, number: int) -> None:
    """Seed torch for stage number `number` of a method, from 0.

    Its random numbers then do not depend on how long the stages before it were.
    """
    # No seed below 2 ** 32 gives another stage's numbers.
    torch.manual_seed(seed + (number << 32))


def random_states() -> dict[str, Any]:
    """The states of all random sources, as JSON holds them."""
    name, words, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": [name, np.asarray(words).tolist(), *rest],
        "torch": torch.get_rng_state().tolist(),
        "cuda": torch.cuda.get_rng_state().tolist() if torch.cuda.is_available() else None,
    }


def set_random_states(states: Mapping[str, Any]) -> None:
    """Go back to what `random_states` gave, be it read from JSON."""
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    np.random.set_state(tuple(states["numpy"]))
    torch.set_rng_state(torch.tensor(states["torch"], dtype=torch.uint8))
    if states["cuda"] is not None:
        torch.cuda.set_rng_state(torch.tensor(states["cuda"], dtype=torch.uint8))
