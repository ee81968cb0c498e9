"""Find a method by path, by name or by entry point.

A user's file, a space or a paper, names one by name or by the path of a plugin.
"""

import ast
import functools
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

from harness.data.user_modules import UserCode, imported, named_by_records, user_code
from harness.errors import UserError, explained, suggest
from harness.files import digest, shipped
from harness.inputs import is_folder, kind_of, read_text, regular_file
from harness.plugin.config import MethodConfig
from harness.plugin.declaration import Declaration
from harness.plugin.declared import Declared
from harness.plugin.passes import Passes
from harness.relocation import here

if TYPE_CHECKING:
    from harness.document import Document, Location
    from harness.plugin.method import Method

ENTRY_POINTS = "harness.methods"
"""The group in which an installed package names its methods"""


COMPUTING = "method"
"""The module of a plugin's folder that computes, where `__init__.py` only declares"""
PLANNING = "passes"
"""The module of a plugin's folder that declares its arithmetic; no result depends on it"""


@dataclass(frozen=True)
class Plugin:
    """A method that was found: its name, what it declares, and the digest of its source."""

    name: str
    declaration: type[Declaration[Any]]
    source_digest: str
    module: str = ""
    """The name of the imported module with the declaration, where another one computes"""
    plans: bool = False
    """Whether its folder has a `passes.py`"""

    @property
    def config_type(self) -> type[MethodConfig]:
        """The class of its configurations."""
        return self.declaration.config_type

    @cached_property
    def method(self) -> "type[Method[Any]]":
        """The class that computes; of the shipped methods it is imported now, with torch.

        Raises UserError when the import fails, and where there is no such class.
        """
        from harness.plugin.method import Method

        if issubclass(self.declaration, Method):
            return self.declaration
        found = imported(f"{self.module}.{COMPUTING}", f"the plugin {self.name}")
        method = getattr(found, "Method", None)
        bases = (Method, self.declaration)
        if not (isinstance(method, type) and all(issubclass(method, base) for base in bases)):
            raise UserError(
                f"the plugin {self.name}: {COMPUTING}.py has no class Method that derives from "
                f"Declaration and from harness.plugin.Method"
            )
        return method

    @cached_property
    def passes(self) -> type[Passes[Any]]:
        """The class `Passes` of `passes.py`, or of a plugin in one file; without one, the default.

        Raises UserError when the import fails, and where it is something else.
        """
        module = sys.modules[self.module]
        if self.plans:
            module = imported(f"{self.module}.{PLANNING}", f"the plugin {self.name}")
        kind = getattr(module, "Passes", Passes)
        if not (isinstance(kind, type) and issubclass(kind, Passes)):
            raise UserError(
                f"the plugin {self.name}: Passes must be a class that derives from "
                f"harness.plugin.Passes, not {kind!r}"
            )
        return kind

    def declare(self, config: MethodConfig) -> Declared:
        """Declarations of the method under a configuration of its own type."""
        return Declared(self, config)


def names() -> list[str]:
    """Every method that can be named without a path, sorted. Imports none of them."""
    return sorted(sources())


def sources() -> dict[str, Path]:
    """Method name -> its folder or file.

    Entry points come first, then the shipped methods, then the folder `methods` of the working
    directory; a later one takes the name of an earlier one. Where a record of a store gives the
    name, one of the working directory does so only if its user has run it before.
    """
    plugins, own = _installed() | _shipped(), _below(Path("methods"))
    return plugins | {
        name: own[name] for name in own if name not in plugins or _takes_names(own[name])
    }


def source(name: str) -> Path | None:
    """The folder or file of one method, as in `sources`; None where there is no such method."""
    own = _below(Path("methods")).get(name)
    if own and _takes_names(own):
        return own
    return _shipped().get(name) or _installed().get(name) or own


def _takes_names(own: Path) -> bool:
    """Whether a method of the working directory takes the name of an installed one."""
    return not named_by_records() or _code(own).is_known


def _below(folder: Path) -> dict[str, Path]:
    files = sorted(folder.resolve().glob("*/__init__.py"))
    return {file.parent.name: file.parent for file in files}


@functools.cache
def _shipped() -> dict[str, Path]:
    return _below(shipped("methods"))


@functools.cache
def _installed() -> dict[str, Path]:
    """The methods of installed packages. Reading every package's metadata takes 20 ms."""
    plugins: dict[str, Path] = {}
    for point in entry_points(group=ENTRY_POINTS):
        spec = importlib.util.find_spec(point.module)
        if spec and spec.origin:
            origin = Path(spec.origin).resolve()
            plugins[point.name] = origin.parent if origin.name == "__init__.py" else origin
    return plugins


def docstring_line(source: Path) -> str:
    """The first line of the plugin's docstring, read without importing the plugin."""
    try:
        docstring = ast.get_docstring(ast.parse(read_text(_main_file(source))))
    except (SyntaxError, UserError, ValueError) as error:
        return f"(cannot be read: {error})"
    return docstring.splitlines()[0] if docstring else ""


