"""Fixtures of the tests of methods: encoders without dropout."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def still(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """still(fixture): the model of a fixture without dropout, so that all views may be equal."""

    def make(family: str) -> str:
        folder = tmp_path / family
        shutil.copytree(request.getfixturevalue(family), folder)
        config = json.loads((folder / "config.json").read_text())
        config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        (folder / "config.json").write_text(json.dumps(config))
        return str(folder)

    return make


@pytest.fixture
def without_dropout(still: Callable[[str], str], family: str) -> str:
    """The encoder of a family without dropout."""
    return still(family)
