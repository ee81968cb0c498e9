"""The wheel: its content, and that it works in an empty folder away from the checkout."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.checkout import CHECKOUT, example
from tests.cli.conftest import sets
from tests.sweeping import ONE_AT_A_TIME

pytestmark = [pytest.mark.slow, pytest.mark.process]

SHIPPED = {
    "methods": "harness/shipped/methods",
    "search_spaces": "harness/shipped/search_spaces",
    "results/reported": "harness/shipped/reported",
}
"""Folder of the checkout -> its place in the wheel"""
METHODS = {path.parent.name for path in (CHECKOUT / "methods").glob("*/__init__.py")}
BUILD_SECONDS, COMMAND_SECONDS = 600, 600


def answer(
    command: list[str | Path], folder: Path, seconds: int = COMMAND_SECONDS, code: int = 0
) -> str:
    """The output of a command in a folder, without any setting of harness, Python or Ray."""
    settings = ("HARNESS_", "PYTHON", "VIRTUAL_ENV", "PYTEST", "RAY_")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(settings)
    } | {"HARNESS_CACHE": str(folder / ".cache")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds,
        check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr if code else done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout, built by the backend that constraints.txt locks."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    answer([*pip, "--wheel-dir", folder, CHECKOUT], folder, BUILD_SECONDS)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of a fresh environment that has what pip installs for the wheel.

    These packages, without any that only an extra has, are links to those of the environment that
    runs this test.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", programs / "python"]
    answer([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel], folder)
    paths = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=paths))
    (harness,) = metadata.distributions(path=[str(packages)])
    for name in required(harness.requires or ()):
        distribution = metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(distribution.locate_file(top)))
    return programs


def required(requirements: Iterable[str]) -> set[str]:
    """The names of the packages that pip installs for these requirements, without extras."""
    waiting, needed = [each for each in map(Requirement, requirements) if _holds(each)], set()
    while waiting:
        wanted = waiting.pop()
        for extra in {"", *wanted.extras} - {each for name, each in needed if name == wanted.name}:
            needed.add((wanted.name, extra))
            more = map(Requirement, metadata.requires(wanted.name) or ())
            waiting += [each for each in more if _holds(each, extra)]
    return {name for name, _ in needed}


def _holds(requirement: Requirement, extra: str = "") -> bool:
    """Whether a requirement holds here, with this extra of the package that has it."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


@pytest.fixture
def installed(environment: Path, tmp_path: Path) -> "Installed":
    """The installed harness in an empty folder."""
    return Installed(environment, tmp_path)


class Installed:
    """The commands of an environment, run in one folder."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder

    def python(self, code: str) -> str:
        """The output of a line of Python."""
        return answer([self.programs / "python", "-c", code], self.folder).strip()

    def harness(self, *arguments: str, code: int = 0) -> str:
        """The output of `harness`; with the exit code of a failure, and what it says on stderr."""
        return answer([self.programs / "harness", *arguments], self.folder, code=code)


def test_methods_spaces_and_reported_numbers_are_inside_the_package(wheel: Path) -> None:
    """Nothing else is at the top level."""
    names = set(zipfile.ZipFile(wheel).namelist())
    version = re.escape(wheel.name.split("-")[1])
    top, beside = sorted({name.partition("/")[0] for name in names})
    assert top == "harness"
    assert re.fullmatch(rf"harness_embeddings-{version}\.dist-info", beside)
    for folder, target in SHIPPED.items():
        here = {
            f"{target}/{path.relative_to(CHECKOUT / folder).as_posix()}"
            for path in (CHECKOUT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert here == {name for name in names if name.startswith(f"{target}/")}
    page = ("static/page.css", "static/page.js", "templates/index.html")
    assert names >= {"harness/py.typed", *(f"harness/report/page/{name}" for name in page)}
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]


def test_it_has_its_methods_spaces_and_published_numbers(installed: Installed) -> None:
    """A new method keeps the contract."""
    place = Path(installed.python("import harness; print(harness.__file__)"))
    assert place.is_relative_to(installed.programs.parent)
    assert not place.is_relative_to(CHECKOUT)
    spaces = [line.split()[0] for line in installed.harness("list", "spaces").splitlines()]
    assert spaces[:3] == ["decoders", "fractions", "large"]
    assert "diffaug-table6" in spaces
    printed = installed.harness("table", "--paper", "diffaug")
    assert re.search(r"DiffAug.*published.*80\.13", printed, re.DOTALL), printed
    installed.harness("new", "methods/mine")
    assert "keeps the contract" in installed.harness("check", "methods/mine")
    listed = {line.split()[0] for line in installed.harness("list", "methods").splitlines()}
    assert listed >= {"mine", *METHODS}


# More than 20 s: Ray and its workers start in the fresh environment.
def test_a_sweep_of_a_space_that_is_named_ends_with_a_row(installed: Installed) -> None:
    arguments = ["--set", "max_steps=2", "--seeds", "0", "--configurations", "1", *ONE_AT_A_TIME]
    printed = installed.harness("sweep", "simcse", "quickstart", *arguments)
    assert re.search(r"^\d +simcse +unsup +tiny-bert .* 1 .*\d\.\d", printed, re.M), printed
    assert list((installed.folder / "results" / "trials").glob("*.parquet"))


# More than 20 s: a real start in the fresh environment, which trains.
def test_the_method_in_32_lines_runs_from_its_page_alone(installed: Installed) -> None:
    plugin = example("docs/plugins.md", "python")
    (installed.folder / "worked.py").write_text(plugin, encoding="utf-8")
    values = sets(suite="graded", sentences="graded-sentences", max_steps=2)
    printed = installed.harness("run", "worked.py", "--encoder", "tiny-bert", *values)
    assert re.search(r"graded: \d+\.\d\d", printed), printed


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [("figure --sweep quickstart", "matplotlib", "figures"),
     ("picture tiny-bert", "matplotlib", "figures"),
     ("export 4f2a out", "sentence_transformers", "sentence-transformers")],
)  # fmt: skip
def test_a_verb_names_the_extra_that_it_lacks(
    words: str, package: str, extra: str, installed: Installed
) -> None:
    output = installed.harness(*words.split(), code=2)
    assert f"needs {package}, which is not installed" in output, output
    assert f"pip install 'harness-embeddings[{extra}]'" in output
    assert "Traceback" not in output
    assert not list(installed.folder.glob("[!.]*")), "something was left behind"


def test_a_trial_whose_method_lacks_an_extra_fails_with_its_name(installed: Installed) -> None:
    words = ["run", "sentence_transformer", "--encoder", "tiny-bert", "--set", "suite=graded"]
    said = installed.harness(*words, code=1)
    assert "pip install 'harness-embeddings[sentence-transformers]'" in said
    assert "Traceback" not in said
