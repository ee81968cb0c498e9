"""Python files of users that hold suites or tasks."""

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from harness.errors import UserError


@functools.cache
def imported(path: Path, code_digest: str) -> ModuleType:
    """The module of a user's file. A file that has changed has another digest and is read again.

    Raises UserError when it fails to import.
    """
    spec = importlib.util.spec_from_file_location(
        f"harness_suite_{path.stem}_{code_digest[:8]}", path
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(
            f"the suite {path} fails to import: {type(error).__name__}: {error}"
        ) from error
    return module
