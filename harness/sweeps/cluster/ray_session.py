"""Ray for the length of a sweep: a local one, or the cluster that RAY_ADDRESS names.

Starting it, joining it and losing it have a time limit and a sentence each.
"""

import ctypes
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import ray
from ray.job_config import JobConfig

from harness.errors import SweepStopped, UserError, shortened
from harness.files import PACKAGE
from harness.sweeps.cluster.lifetime import multi_process_service, no_orphans, session_folder
from harness.sweeps.machines import children, head_of
from harness.training.interruption import handled, uninterrupted

START_ATTEMPTS = 2
"""Number of starts of a local Ray that does not come up, which happens on a crowded machine"""
START_SECONDS = 180.0
"""A local Ray takes 3 seconds to start, and half a minute on a crowded machine"""
WAIT_SECONDS = 120.0
"""Longest wait for a cluster at whose address nothing listens yet, as when both begin together"""
JOIN_SECONDS = 60.0
REACH_SECONDS = 10.0
LOOK_SECONDS = 2.0
"""Time between two looks at whether Ray lives"""
LOST_SECONDS = 30.0
"""Ray is lost when it did not answer for so long; Ray itself ends its drivers after 60 seconds"""
_GOES_ON = (
    "so the sweep ends here; what has finished is in the store, and the same command goes on from "
    "there"
)
_LOST = f"Ray has stopped answering, {_GOES_ON}"
Endpoint = tuple[str, int]


@contextmanager
def ray_session(
    say: Callable[[str], None] = lambda _: None,
    *,
    dashboard: bool = False,
    shares_gpus: bool = False,
) -> Iterator[tuple[Path, str]]:
    """Start Ray or join the cluster; yield a folder of this sweep for temporary files.

    With the folder comes the HOST:PORT of Ray's dashboard; "" when there is none. `say`: hears that
    the cluster is waited for. `dashboard`: whether a local Ray has its dashboard, which only this
    machine can open. `shares_gpus`: whether several workers of it may use one GPU.

    Raises UserError when the cluster cannot be joined, and SweepStopped when a local Ray does not
    start, or when Ray fails or is lost during the block.
    """
    address = os.environ.get("RAY_ADDRESS", "")
    with (
        no_orphans(),
        session_folder() as folder,
        _output_into(folder / "core.log"),
        # The workers of a cluster have the service with which their Ray was started.
        multi_process_service(folder) if shares_gpus and not address else nullcontext(),
    ):
        page = _join(address, say) if address else _start(folder, dashboard=dashboard)
        endpoints = _endpoints()
        try:
            with _alarm(SweepStopped(_LOST)), _watched(lambda: all(map(_answers, endpoints))):
                yield folder, page
        except Exception as error:
            if not all(map(_answers, endpoints)):
                raise SweepStopped(_LOST) from None
            if isinstance(error, ray.exceptions.RayError):
                raise SweepStopped(f"Ray has failed, {_GOES_ON} ({_why(error)})") from None
            raise
        finally:
            if all(map(_answers, endpoints)):  # else it would wait for what is gone
                ray.shutdown()


class _Job(JobConfig):  # type: ignore[misc]
    """Settings of Ray's workers: they do not import from the working folder of the driver."""

    def _runtime_env_has_working_dir(self) -> bool:
        return True


def _join(address: str, say: Callable[[str], None]) -> str:
    """Join the cluster at the address; return HOST:PORT of its dashboard."""
    limit = WAIT_SECONDS + JOIN_SECONDS
    sentence = f"Waiting for {address}, which does not answer yet (at most {limit:.0f} s)"
    late = threading.Timer(LOOK_SECONDS, say, [sentence])
    late.daemon = True
    late.start()
    refused = UserError(f"no Ray cluster could be joined: RAY_ADDRESS is {address}")
    silent = UserError(f"{refused}, and what listens there does not answer as Ray does")
    # Every machine runs the harness of this one; the other packages it must have.
    runtime = {"py_modules": [str(PACKAGE)], "excludes": ["__pycache__"]}
    try:
        head = _reached(address)
        with _alarm(silent, JOIN_SECONDS), _watched(lambda: not head or _answers(head)):
            return _initialised(address, _Job(), runtime_env=runtime)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{refused} ({_why(error)})") from None
    finally:
        late.cancel()


def _start(folder: Path, *, dashboard: bool) -> str:
    """Start a local Ray, whose files are in the folder; return HOST:PORT of its dashboard."""
    # The workers find this harness here, and nothing that lies beside it.
    code = folder / "code"
    code.mkdir()
    (code / PACKAGE.name).symlink_to(PACKAGE)
    for attempt in range(START_ATTEMPTS):
        before = set(children(os.getpid()))
        try:
            limit = f"in {START_SECONDS / 60:g} minutes"
            too_long = SweepStopped(f"Ray did not start {limit}, or its head was lost on the way")
            with _alarm(too_long, START_SECONDS), _watched(partial(_head_lives, before)):
                return _initialised(
                    "local",
                    _Job(_py_driver_sys_path=[str(code)]),
                    include_dashboard=dashboard,
                    dashboard_host="127.0.0.1",
                    # Ray makes its folder writable for everybody, but not the one above.
                    _temp_dir=str(folder / f"r{attempt}"),
                )
        except SweepStopped:
            raise
        except Exception as error:  # Ray raises Exception itself, too
            why = _why(error)
            ray.shutdown()
            for process in set(children(os.getpid())) - before:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
    raise SweepStopped(f"Ray did not start, also at a second try ({why})")


