"""Addresses of buckets: credentials have no place in them, and no sentence repeats them."""

import pytest

from harness.errors import UserError
from harness.remote import RemoteFolder

SECRET = "planted5ecret"


@pytest.mark.parametrize(
    "address",
    [
        f"s3://KEY:{SECRET}@bucket/trials",
        f"s3://bucket/trials?endpoint_override=KEY:{SECRET}@host:9000",
        f"s3://bucket/trials?access_key=KEY&secret_key={SECRET}",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(UserError) as refused:
        RemoteFolder(address)
    assert SECRET not in str(refused.value)


def test_credentials_in_the_address_of_a_server_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://KEY:{SECRET}@host:9000")
    with pytest.raises(UserError, match="credentials go into AWS_ACCESS_KEY_ID") as refused:
        RemoteFolder("s3://bucket/trials")
    assert SECRET not in str(refused.value)


def test_an_at_sign_in_the_name_of_a_folder_is_none() -> None:
    assert RemoteFolder("s3://bucket/a@b").path == "bucket/a@b"
