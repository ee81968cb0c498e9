"""The browser in which pages are looked at."""

import os
import shutil

import pytest


def chromium() -> str:
    """The path of Chromium. A test is skipped where there is none, and never in CI."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if not path and not os.environ.get("CI"):
        pytest.skip("there is no Chromium here")
    assert path, "CI needs Chromium; .ci/run installs it"
    return path
