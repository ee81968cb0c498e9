"""The checkout that is tested, and its programs that are in no package."""

import importlib.util
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]


def module_of(path: str) -> Any:
    """The module in a file of the checkout, read anew."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, CHECKOUT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
