"""`bootstrap.py` says how far an installation is, and passes none of pip's advice on."""

import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from harness.trials.store import Store
from tests.checkout import CHECKOUT, module_of

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
def bootstrap() -> Any:
    """The program as a module."""
    return module_of("bootstrap.py")


def test_how_far_pip_is(bootstrap: Any) -> None:
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
    bootstrap: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, code: int
) -> None:
    """A program in the place of the environment's Python says what pip says."""
    program = tmp_path / "python"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nprint({SAID!r}, *sys.argv[1:])\n"
        f"print({WARNING!r}, file=sys.stderr)\nsys.exit({code})\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(bootstrap, "BIN", tmp_path)
    with pytest.raises(SystemExit) if code else nullcontext() as ended:
        bootstrap.pip("[3/5] two packages", 2, "--requirement", "constraints.txt")
    out, err = capfd.readouterr()
    assert out.splitlines()[0] == "[3/5] two packages"
    if code:
        assert ended is not None
        assert ended.value.code == code
        assert WARNING in err
        assert "-m pip install --disable-pip-version-check" in err
        assert "Progress" not in err
    else:
        assert "2 packages, 821 MB downloaded" in out
        assert "WARNING" not in out + err


def test_it_needs_the_standard_library_alone() -> None:
    lines = (CHECKOUT / "bootstrap.py").read_text(encoding="utf-8").splitlines()
    modules = {line.split()[1] for line in lines if line.startswith(("import ", "from "))}
    assert modules <= {*sys.stdlib_module_names, "__future__"}


@pytest.mark.process
def test_git_ignores_what_sweeps_leave(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    shutil.copy(CHECKOUT / ".gitignore", tmp_path)
    store = Store(Path("results/trials"))
    folders = (store.weights_folder, store.studies_folder, store.logs_folder,
               store.tracking_folder, store.tables_folder)  # fmt: skip
    paths = [store.flat_file, *(folder / "file" for folder in folders)]
    left = [
        f"{store.place}/0.parquet", *(str(path.relative_to(Path.cwd())) for path in paths),
        "results/other-logs/file", "figures/simcse.png", "report/index.html",
        "report-of-quickstart/index.html",
    ]  # fmt: skip
    ours = ["results/reported/new", "harness/report/new", "README.new"]
    for name in (*left, *ours):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / ".venv").symlink_to(CHECKOUT)  # some people share an environment
    status = ["git", "-C", str(tmp_path), "status", "--porcelain", "--untracked-files=all"]
    found = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    assert set(found.split()) == {"??", ".gitignore", *ours}
