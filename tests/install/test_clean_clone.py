"""What harness leaves in a clone is not seen by git, and what belongs to the project is."""

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.trials.store import Store

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.process
def test_git_ignores_what_sweeps_leave(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    shutil.copy(CHECKOUT / ".gitignore", tmp_path)
    store = Store(Path("results/trials"))
    left = [
        f"{store.place}/0.parquet",
        *(
            str(path.relative_to(Path.cwd()) / "file")
            for path in (
                store.weights_folder,
                store.studies_folder,
                store.logs_folder,
                store.tracking_folder,
                store.tables_folder,
            )
        ),
        str(store.flat_file.relative_to(Path.cwd())),
        "results/other-logs/file",
        "figures/simcse.png",
        "report/index.html",
        "report-of-quickstart/index.html",
    ]
    ours = ["results/reported/new", "harness/report/new", "README.new"]
    for name in (*left, *ours):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / ".venv").symlink_to(CHECKOUT)  # some people share an environment
    status = ["git", "-C", str(tmp_path), "status", "--porcelain", "--untracked-files=all"]
    found = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    assert set(found.split()) == {"??", ".gitignore", *ours}