def locate(name: str) -> Path:
    """The folder or file of the method `name`, which is a path or a name.

    What a record of a store names is looked up as a path only where it is absolute. A folder
    without a method does not hide the method of its name, as an exported model would. Raises
    UserError for an unknown name and for a folder without a method.
    """
    path = here(Path(name))
    is_path = path.is_absolute() or not named_by_records()
    hides = "/" in name or source(name) is None or kind_of(path / "__init__.py") != "nothing"
    if name and is_path and hides and kind_of(path) != "nothing":
        if not is_folder(path):
            return regular_file(path, "the plugin ").resolve()
        if kind_of(path / "__init__.py") != "nothing":
            regular_file(path / "__init__.py", "the plugin ")
            return path.resolve()
        raise UserError(
            f"{name} holds no method: it has no __init__.py{suggest(path.name, names())}"
        )
    # `methods/simcse` names the shipped method also where there is no such folder.
    plain = path.name if name == f"methods/{path.name}" else name
    if method := source(plain):
        return method
    file = f"{name}.py"
    plugins = names()
    near: Iterable[str] = plugins
    if is_path and kind_of(here(Path(file))) != "nothing":
        near = [file]
    elif is_path and ("/" in name or name.endswith(".py")):
        near = [*_plugins_near(name, path), *plugins]
    raise UserError(f'unknown method "{name}"{suggest(plain, near)}')


@functools.cache
def load(name: str) -> Plugin:
    """Import the method `name`, which is a path or a name.

    Raises UserError when there is no such method and when its import fails, and CodeNotRun.
    """
    path = locate(name)
    if _main_file(path).suffix != ".py":
        raise UserError(f"{path} is not a Python file or a folder with one")
    code = _code(path)
    trusted = any(path.resolve() in methods().values() for methods in (_shipped, _installed))
    module = code.module("plugin", trusted=trusted)
    declares = getattr(module, "Method", None) or getattr(module, "Declaration", None)
    if not _declares(declares, module):
        raise UserError(
            f"{path} holds no method: it has no class Method that derives from "
            f"harness.plugin.Method"
        )
    kind = declares.config_type
    if not (isinstance(kind, type) and issubclass(kind, MethodConfig)):
        raise UserError(
            f"{path}: config_type of class {declares.__name__} must be a class that derives from "
            f"harness.plugin.MethodConfig, not {kind!r}"
        )
    if not trusted:  # a field of a kind that pydantic does not know is said here
        with explained(f"the plugin {path} fails to import: "):
            kind.model_rebuild()
    plans = f"{PLANNING}.py" in dict(code.files) and path.is_dir()
    return Plugin(name_of(path), declares, _digest(code), module.__name__, plans)


def _declares(value: Any, module: ModuleType) -> TypeGuard[type[Declaration[Any]]]:
    """Whether what a module calls Method or Declaration is one, and its own."""
    base: type[Declaration[Any]] = Declaration
    if hasattr(module, "Method"):
        from harness.plugin.method import Method  # the module has imported it before

        base = Method
    return isinstance(value, type) and issubclass(value, base) and value is not base


def name_of(source: Path) -> str:
    """The name of the method of a file or a folder, which may have dots in it (`run.v2`)."""
    return source.stem if source.suffix == ".py" else source.name


def source_digest(source: Path) -> str:
    """Digest of every Python file of the plugin on which a result depends, by name and content."""
    return _digest(_code(source))


def _digest(code: UserCode) -> str:
    files = tuple(file for file in code.files if file[0] != f"{PLANNING}.py" or len(code.files) < 2)
    return digest(replace(code, files=files).content)


def _code(source: Path) -> UserCode:
    return user_code(source, "the plugin ")


def _main_file(source: Path) -> Path:
    return source / "__init__.py" if source.is_dir() else source


def plain_name(named: str) -> str:
    """The name of a method that a file names: of a path, that of its file or folder."""
    return name_of(Path(named)) if is_path(named) else named


def located(named: str, document: "Document", where: "Location") -> str:
    """The locator of a method that stands in a file: its name, or an absolute path.

    A path starts at the folder of the file, or else at the working directory. `where`: the place
    in the file. Raises UserError with its line for a method that is not there.
    """
    shipped = names()
    if named in shipped:
        return named
    if not is_path(named):
        raise document.error(where, f'unknown method "{named}"{suggest(named, shipped)}')
    beside = document.path.parent / named
    try:
        return str(locate(str(beside) if kind_of(beside) != "nothing" else named))
    except UserError as error:
        if kind_of(beside) != "nothing" or kind_of(Path(named)) != "nothing":
            raise document.error(where, str(error)) from None
        near = suggest(named, (*_plugins_near(named, beside), *shipped))
        raise document.error(where, f'unknown method "{named}"{near}') from None


def is_path(named: str) -> bool:
    """Whether a file names a method by its path, and not by its name."""
    return "/" in named or named.endswith(".py")


def _plugins_near(named: str, beside: Path) -> Iterable[str]:
    """The plugins in the folder in which a path does not exist, written as the path is."""
    folder, slash, _ = named.rpartition("/")
    for place in {beside.parent, Path(folder)}:
        for file in (*place.glob("*.py"), *place.glob("*/__init__.py")):
            name = file.parent.name if file.name == "__init__.py" else file.name
            yield f"{folder}{slash}{name}"
