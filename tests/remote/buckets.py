"""moto's server of S3, in an environment of its own, and faults on the way to it."""

import socket
import subprocess
import sys
import threading
import time
import venv
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock
from pyarrow.fs import S3FileSystem

REQUIREMENTS = Path(__file__).with_name("moto-server.txt")
START_SECONDS = 120.0
METHODS = (b"GET ", b"PUT ", b"HEAD ", b"POST ", b"DELETE ")
ANSWERS = {
    "busy": b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "denied": b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
}


class Proxy:
    """Passes requests on to a server, except those that meet a fault."""

    def __init__(self, server: int) -> None:
        self.server = server
        self.faults: deque[str] = deque()
        """Fates of the next requests: a key of ANSWERS, or `pass`, `drop`, `half`, `flip`"""
        self.always: str | None = None
        """Fate of all requests"""
        self.pattern = b""
        """Only requests with this in their first line meet a fault"""
        self.forgets = b""
        """A header that the server does not get to know"""
        self.requests: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        fault = ["pass"]
        try:
            with client, socket.create_connection(("127.0.0.1", self.server)) as server:
                threading.Thread(target=_answer, args=(server, client, fault), daemon=True).start()
                while data := client.recv(2**20):
                    if data.startswith(METHODS):
                        fault[0] = self._fault(data.partition(b"\r\n")[0])
                        if fault[0] == "drop":
                            return
                        if fault[0] in ANSWERS:
                            client.sendall(ANSWERS[fault[0]])
                            return
                    server.sendall(data.replace(self.forgets, b"x-other") if self.forgets else data)
        except OSError:
            return

    def _fault(self, request: bytes) -> str:
        self.requests.append(request)
        if self.pattern not in request:
            return "pass"
        return self.always or (self.faults.popleft() if self.faults else "pass")

    def close(self) -> None:
        """End."""
        self._socket.close()


def _answer(server: socket.socket, client: socket.socket, fault: list[str]) -> None:
    """Pass the answers of the server on; `half` ends in the middle, `flip` changes the last bit."""
    try:
        while data := server.recv(2**20):
            if fault[0] == "half":
                client.sendall(data[: len(data) // 2])
                return
            if fault[0] == "flip" and not data.endswith(b"\r\n\r\n"):  # a head is not all
                data, fault[0] = data[:-1] + bytes([data[-1] ^ 1]), "pass"
            client.sendall(data)
    except OSError:
        return
    finally:
        with suppress(OSError):  # it has ended
            client.shutdown(socket.SHUT_RDWR)


def installed(folder: Path) -> Path:
    """The Python of an environment in `folder` that has moto's server."""
    python, done = folder / "bin" / "python", folder / "installed"
    with FileLock(folder.with_suffix(".lock")):
        if not done.exists():
            venv.create(folder, with_pip=False, symlinks=True)
            pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
            options = ["--no-deps", "--no-compile", "--disable-pip-version-check"]
            subprocess.run([*pip, *options, "-r", str(REQUIREMENTS)], check=True, timeout=600)
            done.touch()
    return python


@contextmanager
def serving(moto: Path, folder: Path) -> Iterator[int]:
    """Run moto's server during the block; yields its port. `folder`: for its log."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = Path(__file__).with_name("server.py")
    with (folder / "log").open("wb") as log:
        command = [str(moto), str(program), str(port)]
        running = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    until = time.monotonic() + START_SECONDS
    while socket.socket().connect_ex(("127.0.0.1", port)):
        assert running.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < until, "moto's server does not start"
        time.sleep(0.1)
    yield port
    running.terminate()
    running.wait(30)


def straight(server: int) -> S3FileSystem:
    """The buckets of the server, without the proxy."""
    return S3FileSystem(
        endpoint_override=f"http://127.0.0.1:{server}",
        region="us-east-1",
        allow_bucket_creation=True,
    )
