"""Speed of training on one GPU, beside sentence-transformers and as a share of the matrix peak."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from inputs import Inputs, timed
from peer import LENGTH, WARM_UP, theirs
from torch import Tensor
from transformers import AutoConfig

from harness.data.hub import model_folder
from harness.device import device, in_precision, resolve_precision
from harness.evaluation.embedder import Embedder
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.operations import shape_of
from harness.plugin.resolution import resolve
from harness.training.feeding import made, stage_streams
from harness.training.loop import Trainer
from harness.training.seeds import seed_everything

DEV_SENTENCES = 3000
"""About as many as the dev set of STS-B has"""


def kit_of(inputs: Inputs, shape: str, **values: object) -> Kit:
    """A kit of SimCSE."""
    plugin = registry.load("simcse")
    configuration = {
        "encoder": inputs.encoder(shape), "sentences": str(inputs.texts), "max_length": LENGTH,
        "suite": "graded", **values,
    }  # fmt: skip
    return Kit(plugin.declare(resolve(plugin, configuration)), device())


def built(inputs: Inputs, shape: str = "base", **values: object) -> tuple[Any, Kit]:
    """SimCSE with the random numbers of a seed, and its kit."""
    kit = kit_of(inputs, shape, **values)
    seed_everything(0)
    return kit.build(), kit


def rate_of(method: Any, kit: Kit, steps: int) -> float:
    """Sentences per second of so many steps of our loop, after some that load kernels."""
    (stage,) = kit.declared.stages
    for count in (WARM_UP, steps):
        kit.declared.stages = [replace(stage, max_steps=count, epochs=None)]
        outcome = Trainer(method, kit, 0, lambda: 0.0, lambda _: None).run()
    return outcome.sentences / outcome.seconds


def ours(inputs: Inputs, batch: int, steps: int, **values: object) -> float:
    """Sentences per second of our loop with BERT base."""
    return rate_of(*built(inputs, batch_size=batch, **values), steps)


def training(inputs: Inputs) -> None:
    """Our loop beside the trainer of sentence-transformers, and its share of the peak."""
    steps = inputs.steps(200)
    own, peer = ours(inputs, 64, steps), theirs(inputs, 64, steps)
    print(
        f"batch 64: {own:.0f} sentences/s, sentence-transformers {peer:.0f}: "
        f"{own / peer:.2f} times as fast"
    )
    method, kit = built(inputs)
    texts = inputs.texts.read_text(encoding="utf-8").splitlines()[:DEV_SENTENCES]
    with in_precision(resolve_precision("auto", device()), device()):
        Embedder(method, kit)(texts[:200])
        dev = timed(lambda: Embedder(method, kit)(texts))
    seconds = 1e6 / own + dev * 1e6 / 64 / kit.config.evaluation_interval
    print(
        f"a million sentences with dev, at this speed: {seconds / 60:.1f} min ({dev:.2f} s a dev)"
    )
    for size in (64, 512):
        share(inputs, "base", size, inputs.steps(60))


def large(inputs: Inputs) -> None:
    """The shape of RoBERTa large."""
    share(inputs, "large", 128, inputs.steps(40))


def share(inputs: Inputs, shape: str, batch: int, steps: int) -> None:
    """Print the share of the peak that training reaches, counting tokens and not padding."""
    method, kit = built(inputs, shape, batch_size=batch)
    rate = rate_of(method, kit, steps)
    tokens = float((kit.tokens(str(inputs.texts)).item_lengths(LENGTH - 2) + 2).mean())
    config = AutoConfig.from_pretrained(model_folder(inputs.encoder(shape)))
    layer = shape_of(str(inputs.encoder(shape))).layer
    # Behind its keys and values, the last layer works on one position alone.
    all_tokens = (config.num_hidden_layers - 1) * layer + 2 * config.hidden_size**2
    one_token = layer - 2 * config.hidden_size**2
    operations = 2 * 6 * (all_tokens * tokens + one_token) * rate  # two views, forth and back
    print(f"{shape}, batch {batch}: {rate:.0f} sentences/s, {operations / peak():.0%} of the peak")


def peak() -> float:
    """Operations per second of a large product in the precision of the training."""
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
    kind = kinds[resolve_precision("auto", device())]
    size = 8192 if device().type == "cuda" else 512
    one = torch.randn(size, size, device=device(), dtype=kind)
    seconds = min(timed(lambda: [one @ one for _ in range(10)]) / 10 for _ in range(5))
    return 2 * size**3 / seconds


def attention(inputs: Inputs) -> None:
    """Flash attention over rows of any length beside a padded block: what it gives, and speed."""
    exact = _states_and_gradients(inputs, "fp32")
    rates = []
    for name, flash in (("rows of any length", True), ("a padded block", False)):
        torch.backends.cuda.enable_flash_sdp(flash)
        far = [
            float((one - other).norm() / other.norm())
            for one, other in zip(_states_and_gradients(inputs, "auto"), exact, strict=True)
        ]
        rates.append(ours(inputs, 64, inputs.steps(100)))
        print(f"{name}: {far[0]:.1e} and {far[1]:.1e} from states and gradients in float32")
    torch.backends.cuda.enable_flash_sdp(True)
    print(f"batch 64: {rates[0] / rates[1]:.2f} times as fast as a padded block")


def _states_and_gradients(inputs: Inputs, precision: str) -> tuple[Tensor, Tensor]:
    method, kit = built(inputs, encoder_dropout=0.0)
    (stage,) = kit.declared.stages
    batch = next(made(method, stage, stage_streams(method, kit, stage, 0), 0))
    rows = next(iter(batch.values())).to(device())
    with in_precision(resolve_precision(precision, device()), device()):
        states = method.encoder.train()(rows)[rows.attention_mask.bool()]
    states.float().pow(3).sum().backward()
    gradients = [each.grad.flatten() for each in method.parameters() if each.grad is not None]
    return states.detach(), torch.cat(gradients)


def compiled(inputs: Inputs) -> None:
    """Training under `torch.compile`."""
    plain = ours(inputs, 64, inputs.steps(200))
    method, kit = built(inputs, batch_size=64)
    compile_layers(method.encoder.model.encoder.layer)
    other = rate_of(method, kit, inputs.steps(200))
    print(f"compiled layers, batch 64: {other / plain:.2f} times as fast as plain ones")


def compile_layers(layers: Sequence[torch.nn.Module]) -> None:
    """Compile what looks at each token alone, for any number of tokens.

    Attention would be compiled anew for each way in which a batch can lie in memory, and the last
    layer goes on with one position.
    """
    parts = [
        part for layer in layers[:-1]
        for part in (layer.attention.output, layer.intermediate, layer.output)
    ]  # fmt: skip
    torch._dynamo.config.recompile_limit = 4 * len(parts)
    for part in parts:
        part.compile(dynamic=True)


def settings(inputs: Inputs) -> None:
    """Deterministic kernels, fp16, a loss that waits for the GPU, and the making of batches."""
    steps = inputs.steps(100)
    plain = ours(inputs, 64, steps)
    free = built(inputs, batch_size=64)
    torch.set_deterministic_debug_mode("default")
    torch.backends.cuda.enable_cudnn_sdp(True)
    print(f"deterministic kernels: {plain / rate_of(*free, steps):.2f} of the speed without")
    print(f"fp16: {ours(inputs, 64, steps, precision='fp16') / plain:.2f} of the speed")
    waiting = ours(inputs, 64, steps, masked_language_weight=0.1)
    print(f"with masked language, which waits for the GPU: {waiting / plain:.2f} of the speed")
    method, kit = built(inputs, batch_size=64)
    (stage,) = kit.declared.stages
    batches = made(method, stage, stage_streams(method, kit, stage, 0), 0)
    seconds = timed(lambda: [next(batches) for _ in range(steps)]) / steps
    print(f"a batch takes {1000 * seconds:.1f} ms to make, a step {64000 / plain:.1f} ms")
