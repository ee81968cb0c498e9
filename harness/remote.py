"""Folders of an S3 bucket, through pyarrow's file system.

An object appears whole or not at all, and what was written is seen by every later look. pyarrow
tries again what fails for a moment. What fails for longer is a RemoteAway, and nothing is asked for
a minute then, so that a long outage does not slow down whoever can go on without the bucket.
"""

import functools
import hashlib
import logging
import mmap
import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from harness.errors import UserError, suggest
from harness.files import written_whole

_logger = logging.getLogger(__name__)
SCHEME = "s3://"
ATTEMPTS, FIRST_ATTEMPTS = 4, 2
"""Tries of a request, with growing pauses: some ten seconds in all; and those of the first look"""
CONNECT_SECONDS = 3.0
AWAY_SECONDS = 60.0
"""Time for which a bucket that has failed is not asked again"""
_NAME = re.compile(r"\w[\w.-]{0,199}", re.ASCII)
"""Names of objects that become names of files here"""
_OPTIONS = ("endpoint_override", "region", "scheme")
_CHUNK = 8 * 2**20
_DENIED = (
    "access is denied; check the credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
    "~/.aws/credentials)"
)
_REASONS = {
    "NETWORK_CONNECTION": "it does not answer",
    "NO_SUCH_BUCKET": "there is no such bucket",
    "ACCESS_DENIED": _DENIED,
    "INVALID_ACCESS_KEY_ID": _DENIED,
    "SIGNATURE_DOES_NOT_MATCH": _DENIED,
}
"""The codes of pyarrow's messages that users meet -> what they mean"""


class RemoteAway(OSError):
    """A bucket does not answer, or refuses a request; the message says why."""


class RemoteObject(NamedTuple):
    """An object in a listing."""

    size: int
    modified: int
    """Nanoseconds since 1970, by the clock of the server"""


