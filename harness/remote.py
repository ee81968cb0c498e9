"""Folders of an S3 bucket, through obstore.

An object appears whole or not at all, and what was written is seen by every later look. obstore
tries again what fails for a moment. What fails for longer is a RemoteAway, and nothing is asked for
a minute then, so that a long outage does not slow down whoever can go on without the bucket.
"""

import hashlib
import logging
import re
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

from harness import s3
from harness.errors import UserError, suggest
from harness.files import written_whole

if TYPE_CHECKING:
    from obstore.store import S3Store

_logger = logging.getLogger(__name__)
SCHEME = "s3://"
T = TypeVar("T")
AWAY_SECONDS = 60.0
"""Time for which a bucket that has failed is not asked again"""
_NAME = re.compile(r"\w[\w.-]{0,199}", re.ASCII)
"""Names of objects that become names of files here"""
_OPTIONS = ("endpoint_override", "region", "scheme")
_PART, _AT_A_TIME, _PARTS = 8 * 2**20, 2, 9000
"""Bytes of a part; parts under way, sent by a slow line within s3.UPLOAD_SECONDS; and most parts
of an object, of which S3 takes 10,000"""


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
        self.bucket, self._folder = parts.netloc, parts.path.strip("/")
        self.path = f"{self.bucket}/{self._folder}"
        self._options = dict(parse_qsl(parts.query))
        if "@" in f"{parts.netloc} {self.endpoint}":  # it would stand in records and logs
            raise UserError(
                "the address of a bucket or of its server has a name or a password in front of @: "
                "credentials go into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or into "
                "~/.aws/credentials"
            )
        if not address.startswith(SCHEME) or not re.fullmatch(r"[A-Za-z0-9._-]+", self.bucket):
            raise UserError(f"{address}: write the address as s3://BUCKET/FOLDER")
        if {"", ".", ".."} & {*self._folder.split("/")}:
            raise UserError(f"{address}: name a folder of the bucket, as in s3://BUCKET/FOLDER")
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
        return self._options.get("endpoint_override") or s3.endpoint_of_environment()

    def beside(self, name: str) -> "RemoteFolder":
        """The folder `name` in the same parent folder."""
        place, question, options = self.address.partition("?")
        return RemoteFolder(f"{place.rstrip('/').rpartition('/')[0]}/{name}{question}{options}")

    def check(self, *, write: bool = False) -> None:
        """Raises UserError when the bucket cannot be read, or, with `write`, not written."""
        try:
            self.names()
            if write:
                probe = f".probe-{uuid.uuid4().hex}"
                self.put(probe, b"")
                self.remove(probe)
        except RemoteAway as why:
            raise UserError(str(why)) from None

    def check_conditions(self) -> None:
        """Raises UserError when the bucket cannot be written, or not under conditions.

        A server that does not know `If-None-Match` and `If-Match` answers as if all were well.
        """
        probe = f".probe-{uuid.uuid4().hex}"
        try:
            self.create(probe, b"first")
            conditional = not (
                self.create(probe, b"second") or self.replace(probe, b"third", '"0"')
            )
            self.remove(probe)
        except RemoteAway as why:
            raise UserError(str(why)) from None
        if not conditional:
            raise UserError(
                f"{self.address} cannot be used: its server does not know conditional writes "
                "(If-None-Match and If-Match), without which two machines would run one trial; "
                "take a server that does, such as Amazon S3 or a new MinIO, or a shared folder"
            )

    def names(self, folder: str = "") -> dict[str, RemoteObject]:
        """The objects directly in the folder, or in a folder of it, by name.

        Hidden ones are left out, and, with a warning, those whose names no file here could have.
        """
        key = self._key(folder).rstrip("/")
        listed = self._ask(lambda: self._store.list_with_delimiter(key)["objects"])
        objects, foreign = {}, set()
        for entry in listed:
            name = entry["path"].removeprefix(f"{key}/")
            if name[:1] == "." or name == entry["path"]:  # the last marks that there is a folder
                continue
            if _NAME.fullmatch(name):
                milliseconds = round(1000 * entry["last_modified"].timestamp())
                objects[name] = RemoteObject(entry["size"], milliseconds * 10**6)
            else:
                foreign.add(name)
        for name in foreign - self._foreign:
            _logger.warning(
                "%s/%s: the object %r is left out: harness has no such name",
                self.bucket, key, name,
            )  # fmt: skip
        self._foreign |= foreign
        return objects

    def has(self, name: str) -> bool:
        """Whether there is an object of this name."""
        try:
            self._ask(lambda: self._store.head(self._key(name)))
        except FileNotFoundError:
            return False
        return True

    def get(self, name: str) -> bytes | None:
        """The content of a small object; None when there is none."""
        found = self.get_version(name)
        return found[0] if found else None

    def get_version(self, name: str) -> tuple[bytes, str] | None:
        """The content of a small object, and the name of this version of it for `replace`.

        None when there is no such object.
        """

        def read() -> tuple[bytes, str]:
            found = self._store.get(self._key(name))
            return bytes(found.bytes()), found.meta["e_tag"] or ""

        try:
            return self._ask(read)
        except FileNotFoundError:
            return None

    def put(self, name: str, content: bytes) -> None:
        """Write an object in place of the one that may be there."""
        self._ask(lambda: self._store.put(self._key(name), content, use_multipart=False))

    def create(self, name: str, content: bytes) -> bool:
        """Write an object where there is none; returns whether there was none.

        After an answer that was lost, it is False though this call has written the object.
        """
        return self._put_if(name, content, "create")

    def replace(self, name: str, content: bytes, version: str) -> bool:
        """Write an object in place of one version; returns whether it was the newest.

        After an answer that was lost, it is False though this call has written the object.
        """
        return self._put_if(name, content, {"e_tag": version})

    def _put_if(self, name: str, content: bytes, mode: Any) -> bool:
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        def write() -> bool:
            try:
                self._store.put(self._key(name), content, mode=mode)
            except (AlreadyExistsError, PreconditionError):
                return False
            return True

        return self._ask(write)

    def upload(self, path: Path, name: str) -> None:
        """Write a file as an object. Raises FileNotFoundError when there is no such file."""
        part = max(_PART, path.stat().st_size // _PARTS)
        self._ask(
            lambda: self._connected(s3.UPLOAD_SECONDS).put(
                self._key(name), path, chunk_size=part, max_concurrency=_AT_A_TIME
            )
        )

    def download(self, name: str, path: Path) -> str:
        """Write an object into a file, whole or not at all, and return its SHA-256.

        Raises FileNotFoundError when there is no such object.
        """

        def write() -> str:
            sha256 = hashlib.sha256()
            with written_whole(path) as temporary, temporary.open("wb") as file:
                for chunk in self._store.get(self._key(name)).stream(_PART):
                    sha256.update(chunk)
                    file.write(chunk)
            return sha256.hexdigest()

        return self._ask(write)

    def remove(self, *names: str) -> None:
        """Remove those of the objects that are there, in one request for each 1,000."""
        if names:
            self._ask(lambda: self._store.delete([self._key(name) for name in names]))

    def _key(self, name: str) -> str:
        return f"{self._folder}/{name}"

    @property
    def _store(self) -> "S3Store":
        return self._connected(s3.ANSWER_SECONDS)

    def _connected(self, answer: float) -> "S3Store":
        region, scheme = map(self._options.get, ("region", "scheme"))
        return s3.connected(self.bucket, self.endpoint, region, scheme, answer)

    def _ask(self, call: Callable[[], T]) -> T:
        """The answer of a call; an error of the bucket is a RemoteAway with a sentence."""
        from obstore.exceptions import BaseError

        if self._away is not None and time.monotonic() < self._until:
            raise RemoteAway(str(self._away))
        try:
            try:
                answer = call()
            except BaseError as error:
                if not s3.broken_off(error):
                    raise
                answer = call()
        except (OSError, BaseError) as error:
            if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
                raise
            self._away = RemoteAway(f"{self.address} cannot be used: {s3.reason(error)}")
            self._until = time.monotonic() + AWAY_SECONDS
            raise self._away from None
        self._away = None
        return answer
