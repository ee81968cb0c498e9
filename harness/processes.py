"""Processes of Python that run a module of harness, and import nothing from the working folder.

This file is their program: `python -P processes.py MODULE ARGUMENT...`. It takes harness from where
it lies, and nothing else from there.
"""

import gc
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from runpy import run_module


def collect_seldom() -> None:
    """Look for garbage seldom in this process, which is one of harness.

    Imports make half a million objects that stay. With Python's own thresholds (700, 10, 10) a
    sixth of their time is spent on looking for garbage among them.
    """
    gc.set_threshold(100_000, 50, 100)


def python_command(module: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    """The command that runs `module` as a program. `options`: further ones of Python."""
    # With `-m`, Python would look for every module in the working folder first.
    return [sys.executable, "-P", *options, __file__, module, *arguments]


def _import_harness() -> None:
    spec = spec_from_file_location("harness", Path(__file__).resolve().with_name("__init__.py"))
    assert spec
    assert spec.loader
    sys.modules["harness"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["harness"])


if __name__ == "__main__":
    collect_seldom()
    _import_harness()
    del sys.argv[0]
    run_module(sys.argv[0], run_name="__main__", alter_sys=True)
