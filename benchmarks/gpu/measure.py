"""Speed of training, evaluation and sweeps on one GPU: one command, under 8 minutes.

It needs no network and no mirror: the weights are random, with the shapes of BERT base and RoBERTa
large, and the texts are two to five of the embedded sentences in a row. bf16, or what the GPU has.

    python benchmarks/gpu/measure.py [training] [large] [compiled] [evaluation] [determinism]
        [packing] [fused]

Without a word, all of them. `training` and `evaluation` compare with sentence-transformers, whose
trainer needs the environment of `bootstrap.py`. A short try, which also works
without a GPU: `python benchmarks/gpu/measure.py --short training`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import fused
import pandas
import torch
import transformers
from peer import LENGTH, WARM_UP, theirs
from place import Place, timed
from sentence_transformers import SentenceTransformer
from transformers import AutoConfig

import harness
from harness.data.hub import model_folder
from harness.device import device, resolve_precision
from harness.evaluation.embedder import Embedder
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.operations import shape_of
from harness.plugin.resolution import resolve
from harness.training.loop import Trainer
from harness.training.memory import give_back
from harness.training.seeds import seed_everything

HARNESS = [sys.executable, "-m", "harness"]
MPS = "nvidia-cuda-mps-control"
SPACE = """\
setting: unsup
suite: graded
select: {{metric: graded-dev}}
search: {{seeds: [42]}}
final: {{seeds: [0]}}
encoders: [{encoder}]
set: {{sentences: {texts}, max_steps: {steps}, batch_size: 64, evaluation_interval: {steps}}}
methods:
  simcse:
    grid:
      learning_rate: [1e-5, 2e-5, 3e-5, 4e-5]
      temperature: [0.03, 0.05, 0.07, 0.1]
