"""An estimate of what a trial costs when the store has nothing like it.

The number of operations is divided by the speed of this machine. The result is right to a factor
of about two.
"""

import functools
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from harness.data.hub import model_shape
from harness.data.revisions import repository_of
from harness.data.weight_contents import layer_parameter_count
from harness.errors import NotHere
from harness.evaluation.suites import suite
from harness.plugin.config import TrainingConfig
from harness.plugin.declared import Declared
from harness.plugin.stage import Stage
from harness.sweeps.machines import this_machine
from harness.trials.trial import Trial

TOKENS_PER_SENTENCE = 24
"""Mean number of tokens of a sentence, about as in Wiki1M (cut at 32 tokens) and in the STS sets"""
PRODUCT_SHARE = 0.6
"""The share of the speed of a bare matrix product that Transformer layers reach, roughly"""
BASE, LARGE = 12 * 12 * 768**2, 24 * 12 * 1024**2
"""Weights in the layers of BERT and RoBERTa, base and large"""
BF16_TIMES = {"amx_bf16": 8.0, "avx512_bf16": 2.0}
"""Capability of a CPU -> products in bf16 in the time of one in float32; the best one first"""
PUBLISHED_PARAMETERS = {
    "bert-base-uncased": BASE,
    "bert-large-uncased": LARGE,
    "roberta-base": BASE,
    "roberta-large": LARGE,
}
"""Encoder of the papers -> weights in its layers, for plans on machines that do not have it"""


def estimated_seconds(declared: Declared, steps: int, *, tested: bool) -> float | None:
    """An estimate of the seconds that one trial with so many steps takes.

    It is None when the configuration file of the encoder is not on this machine, or has not the
    usual names. `tested`: whether the tests are scored, too.
    """
    config = declared.config
    try:
        parameters = layer_parameters(config.encoder)
    except (NotHere, KeyError):  # some families have other names for their sizes
        return None
    measured = suite(config.suite)
    evaluations = 1
    if isinstance(config, TrainingConfig):
        for stage in declared.stages:
            evaluations += (declared.steps_of(stage) or 0) // declared.evaluation_interval(stage)
    sentences = measured.sentences_dev * evaluations
    sentences += measured.sentences_test if tested else 0
    # A forward pass multiplies and adds once per weight and token; a backward pass does it twice.
    evaluation = 2 * parameters * TOKENS_PER_SENTENCE * sentences / speed("fp32")
    if not declared.stages or not isinstance(config, TrainingConfig):
        return evaluation
    return evaluation + steps * step_operations(declared) / speed(config.precision)


def step_operations(declared: Declared) -> float:
    """Operations of a training step, as the mean over the stages; 0 for an untrained method.

    Raises NotHere and KeyError as `layer_parameters`.
    """
    rows = [rows_per_step(stage) for stage in declared.stages]
    parameters = layer_parameters(declared.config.encoder)
    return 6 * parameters * TOKENS_PER_SENTENCE * sum(rows) / max(1, len(rows))


def training_operations(declared: Declared) -> float:
    """Operations of the whole training; 0 where the size of the encoder is not known."""
    try:
        return (declared.steps or 0) * step_operations(declared)
    except (NotHere, KeyError):
        return 0.0


def long_first(trials: Mapping[str, Trial]) -> dict[str, Trial]:
    """Key -> trial, the longest first, so that at the end no worker is idle beside a long one."""
    work = {name: training_operations(trial.declared) for name, trial in trials.items()}
    return {name: trials[name] for name in sorted(trials, key=lambda name: -work[name])}


def layer_parameters(encoder: str) -> int:
    """The number of weights in the Transformer layers, which do nearly all of the arithmetic.

    A model that the papers use need not be on this machine. Raises NotHere for another one that is
    not, and KeyError for a size that it lacks.
    """
    try:
        shape = model_shape(encoder, download=False)
    except NotHere:
        model = repository_of(encoder)
        if model in PUBLISHED_PARAMETERS:
            return PUBLISHED_PARAMETERS[model]
        raise
    if "hidden_size" not in shape:  # DistilBERT, GPT-2 and others have other names in their files
        return layer_parameter_count(encoder)
    hidden = int(shape["hidden_size"])
    inner = int(shape.get("intermediate_size", 4 * hidden))
    # Four square matrices of the attention, and two matrices of the feed-forward part.
    return int(shape["num_hidden_layers"]) * (4 * hidden**2 + 2 * hidden * inner)


def rows_per_step(stage: Stage) -> float:
    """The number of sentences that pass through the encoder in one step.

    There are two views of every item, and they pass once more for every loss beyond one per stream.
    There are none where the vectors were made before the training.
    """
    if not stage.batches.text:
        return 0
    items = sum(stage.streams.values()) * stage.accumulation
    return 2 * items * len(stage.losses) / len(stage.streams)


@functools.cache
def speed(precision: str) -> float:
    """Floating-point operations per second that one trial reaches on this machine.

    It is measured in about a tenth of a second, on matrix products. precision: that of the
    training, as its configuration says it. On a CPU the products are those of numpy in float32.
    """
    if this_machine().gpus:
        return PRODUCT_SHARE * _speed_of_gpu(precision)
    factor = 1.0
    if precision in ("auto", "bf16"):
        factor = next((times for flag, times in BF16_TIMES.items() if flag in _cpu_flags()), 1.0)
    left, right = np.random.default_rng(0).standard_normal((2, 1024, 1024), np.float32)
    with threadpool_limits(1):  # a sweep gives each trial one core by default
        return PRODUCT_SHARE * factor * _rate(lambda: left @ right, 1024)


def _speed_of_gpu(precision: str) -> float:
    import torch

    from harness.device import device, resolve_precision

    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    kind = kinds.get(resolve_precision(precision, device()), torch.float32)
    left, right = (torch.randn(4096, 4096, device=device(), dtype=kind) for _ in range(2))
    # `item` waits until the GPU has finished.
    return _rate(lambda: (left @ right).sum().item(), 4096)


def _rate(product: Callable[[], object], size: int) -> float:
    """Operations per second of the product of two square matrices of this size."""
    done, started = 0, time.perf_counter()
    while done < 3 or time.perf_counter() - started < 0.1:
        product()
        done += 1
    return 2 * size**3 * done / (time.perf_counter() - started)


def _cpu_flags() -> set[str]:
    """The capabilities of the CPU as Linux names them; none are known elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return set()
    return set(next((line for line in lines if line.startswith("flags")), "").split())
