"""Speed of training, evaluation and sweeps on one GPU: one command, at most 8 minutes.

The weights are random, with the shapes of BERT base and RoBERTa large, and the texts are two to
five of the embedded sentences in a row. bf16, or what the GPU has. Parts that the time does not
suffice for are named at the end, and so are those that failed.

    python benchmarks/gpu/measure.py [--device cpu] [training] [attention] [graphs] [evaluation]
        [sts] [large] [cap] [settings] [fused] [packing] [tests] [methods] [compiled]

Without a word, all of them, in this order. `methods` and `sts` need HARNESS_HUB. `training`,
`evaluation` and `sts` compare with sentence-transformers, whose trainer needs the environment of
`bootstrap.py`.
`--device cpu` rehearses: the embedded encoder, two steps, and no GPU, also where one is.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
import transformers
from graphs import graphs
from inputs import Inputs, timed
from sentence_transformers import SentenceTransformer
from sharing import cap, fused_trials, packing
from speed import attention, built, compiled, large, settings, training

from harness.data.hub import model_folder
from harness.device import device
from harness.evaluation.embedder import Embedder
from harness.training.memory import give_back
from harness.trials.trial import commit

MINUTES = 7.75
ROOT = Path(__file__).parents[2]
TESTS = (
    "tests/training/test_same_seed.py", "tests/ranks/test_chunks.py",
    "tests/training/test_synchronisation.py",
)  # fmt: skip
"""Tests that use a GPU where one is"""


def evaluation(inputs: Inputs) -> None:
    """Embedding beside `SentenceTransformer.encode`, in float32."""
    texts = inputs.texts.read_text(encoding="utf-8").splitlines()
    method, kit = built(inputs)
    model = SentenceTransformer(str(model_folder(inputs.encoder("base"))), device=device().type)
    Embedder(method, kit)(texts[:200])
    model.encode(texts[:200])
    own = timed(lambda: Embedder(method, kit)(texts))
    peer = timed(lambda: model.encode(texts))
    print(
        f"{len(texts)} texts: {own:.1f} s, sentence-transformers {peer:.1f} s: "
        f"{peer / own:.2f} times as fast"
    )


def tests(inputs: Inputs) -> None:
    """Tests that say more on a GPU."""
    options = ["--collect-only"] if inputs.short else []
    _run("-m", "pytest", "-q", *options, *TESTS, lines=1)


def methods(inputs: Inputs) -> None:
    """PromptBERT and DiffAug over SimCSE."""
    size = ["--batch", "8", "--steps", "1"] if inputs.short else ["--batch", "128", "--steps", "20"]
    options = ["--encoder", inputs.encoder("base"), *size, "--rounds", "1"]
    _run("benchmarks/methods.py", *options, "--methods", "promptbert", "diffaug", lines=4)


def sts(inputs: Inputs) -> None:
    """The seven STS sets beside the evaluator of sentence-transformers."""
    tasks = ["--tasks", "sts16"] if inputs.short else []
    _run("benchmarks/evaluation/sts.py", "--rounds", "1", *tasks, lines=2)


def _run(*command: str, lines: int) -> None:
    """Run Python in the checkout, and print the last lines of its output."""
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr)[-2000:])
    print("\n".join(done.stdout.splitlines()[-lines:]))


PARTS: dict[str, Callable[[Inputs], None]] = {
    "training": training, "attention": attention, "graphs": graphs, "evaluation": evaluation,
    "sts": sts, "large": large, "cap": cap, "settings": settings, "fused": fused_trials,
    "packing": packing, "tests": tests, "methods": methods, "compiled": compiled,
}  # fmt: skip


class TimeIsUp(BaseException):
    """Ends the part that runs; it is no Exception, because that is a part that failed."""


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise TimeIsUp in the block when it takes longer than MINUTES."""

    def ring(*_: object) -> None:
        raise TimeIsUp

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 60 * MINUTES)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def measured(parts: Sequence[str], folder: Path, *, short: bool) -> list[str]:
    """Measure the parts, and return the sentences about those that gave nothing."""
    failed, left = [], list(parts)
    try:
        with time_limit():
            while left:
                started = time.monotonic()
                print(f"# {left[0]}", flush=True)
                try:
                    PARTS[left[0]](Inputs(folder, short))
                except Exception:
                    traceback.print_exc()
                    failed.append(f"{left[0]} failed")
                print(f"  ({time.monotonic() - started:.0f} s)", flush=True)
                del left[0]
                give_back()  # sweeps share the GPU with this process
    except TimeIsUp:
        failed.append(f"after {MINUTES} minutes these were left out: {' '.join(left)}")
    return failed


def driver() -> str:
    """Version of NVIDIA's driver."""
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0]


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    if options.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    elif torch.cuda.device_count() != 1:  # the trainer of transformers and a sweep would use all
        parser.error("one GPU must be visible: set CUDA_VISIBLE_DEVICES=0, or --device cpu")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    card = "a CPU" if options.device == "cpu" else f"{torch.cuda.get_device_name()}, {driver()}"
    print(f"{card}, torch {torch.__version__}, commit {commit()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        failed = measured(options.parts or [*PARTS], Path(folder), short=options.device == "cpu")
    print("\n".join(failed))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