"""


def kit_of(place: Place, shape: str, **values: object) -> Kit:
    """A kit of SimCSE."""
    plugin = registry.load("simcse")
    given = {
        "encoder": place.encoder(shape), "sentences": str(place.texts), "max_length": LENGTH,
        "suite": "graded", **values,
    }  # fmt: skip
    return Kit(plugin.declare(resolve(plugin, given)), device())


def ours(place: Place, shape: str, batch: int, steps: int, *, compiled: bool = False) -> float:
    """Sentences per second of our loop."""
    kit = kit_of(place, shape, batch_size=batch)
    seed_everything(0)
    method = kit.build()
    if compiled:
        compile_layers(method.encoder.model.encoder.layer)
    return rate_of(method, kit, steps)


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


def rate_of(method: Any, kit: Kit, steps: int) -> float:
    """Sentences per second of so many steps of our loop, after some that load kernels."""
    (stage,) = kit.declared.stages
    for count in (WARM_UP, steps):
        kit.declared.stages = [replace(stage, max_steps=count, epochs=None)]
        outcome = Trainer(method, kit, 0, lambda: 0.0, lambda _: None).run()
    return outcome.sentences / outcome.seconds


def peak() -> float:
    """Operations per second of a large product in the precision of the training."""
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
    kind = kinds[resolve_precision("auto", device())]
    size = 8192 if device().type == "cuda" else 512
    one = torch.randn(size, size, device=device(), dtype=kind)
    seconds = min(timed(lambda: [one @ one for _ in range(10)]) / 10 for _ in range(5))
    return 2 * size**3 / seconds


def training(place: Place) -> None:
    """Our loop beside the trainer of sentence-transformers, and its share of the peak."""
    steps = place.steps(200)
    own, peer = ours(place, "base", 64, steps), theirs(place, 64, steps)
    print(
        f"training, batch 64: {own:.0f} sentences/s, sentence-transformers {peer:.0f}: "
        f"{own / peer:.2f} times as fast"
    )
    print(f"a million sentences at this speed: {1e6 / own / 60:.1f} min, without dev")
    share(place, "base", 512, place.steps(60))


def share(place: Place, shape: str, batch: int, steps: int) -> None:
    """Print the share of the peak that training reaches, counting tokens and not padding."""
    rate = ours(place, shape, batch, steps)
    kit = kit_of(place, shape)
    tokens = float((kit.tokens(str(place.texts)).item_lengths(LENGTH - 2) + 2).mean())
    config = AutoConfig.from_pretrained(model_folder(place.encoder(shape)))
    layer = shape_of(str(place.encoder(shape))).layer
    # Behind its keys and values, the last layer works on one position alone.
    all_tokens = (config.num_hidden_layers - 1) * layer + 2 * config.hidden_size**2
    one_token = layer - 2 * config.hidden_size**2
    operations = 2 * 6 * (all_tokens * tokens + one_token) * rate  # two views, forth and back
    print(
        f"training, {shape}, batch {batch}: {rate:.0f} sentences/s, "
        f"{operations / peak():.0%} of the peak"
    )


def large(place: Place) -> None:
    """The shape of RoBERTa large."""
    share(place, "large", 128, place.steps(40))


def evaluation(place: Place) -> None:
    """Embedding beside `SentenceTransformer.encode`, in float32."""
    texts = place.texts.read_text(encoding="utf-8").splitlines()
    kit = kit_of(place, "base")
    seed_everything(0)
    method = kit.build()
    model = SentenceTransformer(str(model_folder(place.encoder("base"))), device=device().type)
    Embedder(method, kit)(texts[:200])
    model.encode(texts[:200])
    own = timed(lambda: Embedder(method, kit)(texts))
    peer = timed(lambda: model.encode(texts))
    print(
        f"evaluation, {len(texts)} texts: {own:.1f} s, sentence-transformers {peer:.1f} s: "
        f"{peer / own:.2f} times as fast"
    )


def determinism(place: Place) -> None:
    """Cost of deterministic kernels."""
    found = {}
    for mode in ("default", "warn"):
        kit = kit_of(place, "base", batch_size=64)
        seed_everything(0)
        torch.set_deterministic_debug_mode(mode)
        torch.backends.cuda.enable_cudnn_sdp(mode == "default")
        found[mode] = rate_of(kit.build(), kit, place.steps(100))
    print(f"deterministic kernels: {found['warn'] / found['default']:.2f} of the speed without")


def compiled(place: Place) -> None:
    """Training under `torch.compile`."""
    steps = place.steps(200)
    plain, other = (ours(place, "base", 64, steps, compiled=each) for each in (False, True))
    print(f"compiled layers, batch 64: {other / plain:.2f} times as fast as plain ones")


def packing(place: Place) -> None:
    """Trials per hour of a grid of 16, with one, two and four of them on the GPU at a time."""
    space = place.folder / "space.yaml"
    steps = place.steps(80)
    encoder = place.encoder("base")
    space.write_text(SPACE.format(encoder=encoder, texts=place.texts, steps=steps), "utf-8")
    # The word pieces are made once, and no sweep should pay for them.
    subprocess.run([*HARNESS, "prepare", str(space)], check=True, capture_output=True)
    for at_a_time in (1, 2, 4):
        _packed(place, space, at_a_time, "")
    if shutil.which(MPS) is None:
        print(f"CUDA MPS: {MPS} is not here")
        return
    try:
        with mps():
            for at_a_time in (2, 4):
                _packed(place, space, at_a_time, ", with CUDA MPS")
    except subprocess.CalledProcessError as error:
        print(f"CUDA MPS: {error}")


def _packed(place: Place, space: Path, at_a_time: int, how: str) -> None:
    shares = () if device().type == "cpu" else ("--gpus-per-trial", str(1 / at_a_time))
    store = place.folder / f"trials-{at_a_time}{how[-3:]}"
    command = [*HARNESS, "sweep", str(space), "--store", str(store)]
    done = subprocess.run(
        [*command, *shares, "--no-dashboard"], check=False, env=os.environ, capture_output=True,
        text=True,
    )  # fmt: skip
    if done.returncode:
        print(f"sweep, {at_a_time} at a time{how}: failed\n{done.stderr[-2000:]}")
        return
    trials = harness.load(store).query("role == 'search'")
    ended = trials["started"] + pandas.to_timedelta(trials["wall_seconds"], unit="s")
    seconds = (ended.max() - trials["started"].min()).total_seconds()
    print(f"sweep, {at_a_time} at a time{how}: {len(trials) * 3600 / seconds:.0f} trials an hour")


@contextmanager
def mps() -> Iterator[None]:
    """In the block, processes share the GPU through CUDA's multi-process service."""
    # The daemon may still write its log when the folder goes.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        own = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        os.environ.update(own)
        subprocess.run([MPS, "-d"], check=True)
        try:
            yield
        finally:
            subprocess.run([MPS], input="quit\n", text=True, check=True)
            for name in own:
                del os.environ[name]


def fused_trials(place: Place) -> None:
    """Trials of prompts for a frozen encoder, one by one and fused into one pass."""
    counts = [2] if place.short else [4, 16]
    fused.compare(place, "dcpcse", place.encoder("base"), counts, steps=place.steps(50), batch=64)


PARTS: dict[str, Callable[[Place], None]] = {
    "training": training, "large": large, "compiled": compiled, "evaluation": evaluation,
    "determinism": determinism, "packing": packing, "fused": fused_trials,
}  # fmt: skip


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    if torch.cuda.device_count() > 1:  # the trainer of transformers and a sweep would use all
        parser.error("this measures one GPU, and several are visible: set CUDA_VISIBLE_DEVICES=0")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"{name}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        for part in options.parts or PARTS:
            PARTS[part](Place(Path(folder), options.short))
            give_back()  # sweeps share the GPU with this process


if __name__ == "__main__":
    main()
