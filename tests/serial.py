"""Sweeps in the process of the test, one trial after the other, for what does not depend on Ray."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.programs import Answer


@pytest.fixture(scope="session")
def serially(cache: Path) -> Callable[..., Answer]:
    """serially(argument, ...): `harness sweep` with these arguments in this process."""

    def call(*arguments: object) -> Answer:
        from harness.cli.verbs import app

        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("HARNESS_HUB", raising=False)
            patch.setenv("HARNESS_CACHE", str(cache))
            patch.setenv("HARNESS_TEST_PAUSE", "0")
            answer = CliRunner().invoke(app, ["sweep", "--local", *map(str, arguments)])
        if answer.exception and not isinstance(answer.exception, SystemExit):
            raise answer.exception
        return Answer(answer.exit_code, answer.stdout, answer.stderr)

    return call
