"""A Python that need not import everything again: for commands, workers of Ray and ranks of trials.

Each of them imports torch, transformers and harness for eight seconds of a processor. harness and
Ray start workers and ranks with `sys.executable`; `python` writes a program to stand there, which
lets a server fork. A test starts it with `-m MODULE` where a command is found by its environment,
gets signals or is killed. The server of tests/programs.py has imported everything. The workers of
pytest are forks of it, too.

This file is also what runs in their place: it asks the server, passes signals on, and lives as long
as the fork. So it imports nothing that takes time.
"""

import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

FOLLOWER = "harness.trials.follower"
"""The module of a rank"""
MODULES = ("harness", "tests.faults.hasty", "ray.scripts.scripts", "pytest", "ipykernel_launcher")
"""Other modules that are forked, when they are started with `-m`"""
SCRIPTS = ("default_worker.py", "log_monitor.py", "monitor.py", "dashboard.py")
"""Other modules of Ray that are forked; its agents want to be children of the raylet"""
LENGTH, STATUS = 8, 2
"""Bytes of the length of a message, and of how a fork has ended"""
serving: Path | None = None
"""The folder of the server of which this process is a fork"""


def python(folder: Path) -> Path:
    """Write a program into the folder that is Python, but for what the server there forks."""
    path, real = folder / "python", sys.executable
    asking = " ".join(f'"{word}"' for word in command(folder))
    forks = [f"*/{each} *" for each in ("setup_worker.py", *SCRIPTS)]
    forks += [f"*/processes.py {FOLLOWER}", *(f"-m {each} *" for each in MODULES)]
    patterns = "|".join(each.replace(" ", r"\ ") for each in forks)
    path.write_text(
        f'#!/bin/sh\ncase "$*" in {patterns})\nexec {asking} "$@";;\nesac\nexec "{real}" "$@"\n'
    )
    path.chmod(0o755)
    return path


def command(folder: Path) -> list[str]:
    """The words before the arguments of a Python that the server there forks, whatever they are."""
    return [sys.executable, "-S", "-E", __file__, str(folder / "socket")]


def serve(folder: Path, parent: int) -> None:
    """Fork for every program that asks, until the process with this descriptor has ended."""
    import gc
    import select
    import signal

    global serving
    serving = folder
    gc.freeze()  # so that forks share this memory, and do not look for garbage in it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a keeper
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "bound"))
        listener.listen(64)
        (folder / "bound").rename(folder / "socket")  # who finds it is heard
        while parent not in select.select([listener, parent], [], [])[0]:
            asking, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _keep(asking)
            asking.close()


def _keep(asking: socket.socket) -> NoReturn:
    """Fork, stay as long as the fork and the program that asks for it, and send on its signals."""
    import select
    import signal
    import traceback

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        head, descriptors, _, _ = socket.recv_fds(asking, LENGTH, 3)
        told = b""
        while len(told) < int.from_bytes(head, "big"):
            told += asking.recv(1 << 16)
        worker = os.fork()
        if worker == 0:
            asking.close()
            _work(told, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        ended = os.pidfd_open(worker)
        while ended not in select.select([asking, ended], [], [])[0]:
            told = asking.recv(1)
            # Ctrl-C and SIGHUP go to the whole group, as in a terminal.
            number = told[0] if told else signal.SIGKILL
            send = os.killpg if number in (signal.SIGINT, signal.SIGHUP) else os.kill
            send(worker, number)
            if not told:
                break
        _, status = os.waitpid(worker, 0)
        with suppress(BrokenPipeError):  # the program was killed meanwhile
            asking.sendall(status.to_bytes(STATUS, "big"))
    except OSError:
        traceback.print_exc()
    finally:
        os._exit(0)


def _work(told: bytes, descriptors: list[int]) -> NoReturn:
    """Be the program."""
    import atexit
    import runpy
    import signal
    import tempfile
    import threading
    import traceback

    code = 1
    try:
        os.setsid()  # Ray may end the whole group of a worker
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has none
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and one of nohup none of this
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        # Those of the server know whether their files could seek.
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        request = json.loads(told)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        tempfile.tempdir = None
        words = request["arguments"]
        if FOLLOWER in words:
            sys.argv = words[words.index(FOLLOWER) :]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        elif "-c" in words:  # a worker of pytest
            exec(words[-1], {"__name__": "__main__"})
        elif words[0] == "-m":
            sys.executable, sys.argv = request["python"], words[1:]
            sys.path.insert(0, request["folder"])
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        elif words[0].endswith("/setup_worker.py"):
            os.execvp, sys.argv = _worker, words  # type: ignore[assignment]
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            sys.executable = request["python"]
            _script(words)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
        os._exit(code)


def _worker(_: str, args: list[str]) -> None:
    """Run what Ray would execute last, `bash -c "exec python default_worker.py --option ..."`."""
    import shlex

    words = shlex.split(args[-1])
    assert words[0] == "exec", words
    _script(words)


def _script(words: list[str]) -> None:
    """Run the script of Ray among the words of a command, with what follows it."""
    import runpy

    sys.argv = words[next(at for at, word in enumerate(words) if word.endswith(SCRIPTS)) :]
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    runpy.run_path(sys.argv[0], run_name="__main__")


def main() -> None:
    """Ask for a program, and end when it ends."""
    import signal

    path, *arguments = sys.argv[1:]
    request = {"arguments": arguments, "environment": dict(os.environ), "folder": str(Path.cwd())}
    request["python"] = str(Path(path).with_name("python"))
    told = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: server.sendall(bytes([number])))
        socket.send_fds(server, [len(told).to_bytes(LENGTH, "big")], [0, 1, 2])
        server.sendall(told)
        status = server.recv(STATUS)
    code = os.waitstatus_to_exitcode(int.from_bytes(status, "big")) if status else 1
    if code < 0:  # it ends by the same signal
        with suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
