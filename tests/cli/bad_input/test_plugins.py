"""A plugin that cannot be used."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]
LineOf = Callable[[Path, str], str]

METHOD = """\
from harness import plugin


class Config(plugin.MethodConfig):
    pass


class Method(plugin.Method[Config]):
    config_type = Config
"""


@pytest.mark.parametrize("verb", ["run", "check", "sweep", "plan"])
def test_unknown_method_is_answered_with_the_nearest(
    verb: str, refused: Refused, space: SpaceFile
) -> None:
    arguments = ["simcze", space()] if verb in ("sweep", "plan") else ["simcze"]
    refused([verb, *arguments], 'unknown method "simcze"', 'did you mean "simcse"?')


def test_unknown_method_in_a_space(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    path = space("  simcse:", "  simcze:")
    refused(
        ["sweep", path],
        line_of(path, "simcze"),
        'unknown method "simcze"',
        'did you mean "simcse"?',
    )


def test_method_that_the_space_does_not_have(refused: Refused, space: SpaceFile) -> None:
    refused(["sweep", "pooling", space()], 'no method "pooling"', "simcse")


def test_folder_without_a_method(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(["run", tmp_path / "empty"], tmp_path / "empty", "holds no method", "__init__.py")


def test_file_that_is_no_python(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("text")
    refused(["check", tmp_path / "notes.txt"], "notes.txt", "not a Python file")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            "import no_such_package_anywhere\n",
            "ModuleNotFoundError: No module named 'no_such_package_anywhere'",
        ),
        ("def broken(:\n", "SyntaxError"),
        ("raise RuntimeError('of no use')\n", "RuntimeError: of no use"),
        ("import sys\nsys.exit(7)\n", "SystemExit: 7"),
    ],
    ids=["missing package", "syntax", "raises", "exits"],
)
def test_plugin_that_fails_to_import(
    source: str, reason: str, refused: Refused, tmp_path: Path
) -> None:
    plugin = tmp_path / "broken.py"
    plugin.write_text(source)
    refused(["run", plugin], plugin, "fails to import", reason)


@pytest.mark.parametrize(
    "source",
    [
        "",
        METHOD.replace("class Method", "class Methods"),
        "from harness.plugin import Method\n",
        "Method = 3\n",
    ],
    ids=["empty", "other name", "the base class", "no class"],
)
def test_plugin_without_class_method(source: str, refused: Refused, tmp_path: Path) -> None:
    plugin = tmp_path / "hollow.py"
    plugin.write_text(source)
    refused(["run", plugin], plugin, "holds no method", "class Method")
