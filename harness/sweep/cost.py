"""What a trial will cost when nothing like it has been run.

It is arithmetic over this machine's speed, right to a factor of about two.
"""

import functools
import time

import torch

from harness.data.hub import model_shape
from harness.device import device, resolve_precision
from harness.errors import UserError
from harness.evaluation.suites import suite
from harness.plugin.config import TrainingConfig
from harness.plugin.declared import Declared
from harness.plugin.stage import Stage

TOKENS_PER_SENTENCE = 24
"""Of a training sentence cut at 32, and of a test sentence: about what Wiki1M and the STS sets have."""


def estimated_seconds(declared: Declared, steps: int, *, tested: bool) -> float | None:
    """Seconds of one trial with so many steps; None when the encoder's shape is not at hand.

    `tested`: whether the tests are scored, too.
    """
    config = declared.config
    try:
        parameters = layer_parameters(config.encoder)
    except UserError:
        return None
    measured = suite(config.suite)
    evaluations = 1
    if isinstance(config, TrainingConfig):
        evaluations += steps // config.evaluation_interval
    sentences = measured.sentences_dev * evaluations
    sentences += measured.sentences_test if tested else 0
    evaluation = 2 * parameters * TOKENS_PER_SENTENCE * sentences / speed("fp32")
    stages = declared.stages
    if not stages or not isinstance(config, TrainingConfig):
        return evaluation
    rate = speed(resolve_precision(config.precision, device()))
    training = sum(
        6 * parameters * TOKENS_PER_SENTENCE * rows_per_step(stage) for stage in stages
    ) / len(stages)
    return evaluation + steps * training / rate


def layer_parameters(encoder: str) -> int:
    """Weights of the Transformer layers, which do nearly all of the arithmetic. Raises UserError without the model."""
    shape = model_shape(encoder, download=False)
    hidden, inner = (
        int(shape["hidden_size"]),
        int(shape.get("intermediate_size", 4 * int(shape["hidden_size"]))),
    )
    return int(shape["num_hidden_layers"]) * (4 * hidden**2 + 2 * hidden * inner)


def rows_per_step(stage: Stage) -> float:
    """Sentences that pass through the encoder in an update: two views of every item, again for every loss beyond one
    a stream; none where the vectors were made beforehand."""
    if not stage.batches.text:
        return 0
    return (
        2
        * sum(stage.streams.values())
        * stage.accumulation
        * len(stage.losses)
        / len(stage.streams)
    )


@functools.cache
def speed(precision: str) -> float:
    """Floating-point operations per second of one trial's matrix products here, measured in a moment."""
    where = device()
    size = 4096 if where.type == "cuda" else 1024
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    left, right = (torch.randn(size, size, device=where, dtype=kind) for _ in range(2))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        done, started = 0, time.perf_counter()
        while done < 3 or time.perf_counter() - started < 0.1:
            (left @ right).sum().item()
            done += 1
        return (
            0.6 * 2 * size**3 * done / (time.perf_counter() - started)
        )  # layers reach some 60 % of a bare product
    finally:
        torch.set_num_threads(threads)
