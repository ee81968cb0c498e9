"""A bucket on moto's server, behind a proxy that knows faults."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.trials.remote_store import RemoteStore
from tests.remote.buckets import Proxy, installed, serving, straight


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of moto's server."""
    # The processes of pytest-xdist share the parent of their folders.
    python = installed(tmp_path_factory.getbasetemp().parent / "moto")
    with serving(python, tmp_path_factory.mktemp("server")) as port:
        yield port


@pytest.fixture
def proxy(server: int) -> Iterator[Proxy]:
    """A proxy that stands between harness and the server."""
    found = Proxy(server)
    yield found
    found.close()


@pytest.fixture
def bucket(server: int, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a new bucket, which is found through the proxy by AWS_ENDPOINT_URL."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a-user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
    name = f"bucket-{uuid.uuid4().hex}"
    straight(server).create_dir(name)
    return name


@pytest.fixture
def machine(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], RemoteStore]:
    """machine(name): the bucket's store as the machine on which this process is sees it."""

    def go_to(name: str) -> RemoteStore:
        monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / name))
        return RemoteStore(f"s3://{bucket}/results/trials")

    return go_to
