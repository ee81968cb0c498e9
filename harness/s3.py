"""The client of S3 servers, obstore: where a bucket is, with which keys, and what its errors mean.

obstore is imported when a bucket is asked, and not before.
"""

import configparser
import functools
import os
import re
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UserError

if TYPE_CHECKING:
    from obstore.store import S3Credential, S3Store

RETRIES, FIRST_PAUSE, LONGEST_PAUSE = 4, 0.5, 3.0
"""Repetitions of a request, and the seconds before them, which grow: two to ten in all"""
NO_MORE_SECONDS = 10.0
"""A request that has lasted for so long is not repeated any more"""
CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 10.0
"""Longest wait for a connection, and for an answer or the next bytes of one"""
UPLOAD_SECONDS = 60.0
"""Longest wait for an answer to a part of a large object, which a slow line takes long to send"""
AMAZON = "https://s3.amazonaws.com"
"""The server that knows the region of every bucket of Amazon"""
READ_AGAIN = timedelta(minutes=5)
"""Time after which ~/.aws/credentials is read again: some tools renew what is in it"""
_KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials"
_DENIED = f"access is denied; check the credentials ({_KEYS})"
_REASONS = {
    "//169.254.": f"there are no credentials; set {_KEYS}",
    "<Code>NoSuchBucket</Code>": "there is no such bucket",
    "403 Forbidden": _DENIED,
    "401 Unauthorized": _DENIED,
}
"""Part of one of obstore's messages that users meet -> its meaning"""


def reason(error: Exception) -> str:
    """The reason in obstore's message, without the names of requests."""
    text, _, details = str(error).partition("\n\nDebug source:")
    for words, reason in _REASONS.items():
        if words in text:
            return reason
    if "HTTP error: " in text:
        found = re.findall(r'(?:message|error): "([^"]+)"', details)
        return f"it does not answer ({[text.rpartition('HTTP error: ')[2], *found][-1]})"
    code, message = (re.search(f"<{tag}>([^<]*)", text) for tag in ("Code", "Message"))
    if "invalid path: " in text:
        return f"remove the object whose name is no path: {text.partition('invalid path: ')[2]}"
    if code and message:
        return f"{code[1]}: {message[1]}"
    return " ".join(text.rpartition(" - ")[2].split())


def broken_off(error: Exception) -> bool:
    """Whether an answer broke off in a listing or a refusal; obstore does not repeat these."""
    return "HTTP error: request or response body error" in str(error)


def endpoint_of_environment() -> str | None:
    """The server that the environment names, where it is not Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


@functools.cache
def _region(bucket: str) -> str:
    """The region of a bucket of Amazon, which says it to everybody, also with a refusal."""
    request = urllib.request.Request(f"{AMAZON}/{bucket}", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=CONNECT_SECONDS) as answer:
            headers = answer.headers
    except urllib.error.HTTPError as refusal:
        headers = refusal.headers
    except urllib.error.URLError as error:
        raise OSError(f"HTTP error: {error.reason}") from None
    if region := headers.get("x-amz-bucket-region"):
        return str(region)
    raise OSError("<Code>NoSuchBucket</Code>")


def connected(
    bucket: str, endpoint: str | None, region: str | None, scheme: str | None, answer: float
) -> "S3Store":
    """The client for the objects of a bucket, which waits `answer` seconds for each answer.

    Raises OSError when Amazon cannot say the region of its bucket.
    """
    region = region or ("us-east-1" if endpoint else _region(bucket))
    endpoint = endpoint or f"s3.{region}.amazonaws.com"
    if "://" not in endpoint:
        endpoint = f"{scheme or 'https'}://{endpoint}"
    return _connected(bucket, endpoint, region, answer, os.environ.get("AWS_ACCESS_KEY_ID"))


@functools.cache
def _connected(
    bucket: str, endpoint: str, region: str, answer: float, key: str | None
) -> "S3Store":
    """The same client. `key`: the access key of the environment, which comes before the file."""
    from obstore.store import S3Store

    return S3Store(
        bucket,
        config={"aws_endpoint_url_s3": endpoint, "region": region},
        client_options={
            "allow_http": True,
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "read_timeout": timedelta(seconds=answer),
            "timeout": timedelta(days=1),  # of a large object
        },
        retry_config={
            "max_retries": RETRIES,
            "retry_timeout": timedelta(seconds=NO_MORE_SECONDS),
            "backoff": {
                "init_backoff": timedelta(seconds=FIRST_PAUSE),
                "max_backoff": timedelta(seconds=LONGEST_PAUSE),
            },
        },
        credential_provider=None if key or _profile() is None else _keys_of_profile,
    )


def _profile() -> configparser.SectionProxy | None:
    """The profile AWS_PROFILE in ~/.aws/credentials, where obstore does not look.

    None when it has no keys. Raises UserError when the file cannot be read.
    """
    path = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    profiles = configparser.RawConfigParser()
    try:
        profiles.read(Path(path).expanduser(), encoding="utf-8")
    except (configparser.Error, ValueError):  # its message has lines of the file
        raise UserError(f"{path} cannot be read as a file of AWS profiles") from None
    name = os.environ.get("AWS_PROFILE") or "default"
    return profiles[name] if profiles.has_option(name, "aws_access_key_id") else None


def _keys_of_profile() -> "S3Credential":
    """The keys of the profile as they are now. Raises UserError when it has none any more."""
    profile = _profile()
    if profile is None:
        raise UserError("the keys in ~/.aws/credentials are gone")
    return {
        "access_key_id": profile["aws_access_key_id"],
        "secret_access_key": profile.get("aws_secret_access_key", ""),
        "token": profile.get("aws_session_token"),
        "expires_at": datetime.now(UTC) + READ_AGAIN,
    }
