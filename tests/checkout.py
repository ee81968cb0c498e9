"""The checkout that is tested, the examples of its pages, and its programs in no package."""

import importlib.util
import re
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]


def example(page: str, language: str, number: int = 0) -> str:
    """A block of a language in a page, the first one by default."""
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return str(found[number])


def module_of(path: str) -> Any:
    """The module in a file of the checkout, read anew."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, CHECKOUT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
