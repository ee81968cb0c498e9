"""Programs of Python in processes of their own that need not import everything again.

A server, one for each process of pytest, has imported what takes seconds. Each program is a fork
of it. Ray is not among the imports, because it reads its settings when it is imported. A test
of how a program starts uses a new Python, and one that finds its processes by their environment
starts what `forking_python` names.
"""

import atexit
import functools
import gc
import multiprocessing
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests import forked

IMPORTED = [
    "harness.cli", "harness.trials.run", "harness.trials.workers", "transformers",
    "transformers.models.bert.modeling_bert", "datasets", "optuna", "sklearn.linear_model",
]  # fmt: skip
"""What most programs import; a module that reads the environment when it is imported may not be
here, unless all tests have the same settings of it (HF_HUB_OFFLINE, OMP_NUM_THREADS)"""
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(IMPORTED)


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
        words = [module, *map(str, arguments)]
        with started(*words, environment=environment, folder=folder, out=out, err=err) as process:
            process.join(timeout)
            if process.exitcode is None:
                raise subprocess.TimeoutExpired(words, timeout)
            return Answer(process.exitcode, out.read_text("utf-8"), err.read_text("utf-8"))


@contextmanager
def started(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    folder: Path | None = None,
    out: Path | None = None,
    err: Path | None = None,
) -> Iterator[ForkServerProcess]:
    """A fork of the server that runs `python -m module argument ...`; it is killed at the end.

    out, err: files for what it prints; None: it prints where pytest does.
    """
    place = (dict(environment), folder or Path.cwd(), (out, err))
    process = CONTEXT.Process(target=_program, args=(forking_python(), module, arguments, *place))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


@functools.cache
def forking_python() -> str:
    """A program that is Python, but starts workers of Ray and ranks as forks, too."""
    folder = Path(tempfile.mkdtemp(prefix="hw-", dir="/tmp"))  # the path of a socket is short
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    CONTEXT.Process(target=forked.serve, args=(folder,), daemon=True).start()
    while not (folder / "socket").exists():
        time.sleep(0.01)
    return str(forked.python(folder))


def _program(
    python: str,
    module: str,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    folder: Path,
    streams: tuple[Path | None, Path | None],
) -> None:
    gc.freeze()  # DeepSpeed collects garbage at every start, and what is imported is none
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate(streams, start=1):
        if path:
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.executable, sys.argv = python, [module, *arguments]
    sys.path.insert(0, str(folder))  # as `python -m` does
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sys.stdout.flush()
        atexit._run_exitfuncs()  # a fork of multiprocessing does not run them itself
