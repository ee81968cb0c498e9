"""`bootstrap.py` says how far an installation is, and passes none of pip's advice on."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
SAID = """\
Ignoring pywin32: markers 'sys_platform == "win32"' don't match your environment
Collecting absl-py==2.5.1 (from -r constraints.txt (line 1))
  Downloading absl_py-2.5.1-py3-none-any.whl.metadata (3.3 kB)
Collecting torch==2.13.0 (from -r constraints.txt (line 4))
  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (30 kB)
Downloading absl_py-2.5.1-py3-none-any.whl (500 kB)
Progress 500000 of 500000
Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (820.5 MB)
Progress 0 of 820500000
Progress 410250000 of 820500000
Installing collected packages: absl-py, torch
"""
WARNING = "WARNING: Running pip as the 'root' user can result in broken permissions"


@pytest.fixture
def bootstrap() -> ModuleType:
    """The program as a module."""
    spec = importlib.util.spec_from_file_location("bootstrap", CHECKOUT / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_how_far_pip_is(bootstrap: ModuleType) -> None:
    heard, texts = bootstrap.Installation(3), []
    for line in SAID.splitlines(keepends=True):
        heard.hear(line)
        texts.append(heard.text(installed=1))
    assert list(dict.fromkeys(texts)) == [
        "finding: 0 of 2 packages",
        "finding: 1 of 2 packages",
        "finding: 2 of 2 packages",
        "downloading: 1 of 2 packages, 0 MB",
        "downloading: 2 of 2 packages, 0 MB",
        "downloading: 2 of 2 packages, 411 MB",
        "installing: 1 of 2 packages",
    ]


@pytest.mark.process
@pytest.mark.parametrize("code", [0, 1])
def test_only_a_failure_shows_what_pip_said(
    bootstrap: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    code: int,
) -> None:
    """A program in the place of the environment's Python says what pip says."""
    program = tmp_path / "python"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nprint({SAID!r}, *sys.argv[1:])\n"
        f"print({WARNING!r}, file=sys.stderr)\nsys.exit({code})\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(bootstrap, "BIN", tmp_path)
    if code:
        with pytest.raises(SystemExit) as ended:
            bootstrap.pip("[3/5] two packages", 2, "--requirement", "constraints.txt")
        assert ended.value.code == code
    else:
        bootstrap.pip("[3/5] two packages", 2, "--requirement", "constraints.txt")
    out, err = capfd.readouterr()
    assert out.splitlines()[0] == "[3/5] two packages"
    if code:
        assert WARNING in err
        assert "-m pip install --disable-pip-version-check" in err
        assert "Progress" not in err
    else:
        assert "2 packages, 821 MB downloaded" in out
        assert "WARNING" not in out + err


def test_it_needs_the_standard_library_alone() -> None:
    text = (CHECKOUT / "bootstrap.py").read_text(encoding="utf-8")
    modules = {
        line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))
    }
    assert modules <= {*sys.stdlib_module_names, "__future__"}
