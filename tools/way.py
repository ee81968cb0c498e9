"""Counts what runs for one table over an empty store: files, functions and calls of harness.

`python -m tools.way` prints them for `harness table --paper diffaug --table 1`, from the call of
`table` in `cli/table.py` on, with its modules imported, and then each function with its calls and
its callers. Functions without a name, such as comprehensions, do not count.
"""

import importlib
import io
import sys
import tempfile
from collections import Counter, defaultdict
from contextlib import chdir, redirect_stdout, suppress
from multiprocessing import get_context
from pathlib import Path
from types import CodeType, FrameType

import harness
from harness.cli.table import table

PACKAGE = Path(harness.__file__).parent


def print_table() -> list[str]:
    """Print the table to nowhere from an empty folder; return the names of all imported modules."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(io.StringIO()):
        table(paper="diffaug", number=1, store="store")
    return list(sys.modules)


def counted() -> tuple[Counter[CodeType], dict[CodeType, set[str]]]:
    """The functions that run, with the number of their calls and with the names of their callers.

    The modules are those that another process has imported for the same table.
    """
    with get_context("fork").Pool(1) as pool:
        modules = pool.apply(print_table)
    for name in modules:
        with suppress(ImportError):  # not every name in sys.modules can be imported
            importlib.import_module(name)
    calls, callers = Counter[CodeType](), defaultdict[CodeType, set[str]](set)

    def count(frame: FrameType, event: str, _: object) -> None:
        code, caller = frame.f_code, frame.f_back
        if event != "call" or not is_counted(code):
            return
        calls[code] += 1
        while caller and not is_counted(caller.f_code):
            caller = caller.f_back
        callers[code].update([caller.f_code.co_qualname] if caller else [])

    sys.setprofile(count)
    print_table()
    sys.setprofile(None)
    return calls, callers


def is_counted(code: CodeType) -> bool:
    """Whether it is a function of harness that has a name."""
    return code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<")


def main() -> None:
    """Print the counts, and the functions in the order of their first calls."""
    calls, callers = counted()
    for title, start in (("of harness", PACKAGE), ("of the report", PACKAGE / "report")):
        own = [code for code in calls if code.co_filename.startswith(str(start))]
        files = len({code.co_filename for code in own})
        print(f"{title}: {files} files, {len(own)} functions, {sum(calls[c] for c in own)} calls")
    for code, number in calls.items():
        where = Path(code.co_filename).relative_to(PACKAGE)
        print(f"{number:5} {where} {code.co_qualname} <- {', '.join(sorted(callers[code]))}")


if __name__ == "__main__":
    main()
