"""Every public name of harness means one thing: no two modules define the same one.

The files are parsed and not imported, so the test is quick.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "harness"


def public_names(source: str) -> Iterator[str]:
    """The public classes, functions, constants and type aliases that a module defines."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            # A target may also be a part of an object, whose names are only used here.
            names = [
                part.id
                for part in parts
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            ]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))


def is_verb(path: Path, name: str) -> bool:
    """Whether it is a verb of the command line, which is a function with the name of its file.

    A verb that is a name of Python has an underscore behind it.
    """
    return path.parent.name == "cli" and name.rstrip("_") == path.stem


def repeated(package: Path) -> dict[str, list[str]]:
    """Name -> the modules that define it, for the names of more than one module."""
    modules: dict[str, set[str]] = defaultdict(set)
    # The skeletons are plugins, each of which has the classes Config and Method.
    files = (path for path in package.rglob("*.py") if path.parent.name != "skeletons")
    for path in sorted(files):
        for name in public_names(path.read_text("utf-8")):
            if not is_verb(path, name):
                modules[name].add(path.relative_to(package).as_posix())
    return {name: sorted(found) for name, found in modules.items() if len(found) > 1}


def test_no_two_modules_define_the_same_public_name() -> None:
    found = repeated(PACKAGE)
    assert not found, "\n".join(f"{name}: {', '.join(where)}" for name, where in found.items())


@pytest.mark.parametrize(
    "definition",
    [
        "class Thing: ...",
        "def Thing(): ...",
        "Thing = 1",
        "Thing: int = 1",
        "Other, Thing = 1, 2",
    ],
)
def test_every_kind_of_definition_is_found(tmp_path: Path, definition: str) -> None:
    (tmp_path / "one.py").write_text("class Thing: ...")
    (tmp_path / "two.py").write_text(definition)
    assert repeated(tmp_path) == {"Thing": ["one.py", "two.py"]}


def test_private_names_imports_and_verbs_may_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "one.py").write_text("def plan(): ...\ndef _part(): ...\nclass Base: ...")
    (tmp_path / "two.py").write_text("from one import Base\ndef _part(): ...\n_part.x = Base")
    (tmp_path / "cli" / "plan.py").write_text("def plan(): ...")
    assert repeated(tmp_path) == {}
