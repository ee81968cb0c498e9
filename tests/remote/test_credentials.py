"""Keys and regions that requests to a bucket are signed with; none stand in an address."""

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness import s3
from harness.errors import UserError
from harness.remote import RemoteFolder

FILE = """\
[default]
aws_access_key_id = DEFAULT
aws_secret_access_key = a%secret
[other]
aws_access_key_id = OTHER
aws_secret_access_key = another/secret
aws_session_token = a-token
"""
EMPTY = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"


class Server(ThreadingHTTPServer):
    """A server whose buckets are empty and in Paris."""

    seen: list[dict[str, str]]
    """The heads of the requests"""

    @property
    def place(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.seen.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(200)
        self.send_header("Content-Length", str(len(EMPTY)))
        self.end_headers()
        self.wfile.write(EMPTY)

    def do_HEAD(self) -> None:
        self.send_response(301 if self.path == "/a-bucket" else 404)
        if self.path == "/a-bucket":
            self.send_header("x-amz-bucket-region", "eu-west-3")
        self.end_headers()


@pytest.fixture
def server() -> Iterator[Server]:
    """The server; it ends with the test."""
    with Server(("127.0.0.1", 0), Answer) as http:
        http.seen = []
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield http
        http.shutdown()


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file ~/.aws/credentials; there is nothing of AWS in the environment."""
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".aws" / "credentials"
    path.parent.mkdir()
    path.write_text(FILE)
    return path


KEYS: list[tuple[dict[str, str], str, str | None]] = [
    ({}, "DEFAULT", None),
    ({"AWS_PROFILE": "other"}, "OTHER", "a-token"),
    ({"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "s"}, "ENV", None),
]


@pytest.mark.parametrize(("environment", "key", "token"), KEYS)
def test_keys_are_of_the_environment_or_of_the_profile(
    environment: Any, key: str, token: str | None, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.place)
    assert RemoteFolder("s3://a-bucket/trials").names() == {}
    [head] = server.seen
    assert f"Credential={key}/" in head["authorization"]
    assert "/us-east-1/s3/" in head["authorization"]
    assert head.get("x-amz-security-token") == token


def test_the_options_of_an_address_come_first(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    options = f"endpoint_override=127.0.0.1:{server.server_port}&scheme=http&region=there"
    assert RemoteFolder(f"s3://a-bucket/trials?{options}").names() == {}
    assert "/there/s3/" in server.seen[0]["authorization"]


def test_a_file_that_is_none_of_profiles_is_a_sentence(file: Path, server: Server) -> None:
    file.write_text("a-secret\n")
    address = f"s3://a-bucket/trials?endpoint_override={server.place}"
    with pytest.raises(UserError, match="cannot be read as a file of AWS profiles") as refused:
        RemoteFolder(address).check()
    assert "a-secret" not in str(refused.value)


def test_the_region_is_that_of_the_bucket(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "AMAZON", server.place)
    assert s3.connected("a-bucket", None, None, None, 1.0).config["region"] == "eu-west-3"
    with pytest.raises(UserError, match="there is no such bucket"):
        RemoteFolder("s3://no-such-bucket/trials").check()
    server.shutdown()
    server.server_close()
    with pytest.raises(UserError, match="it does not answer"):
        RemoteFolder("s3://another-bucket/trials").check()


# Addresses: credentials have no place in them, and no sentence repeats them.

SECRET = "planted5ecret"


@pytest.mark.parametrize(
    "address",
    [f"s3://KEY:{SECRET}@bucket/trials",
     f"s3://bucket/trials?endpoint_override=KEY:{SECRET}@host:9000",
     f"s3://bucket/trials?access_key=KEY&secret_key={SECRET}", "s3://bucket/trials"],
)  # fmt: skip
def test_credentials_in_an_address_are_refused_and_not_repeated(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in that of the server."""
    sentence = None
    if SECRET not in address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://KEY:{SECRET}@host:9000")
        sentence = "credentials go into AWS_ACCESS_KEY_ID"
    with pytest.raises(UserError, match=sentence) as refused:
        RemoteFolder(address)
    assert SECRET not in str(refused.value)
    assert RemoteFolder("s3://bucket/a@b?endpoint_override=host").path == "bucket/a@b"
