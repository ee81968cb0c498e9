"""Find a method by path, by name or by entry point."""

import ast
import functools
import importlib.util
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from harness.errors import UserError, suggest
from harness.files import digest, shipped
from harness.inputs import is_folder, kind_of, read_text, regular_file
from harness.relocation import here

if TYPE_CHECKING:
    from harness.plugin.config import MethodConfig
    from harness.plugin.declared import Declared
    from harness.plugin.method import Method

ENTRY_POINTS = "harness.methods"
"""The group in which an installed package names its methods"""


@dataclass(frozen=True)
class Plugin:
    """A method that was found: its name, its class, and the digest of its source."""

    name: str
    method: "type[Method[Any]]"
    source_digest: str

    def declare(self, config: "MethodConfig") -> "Declared":
        """What the method declares under a configuration of its own type."""
        from harness.plugin.declared import Declared

        return Declared(self.name, self.source_digest, self.method, config)


def names() -> list[str]:
    """Every method that can be named without a path, sorted. Imports none of them."""
    return sorted(sources())


def sources() -> dict[str, Path]:
    """Method name -> its folder or file.

    Entry points come first, then the shipped methods, then the folder `methods` of the working
    directory; a later one takes the name of an earlier one.
    """
    found = dict(_installed())
    for folder in (shipped("methods"), Path("methods").resolve()):
        found |= {path.parent.name: path.parent for path in sorted(folder.glob("*/__init__.py"))}
    return found


@functools.cache
def _installed() -> dict[str, Path]:
    """The methods of installed packages. Reading every package's metadata takes 20 ms."""
    found: dict[str, Path] = {}
    for point in entry_points(group=ENTRY_POINTS):
        spec = importlib.util.find_spec(point.module)
        if spec and spec.origin:
            origin = Path(spec.origin)
            found[point.name] = origin.parent if origin.name == "__init__.py" else origin
    return found


def docstring_line(source: Path) -> str:
    """The first line of the plugin's docstring, read without importing the plugin."""
    try:
        docstring = ast.get_docstring(ast.parse(read_text(_main_file(source))))
    except (SyntaxError, UserError, ValueError) as error:
        return f"(cannot be read: {error})"
    return docstring.splitlines()[0] if docstring else ""


def locate(name: str) -> Path:
    """The folder or file of the method `name`, which is a path or a name.

    Raises UserError for an unknown name and for a folder without a method.
    """
    path = here(Path(name))
    if name and kind_of(path) != "nothing":
        if not is_folder(path):
            return regular_file(path, "the plugin ").resolve()
        if kind_of(path / "__init__.py") != "nothing":
            regular_file(path / "__init__.py", "the plugin ")
            return path.resolve()
        raise UserError(
            f"{name} holds no method: it has no __init__.py{suggest(path.name, names())}"
        )
    # `methods/simcse` names the shipped method also where there is no such folder.
    known = sources()
    plain = path.name if name == f"methods/{path.name}" else name
    if plain in known:
        return known[plain]
    file = f"{name}.py"
    near = [file] if kind_of(here(Path(file))) != "nothing" else known
    raise UserError(f'unknown method "{name}"{suggest(plain, near)}')


@functools.cache
def load(name: str) -> Plugin:
    """Import the method `name`, which is a path or a name.

    Raises UserError when there is no such method and when its import fails.
    """
    from harness.plugin.config import MethodConfig  # here, because they load torch
    from harness.plugin.method import Method

    source = locate(name)
    digest_of_source = source_digest(source)  # first, since it looks at every file of the plugin
    module = _import(source)
    method = getattr(module, "Method", None)
    if not (isinstance(method, type) and issubclass(method, Method) and method is not Method):
        raise UserError(
            f"{source} holds no method: it has no class Method that derives from "
            f"harness.plugin.Method"
        )
    if not (isinstance(method.config_type, type) and issubclass(method.config_type, MethodConfig)):
        raise UserError(
            f"{source}: config_type of class Method must be a class that derives from "
            f"harness.plugin.MethodConfig, not {method.config_type!r}"
        )
    return Plugin(source.stem, method, digest_of_source)


def source_digest(source: Path) -> str:
    """Digest of every Python file of the plugin, by name and content."""
    files = sorted(source.rglob("*.py")) if source.is_dir() else [source]
    content = b""
    # Names are included: two files that swap their contents are another plugin.
    for file in files:
        name = file.relative_to(source).as_posix() if source.is_dir() else file.name
        content += name.encode() + b"\0" + regular_file(file, "the plugin ").read_bytes() + b"\0"
    return digest(content)


def _main_file(source: Path) -> Path:
    return source / "__init__.py" if source.is_dir() else source


def _import(source: Path) -> ModuleType:
    """Import the plugin as a package of its own, whose siblings it can import relatively."""
    # The digest makes the name unique: two folders elsewhere can have the same name.
    module_name = f"harness_method_{source.stem}_{digest(str(source), 8)}"
    folders = [str(source)] if source.is_dir() else None
    spec = importlib.util.spec_from_file_location(
        module_name, _main_file(source), submodule_search_locations=folders
    )
    if spec is None or spec.loader is None:
        raise UserError(f"{source} is not a Python file or a folder with one")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a plugin that exits must not end the program
        del sys.modules[module_name]
        raise UserError(
            f"the plugin {source} fails to import: {type(error).__name__}: {error}"
        ) from error
    return module
