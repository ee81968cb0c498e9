"""Device and precision of a trial, and the amount that it computes at a time."""

import platform
from contextlib import AbstractContextManager
from functools import cache
from importlib.metadata import version

import numpy as np
import torch

ROUNDED = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Precision of a training that is not float32 -> the numbers that its products have"""
TOKENS_PER_BATCH = {"cpu": 1024, "cuda": 65536}
"""The most tokens of a batch without gradients, by kind of device. On a CPU a batch should fit into
its caches: with layers 384 wide, 8192 tokens took 1.4 times as long as 1024."""
MIB_PER_TOKEN = 1
"""Memory that a GPU has for each token of such a batch: several times what a token takes in a layer
of a decoder with 7 billion weights. It is that of the whole GPU, however many trials share it: the
last digits of a score depend on which sentences are a batch."""


def device() -> torch.device:
    """The GPU where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def kind_of_machine(on: torch.device) -> list[str | int]:
    """Properties in which two machines agree whose trainings give the same last digits."""
    kind = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    name = str(torch.cuda.get_device_name(on)) if on.type == "cuda" else kind
    return [name, torch.get_num_threads(), torch.__version__, version("transformers")]


def resolve_precision(wanted: str, on: torch.device) -> str:
    """`bf16`, `fp16` or `fp32`: `auto` is what the hardware multiplies fast, the first of them."""
    if wanted != "auto":
        return wanted
    if on.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() else "fp32"


def in_precision(precision: str, on: torch.device) -> torch.autocast:
    """A block in which products are computed in this precision."""
    rounded = precision in ROUNDED
    return torch.autocast(on.type, ROUNDED.get(precision, torch.bfloat16), enabled=rounded)


@cache
def constant(numbers: tuple[int, ...], on: torch.device) -> torch.Tensor:
    """(numbers,) on the device, made once; nobody may change it.

    A captured step could not make it again, because it would read the memory of the CPU.
    """
    with torch.inference_mode(mode=False):  # whoever asks first
        return torch.tensor(numbers).to(on, non_blocking=True)


def random_state_kept(on: torch.device) -> AbstractContextManager[None]:
    """A block after which torch's random state is as before, whatever was drawn."""
    return torch.random.fork_rng([on] if on.type == "cuda" else [])


def token_groups(lengths: np.ndarray, on: torch.device) -> list[slice]:
    """Slices of rows, each with about as many tokens as the device handles best at a time.

    lengths: (rows,) tokens of each row, sorted, longest first.
    """
    budget, groups, start = TOKENS_PER_BATCH[on.type], [], 0
    if on.type == "cuda":
        memory = torch.cuda.get_device_properties(on).total_memory
        budget = min(budget, memory // (MIB_PER_TOKEN * 2**20))
    while start < len(lengths):
        stop = start + max(1, budget // max(1, int(lengths[start])))
        groups.append(slice(start, stop))
        start = stop
    return groups


def synchronise(on: torch.device) -> None:
    """Wait until the device has computed everything that was asked for."""
    if on.type == "cuda":
        torch.cuda.synchronize(on)