class RemoteFolder:
    """A folder of a bucket, as `s3://BUCKET/FOLDER?endpoint_override=...` names it."""

    def __init__(self, address: str) -> None:
        """Raises UserError for what is not such an address. It asks nobody yet."""
        parts = urlsplit(address)
        self.address = address
        self.bucket, self.path = parts.netloc, f"{parts.netloc}{parts.path.rstrip('/')}"
        self._options = dict(parse_qsl(parts.query))
        if "@" in parts.netloc or "@" in (
            self.endpoint or ""
        ):  # it would stand in records and logs
            raise UserError(
                "the address of a bucket or of its server has a name or a password in front of @: "
                "credentials go into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or into "
                "~/.aws/credentials"
            )
        if not address.startswith(SCHEME) or not re.fullmatch(r"[A-Za-z0-9._-]+", self.bucket):
            raise UserError(f"{address}: write the address as s3://BUCKET/FOLDER")
        for name in self._options:
            if name not in _OPTIONS:
                place = address.partition("?")[0]  # what follows may be a secret key
                raise UserError(f'{place}: there is no option "{name}"{suggest(name, _OPTIONS)}')
        self._away: RemoteAway | None = None
        self._until = 0.0
        self._foreign: set[str] = set()

    @property
    def endpoint(self) -> str | None:
        """The server, where it is not Amazon's: of the address, or of AWS_ENDPOINT_URL."""
        return self._options.get("endpoint_override") or _endpoint_of_environment()

    def beside(self, name: str) -> "RemoteFolder":
        """The folder `name` in the same parent folder."""
        place, question, options = self.address.partition("?")
        return RemoteFolder(f"{place.rstrip('/').rpartition('/')[0]}/{name}{question}{options}")

    def check(self, *, write: bool = False) -> None:
        """Raises UserError when the bucket cannot be read, or, with `write`, not written."""
        try:
            with self._asking():
                found = self._connected(FIRST_ATTEMPTS).get_file_info(self.bucket)
                if found.type.name == "NotFound":
                    raise OSError("AWS Error NO_SUCH_BUCKET")  # a listing would just be empty
            self.names()
            if write:
                probe = f".probe-{uuid.uuid4().hex}"
                self.put(probe, b"")
                self.remove(probe)
        except RemoteAway as why:
            raise UserError(str(why)) from None

    def names(self, folder: str = "") -> dict[str, RemoteObject]:
        """The objects directly in the folder, or in a folder of it, by name.

        Hidden ones are left out, and, with a warning, those whose names no file here could have.
        """
        folder_path = f"{self.path}/{folder}" if folder else self.path
        with self._asking():
            # A connection that breaks in the head of an answer makes a folder look empty.
            entries = self._listed(folder_path) or self._listed(folder_path)
        objects = [entry for entry in entries if entry.is_file and entry.base_name[:1] != "."]
        foreign = {entry.base_name for entry in objects if not _NAME.fullmatch(entry.base_name)}
        for name in foreign - self._foreign:
            _logger.warning(
                "%s: the object %r is left out: harness has no such name", folder_path, name
            )
        self._foreign |= foreign
        return {
            entry.base_name: RemoteObject(entry.size, entry.mtime_ns)
            for entry in objects
            if entry.base_name not in foreign
        }

    def has(self, name: str) -> bool:
        """Whether there is an object of this name."""
        with self._asking():
            return bool(self._files.get_file_info(f"{self.path}/{name}").is_file)

    def get(self, name: str) -> bytes | None:
        """The content of a small object; None when there is none."""
        with self._asking():
            try:
                return bytes(self._opened(name).read())
            except FileNotFoundError:
                return None
            except OSError:  # so it ends as well when the object is removed before it is read
                if self._files.get_file_info(f"{self.path}/{name}").is_file:
                    raise
                return None

    def put(self, name: str, content: bytes | mmap.mmap) -> None:
        """Write an object in place of the one that may be there."""
        with self._asking():
            stream = self._files.open_output_stream(f"{self.path}/{name}")
            # One call: Ctrl-C comes after it. A `with` would complete half of an object.
            stream.write(content)
            stream.close()

    def upload(self, path: Path, name: str) -> None:
        """Write a file as an object. Raises FileNotFoundError when there is no such file."""
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                self.put(name, b"")
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                self.put(name, content)

    def download(self, name: str, path: Path) -> str:
        """Write an object into a file, whole or not at all, and return its SHA-256.

        Raises FileNotFoundError when there is no such object.
        """
        sha256 = hashlib.sha256()
        with written_whole(path) as temporary, temporary.open("wb") as file, self._asking():
            source = self._opened(name)
            size = source.size()
            while chunk := source.read(_CHUNK):
                sha256.update(chunk)
                file.write(chunk)
            if file.tell() != size:
                raise OSError(f"{name} has {size} bytes, and {file.tell()} of them came")
        return sha256.hexdigest()

    def remove(self, name: str) -> None:
        """Remove an object, if there is one."""
        with self._asking(), suppress(FileNotFoundError):
            self._files.delete_file(f"{self.path}/{name}")

    def _listed(self, path: str) -> Any:
        from pyarrow.fs import FileSelector

        selector = FileSelector(path, allow_not_found=True)
        try:
            return self._files.get_file_info(selector)
        except OSError as error:
            if "XML" not in str(error):
                raise
        # pyarrow does not ask again when an answer breaks off.
        return self._files.get_file_info(selector)

    def _opened(self, name: str) -> Any:
        file = self._files.open_input_file(f"{self.path}/{name}")
        # A connection that breaks in the head of an answer makes an object look empty.
        return file if file.size() else self._files.open_input_file(f"{self.path}/{name}")

    @property
    def _files(self) -> Any:
        return self._connected(ATTEMPTS)

    def _connected(self, attempts: int) -> Any:
        endpoint = self.endpoint
        region = self._options.get("region")
        if endpoint is None and region is None:
            region = _region(self.bucket)
        return _file_system(endpoint, region or "us-east-1", self._options.get("scheme"), attempts)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """In the block, an error of the bucket is a RemoteAway with a sentence."""
        if self._away is not None and time.monotonic() < self._until:
            raise RemoteAway(str(self._away))
        try:
            yield
        except (FileNotFoundError, RemoteAway):
            raise
        except OSError as error:
            self._away = RemoteAway(f"{self.address} cannot be used: {_reason(error)}")
            self._until = time.monotonic() + AWAY_SECONDS
            raise self._away from None
        self._away = None


def _reason(error: OSError) -> str:
    """The reason in pyarrow's message, without the names of requests."""
    text = " ".join(str(error).split())
    code, _, detail = text.partition("AWS Error ")[2].partition(" ")
    detail = detail.partition("operation: ")[2].partition(" (Request ID")[0]
    reason = _REASONS.get(code)
    if code == "NETWORK_CONNECTION":
        return f"{reason} ({detail.rpartition('Details: ')[2]})"
    return reason or f"{code or type(error).__name__}: {detail or text}"


def _endpoint_of_environment() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


@functools.cache
def _region(bucket: str) -> str:
    """The region of a bucket of Amazon, which says it to everybody."""
    from pyarrow.fs import resolve_s3_region

    return str(resolve_s3_region(bucket))


@functools.cache
def _file_system(endpoint: str | None, region: str, scheme: str | None, attempts: int) -> Any:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    return S3FileSystem(
        endpoint_override=endpoint,
        region=region,
        scheme=scheme,
        connect_timeout=CONNECT_SECONDS,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=attempts),
        allow_delayed_open=True,  # a small object is one request
    )
