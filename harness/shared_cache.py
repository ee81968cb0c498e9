"""The cache that machines share through a bucket, beside the cache folder of each.

HARNESS_SHARED_CACHE names it, such as s3://BUCKET/cache. What a machine has made is sent there, and
what it lacks is fetched from there, each with its manifest. In the bucket, an object is named by
the SHA-256 of its content and the manifest comes last, so what two machines send at the same time
does not mix.
"""

import functools
import logging
import os
from pathlib import Path

from harness import files
from harness.files import cache_folder, content_digest, described, written_whole
from harness.remote import RemoteAway, RemoteFolder

SHARED_CACHE = "HARNESS_SHARED_CACHE"
_logger = logging.getLogger(__name__)


def check_caches() -> None:
    """Raises UserError when nothing could be written into the cache, or into the shared one."""
    files.check_cache()
    if (shared := _shared()) is not None:
        shared.check(write=True)


def in_use() -> bool:
    """Whether machines share a cache."""
    return _shared() is not None


def has(manifest: Path) -> bool:
    """Whether the shared cache has what this manifest is to name."""
    shared = _shared()
    try:
        return shared is not None and shared.has(_name(manifest))
    except RemoteAway as why:
        _logger.warning("%s; this machine makes what it needs", why)
        return False


def fetch(manifest: Path) -> bool:
    """Fetch a manifest and those of its files that differ here; whether all of them are there.

    What arrives damaged is named, and is not put in place.
    """
    shared = _shared()
    if shared is None:
        return False
    try:
        content = shared.get(_name(manifest))
        if content is None:
            return False
        for name, (_, sha256) in described(content).items():
            path = manifest.with_name(name)
            if not path.is_file() or content_digest(path) != sha256:
                with written_whole(path) as temporary:
                    if shared.download(_name(manifest.with_name(sha256)), temporary) != sha256:
                        raise ValueError(f"{name} arrived damaged")
        with written_whole(manifest) as temporary:
            temporary.write_bytes(content)
    except (OSError, ValueError) as why:
        _logger.warning("%s is not fetched from the shared cache: %s", manifest.parent, why)
        return False
    return True


@functools.cache
def offer(manifest: Path) -> None:
    """Send what is here to the shared cache, unless it is there; each process looks once."""
    if in_use() and not has(manifest):
        send(manifest)


def send(manifest: Path) -> None:
    """Send the files that a manifest names, and then the manifest; a failure is logged.

    Objects of an earlier manifest that the new one does not name are removed.
    """
    shared = _shared()
    if shared is None:
        return
    try:
        content, before = manifest.read_bytes(), shared.get(_name(manifest))
        if content == before:
            return
        there = shared.names(_name(manifest.parent))
        named = {sha256: name for name, (_, sha256) in described(content).items()}
        for sha256, name in named.items():
            if sha256 not in there:
                shared.upload(manifest.with_name(name), _name(manifest.with_name(sha256)))
        shared.put(_name(manifest), content)
        gone = there.keys() - named.keys() - {manifest.name}
        shared.remove(*(_name(manifest.with_name(name)) for name in gone))
    except (OSError, ValueError) as why:
        _logger.warning("%s is not in the shared cache: %s", manifest.parent, why)


def _name(path: Path) -> str:
    return path.relative_to(cache_folder()).as_posix()


def _shared() -> RemoteFolder | None:
    """The shared cache that the environment names. Raises UserError for a wrong address."""
    address = os.environ.get(SHARED_CACHE)
    return _folder(address) if address else None


_folder = functools.cache(RemoteFolder)
