"""A user's Python file as a module: what registers a suite or a corpus."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from harness.errors import UserError


def user_module(path: Path, code_digest: str, what: str) -> ModuleType:
    """Import a file, of which `code_digest` is the digest. `what` it registers, in one word.

    Raises UserError when its import fails.
    """
    # The digest makes a file that has changed another module.
    name = f"harness_{what}_{path.stem}_{code_digest[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's file that exits must not end the program
        del sys.modules[spec.name]
        raise UserError(
            f"the {what} {path} fails to import: {type(error).__name__}: {error}"
        ) from error
    return module
