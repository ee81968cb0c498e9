"""Programs of Python in processes of their own that need not import everything again.

A server has imported what takes seconds, once for all processes of pytest. Each program is a fork
of it. Ray is not among the imports, because it reads its settings when it is imported. A test
of how a program starts uses a new Python, and one whose program starts others like itself uses what
`forking_python` names.
"""

import atexit
import functools
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import forked
from tests.checkout import CHECKOUT

IMPORTED = [
    "harness.cli.run", "harness.cli.sweep", "harness.report.tables", "harness.sweeps.run",
    "harness.trials.run", "harness.trials.workers", "transformers",
    "transformers.models.bert.modeling_bert", "datasets", "optuna", "sklearn.linear_model", "peft",
    # What Ray imports: two thirds of the time that its programs need until they begin.
    "aiohttp.web", "fastapi", "google.protobuf.json_format", "jsonschema", "opencensus.stats.stats",
    "opentelemetry.sdk.metrics", "prometheus_client", "requests", "uvicorn", "wcwidth",
]  # fmt: skip
"""Modules that most programs import; one that reads the environment at its import may not be
here, unless all tests have the same settings of it (HF_HUB_OFFLINE, OMP_NUM_THREADS)"""


@dataclass(frozen=True)
class Answer:
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


def run_module(
    module: str,
    *arguments: object,
    environment: Mapping[str, str],
    folder: Path | None = None,
    timeout: float = 1200,
) -> Answer:
    """`python -m module argument ...` in a fork of the server, with exactly this environment.

    Raises subprocess.TimeoutExpired, as subprocess.run does.
    """
    with tempfile.TemporaryDirectory() as name:
        out, err = Path(name, "out"), Path(name, "err")
        place = {"environment": environment, "folder": folder, "out": out, "err": err}
        with started(module, *map(str, arguments), **place) as process:
            code = process.wait(timeout)
        return Answer(code, out.read_text("utf-8"), err.read_text("utf-8"))


@contextmanager
def started(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    folder: Path | None = None,
    out: Path | None = None,
    err: Path | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """A fork of the server that runs `python -m module argument ...`; it is killed at the end.

    out, err: files for what it prints; None: it prints where pytest does.
    """
    words = [*forked.command(server()), "-m", module, *arguments]
    with ExitStack() as files:
        streams = [path and files.enter_context(path.open("ab")) for path in (out, err)]
        process = subprocess.Popen(
            words, env=dict(environment), cwd=folder,
            stdin=subprocess.DEVNULL, stdout=streams[0], stderr=streams[1],
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def forking_python() -> str:
    """A program that is Python, but starts workers of Ray and ranks as forks, too."""
    return str(server() / "python")


@functools.cache
def server() -> Path:
    """The folder of the server; it ends with this process, unless this one is a fork of it."""
    if forked.serving:
        return forked.serving
    folder = Path(tempfile.mkdtemp(prefix="hw-", dir="/tmp"))  # the path of a socket is short
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    forked.python(folder)
    words = [sys.executable, "-m", "tests.programs", str(folder)]
    process = subprocess.Popen(words, cwd=CHECKOUT, stdin=subprocess.DEVNULL)
    while not (folder / "socket").exists():
        assert process.poll() is None, process.returncode
        time.sleep(0.01)
    return folder


def main() -> None:
    """Be the server, as long as the process that has started it."""
    parent = os.pidfd_open(os.getppid())
    for module in IMPORTED:
        importlib.import_module(module)
    # What the first model would compile when it is loaded: hundreds of regular expressions.
    importlib.import_module("transformers.conversion_mapping").get_checkpoint_conversion_mapping("")
    # What the first step of ZeRO would import, and compile for a second of a processor.
    importlib.import_module("harness.training.engines").library()
    importlib.import_module("deepspeed.runtime.zero.muon.muon_optimizer")
    forked.serve(Path(sys.argv[1]), parent)


if __name__ == "__main__":
    main()