def _initialised(address: str, job: JobConfig, **options: Any) -> str:
    """Call `ray.init`, and return HOST:PORT of the dashboard."""
    # A lost terminal tells all processes; those of Ray, which inherit this, leave it to the driver.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        with uninterrupted(signal.SIGINT):
            context = ray.init(
                address, job_config=job, log_to_driver=False, logging_level="ERROR", **options
            )
    except KeyboardInterrupt:
        ray.shutdown()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context.dashboard_url or ""


def _why(error: Exception) -> str:
    words = str(error).partition("Traceback (most recent call last)")[0].split()
    return shortened(" ".join(words) or type(error).__name__, 500)


def _reached(address: str) -> Endpoint | None:
    """The head of the cluster at an address; None: Ray looks for one on this machine.

    Raises UserError where nothing listens, also after `WAIT_SECONDS`. Ray would try for minutes,
    without a word.
    """
    head = head_of(address, "RAY_ADDRESS is")
    if head is None:
        return None
    until = monotonic() + WAIT_SECONDS
    while not _answers(head):
        if monotonic() > until:
            raise UserError(
                f"RAY_ADDRESS is {address}, and nothing answers there; `ray start --head` prints "
                f"the right address, and without RAY_ADDRESS a sweep starts a Ray of its own"
            )
        sleep(LOOK_SECONDS / 2)
    return head


def _endpoints() -> list[Endpoint]:
    """Addresses at which the head of the cluster and this machine's raylet listen."""
    context = ray.get_runtime_context()
    host, _, port = context.gcs_address.rpartition(":")
    own = [node for node in ray.nodes() if node["NodeID"] == context.get_node_id()]
    return [(host, int(port)), *((n["NodeManagerAddress"], n["NodeManagerPort"]) for n in own)]


def _answers(endpoint: Endpoint) -> bool:
    try:
        socket.create_connection(endpoint, timeout=REACH_SECONDS).close()
    except OSError:
        return False
    return True


def _head_lives(before: set[int]) -> bool:
    """Whether the head of a local Ray runs, or is not there yet.

    While it is started nobody waits for its process, so that one which has ended is a zombie.
    `before`: what ran already; the head of an earlier Ray may be a zombie among it.
    """
    for process in set(children(os.getpid())) - before:
        with suppress(OSError):
            name, _, rest = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")
            if "(gcs_server" in name and rest.split()[0] in "ZX":
                return False
    return True


@contextmanager
def _watched(lives: Callable[[], bool]) -> Iterator[None]:
    """In the block, a thread looks whether Ray lives.

    It interrupts this thread when Ray is lost, and ends the program if that does not help.
    """
    ended, thread = threading.Event(), threading.current_thread()

    def watch() -> None:
        answered = monotonic()
        while not ended.wait(LOOK_SECONDS):
            if lives():
                answered = monotonic()
            elif monotonic() - answered > LOST_SECONDS:
                _ring(thread)
                # That thread may wait inside of Ray, where no signal reaches it.
                if not ended.wait(10.0):
                    # The live view has left the cursor behind its last line.
                    begin = "\n" if sys.stderr.isatty() else ""
                    print(f"{begin}Error: {_LOST}", file=sys.stderr, flush=True)
                    os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


class _Alarm(BaseException):
    """The alarm rang. It is no Exception, because Ray tries again after those."""


def _ring(thread: threading.Thread) -> None:
    """Raise _Alarm in a thread: in the main one by SIGALRM, which ends its waits, too."""
    number = thread.ident or 0
    if thread is threading.main_thread():
        signal.pthread_kill(number, signal.SIGALRM)
    else:
        alarm = ctypes.py_object(_Alarm)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(number), alarm)


@contextmanager
def _alarm(error: Exception, seconds: float = 0.0) -> Iterator[None]:
    """In the block, `_ring` raises `error` in this thread; it comes after `seconds`, if not 0."""
    rang = False

    def ring(*_: object) -> None:
        nonlocal rang
        rang = True
        raise _Alarm

    clock = threading.Timer(seconds, _ring, [threading.current_thread()])
    clock.daemon = True
    try:
        with handled(ring, signal.SIGALRM):
            try:
                if seconds:
                    clock.start()
                yield
            finally:
                clock.cancel()
                if clock.is_alive():  # it may ring this moment, and nothing else handles the signal
                    clock.join()
    except BaseException as raised:  # what is raised while Ray is left does not matter
        if rang or isinstance(raised, _Alarm):
            raise error from None
        raise


@contextmanager
def _output_into(path: Path) -> Iterator[None]:
    """In the block, what Ray says to its own developers goes into a file.

    Its core writes to the file descriptor 2, and Python's `sys.stderr` writes to a copy of it. That
    stays so after the block if Ray was lost: its core lives on in this process, and complains when
    the program ends.
    """
    sys.stderr.flush()
    kept, python = os.dup(2), sys.stderr
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    sys.stderr = os.fdopen(kept, "w", buffering=1, closefd=False)
    logger = logging.getLogger("ray")
    handlers, logger.handlers = logger.handlers, [logging.FileHandler(path)]
    try:
        yield
    finally:
        if not ray.is_initialized():
            logger.handlers = handlers
            sys.stderr.flush()
            sys.stderr = python
            os.dup2(kept, 2)
            os.close(kept)
