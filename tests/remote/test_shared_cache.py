"""The cache that machines share through a bucket: built once, checked on arrival."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness import shared_cache
from harness.arrays import SharedArrays
from harness.errors import UserError
from harness.files import cache_folder, sealed_json
from harness.training.saved_state import SavedState
from harness.training.shared_stages import StageStates
from tests.kits import forget
from tests.remote.buckets import Proxy, straight

pytestmark = [pytest.mark.slow, pytest.mark.process]
GoTo = Callable[[str], None]


@pytest.fixture
def go_to(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GoTo:
    """go_to(name): from now on, this process is on the machine with this name."""
    monkeypatch.setenv("HARNESS_SHARED_CACHE", f"s3://{bucket}/cache")

    def change(name: str) -> None:
        forget(shared_cache)  # a machine has processes of its own
        monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / name))

    return change


Put = Callable[[str, bytes], None]


@pytest.fixture
def built() -> list[str]:
    """The machines that have built the arrays."""
    return []


Arrays = Callable[[str], SharedArrays]


@pytest.fixture
def arrays(go_to: GoTo, built: list[str]) -> Arrays:
    """arrays(name): the same arrays on the machine with this name."""

    def on(name: str) -> SharedArrays:
        go_to(name)

        def build() -> dict[str, np.ndarray]:
            built.append(name)
            return {"ids": np.arange(1000), "starts": np.arange(5)}

        return SharedArrays(cache_folder() / "tokens" / "a-corpus", "word pieces", build)

    return on


@pytest.fixture
def put(bucket: str, server: int) -> Put:
    """put(name, content): write a file of the arrays in the bucket."""

    def write(name: str, content: bytes) -> None:
        path = f"{bucket}/cache/tokens/a-corpus/{name}"
        with straight(server).open_output_stream(path) as stream:
            stream.write(content)

    return write


def test_one_machine_builds_and_the_others_fetch(
    arrays: Arrays, built: list[str], put: Put
) -> None:
    """Damaged files of the bucket are replaced."""
    assert arrays("a").missing
    arrays("a").read()
    assert not arrays("b").missing
    fetched = arrays("b").read()
    assert built == ["a"]
    assert fetched["ids"].tolist() == list(range(1000))
    assert fetched["starts"].tolist() == list(range(5))
    put("manifest.json", b"{}")
    arrays("c").read()
    arrays("d").read()
    assert built == ["a", "c"]


def test_what_arrives_damaged_is_built_here(
    arrays: Arrays, built: list[str], proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the bucket a machine builds, and offers later."""
    proxy.always = "drop"
    arrays("a").read()
    proxy.always = None
    arrays("a").read()  # another process of this machine
    arrays("b").read()
    assert built == ["a"]
    proxy.pattern, proxy.always = b"a-corpus/", "flip"
    with caplog.at_level(logging.WARNING):
        assert arrays("c").read()["ids"][7] == 7
    assert built == ["a", "c"]
    assert "is not fetched from the shared cache" in caplog.text
    assert arrays("c").damage is None


@pytest.mark.parametrize(
    "named",
    [
        {"../x.npy": {"bytes": 1, "sha256": "0" * 64}},
        {"..": {"bytes": 1, "sha256": "0" * 64}},
        {"x.npy": {"bytes": 1, "sha256": "../../x"}},
        {"x.npy": {"bytes": 1}},
        ["x.npy"],
    ],
)
def test_a_manifest_of_a_stranger_names_no_other_file(
    named: object, arrays: Arrays, built: list[str], put: Put, tmp_path: Path, caplog: Any
) -> None:
    put("manifest.json", sealed_json(named).encode())
    put("0" * 64, b"x")
    assert arrays("a").read()["ids"][7] == 7
    assert built == ["a"]
    assert "is not fetched from the shared cache" in caplog.text
    assert not list(tmp_path.rglob("x*"))


def test_the_states_of_a_shared_stage_travel(go_to: GoTo) -> None:
    saved = SavedState({"weight": torch.arange(4.0)}, optimiser={"m": torch.ones(2)})
    for name, step in (("a", 250), ("b", 500), ("c", None)):
        go_to(name)
        states = StageStates(cache_folder() / "stages" / "a-stage")
        with states.held():
            if step == 500:
                assert states.latest(0, 500)[0] == 250
            if step:
                states.keep(step, saved)
            else:
                assert states.latest(0, 400)[0] == 0  # without the optimiser's, no step follows
                step, found = states.latest(0, 500)
                assert (step, found.weights["weight"].tolist()) == (500, [0.0, 1.0, 2.0, 3.0])


def test_a_cache_that_cannot_be_used_is_refused(
    bucket: str, monkeypatch: pytest.MonkeyPatch, go_to: GoTo
) -> None:
    go_to("a")
    shared_cache.check_caches()
    monkeypatch.setenv("HARNESS_SHARED_CACHE", "s3://no-such-bucket/cache")
    with pytest.raises(UserError, match="there is no such bucket"):
        shared_cache.check_caches()
    monkeypatch.setenv("HARNESS_CACHE", f"s3://{bucket}/cache")
    with pytest.raises(UserError, match="HARNESS_SHARED_CACHE"):
        cache_folder()
