"""What a sweep keeps to itself: secrets of the environment, its ports, and what it imports.

One sweep runs in a folder with modules that end whoever imports them, and with planted secrets.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.processes import python_command
from harness.trials.store import Store
from tests.sweeping import write_few_pairs

pytestmark = [pytest.mark.process, pytest.mark.slow]
SHADOWS = ("types", "typing", "random", "torch", "datasets", "harness", "ray")
PLANTED = "planted5ecret"
KEYS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN",
    "HF_TOKEN", "MLFLOW_TRACKING_PASSWORD", "AZURE_STORAGE_KEY", "GOOGLE_API_KEY",
)  # fmt: skip
SECRETS = {
    **dict.fromkeys(KEYS, PLANTED),
    "WANDB_API_KEY": f"{PLANTED:x<40}",
    "HTTPS_PROXY": f"http://user:{PLANTED}@127.0.0.1:1",
}
SPACE = """\
setting: unsup
suite: SUITE
select: {metric: few-dev}
final: {seeds: [0]}
encoders: [tiny-bert]
methods:
  known: {grid: {noise: [0.1]}}
"""
SPIED = """\
import json, shutil, sys, threading, time
from pathlib import Path
from types import SimpleNamespace

import psutil

from harness.cli import main
from harness.sweep.cluster import session_folder

session_folder.shutil = SimpleNamespace(rmtree=lambda *_, **__: None)  # the folder of Ray stays
folder = Path(sys.argv[1])
del sys.argv[1]
sockets, commands = set(), set()


def look():
    while True:
        for each in [psutil.Process(), *psutil.Process().children(recursive=True)]:
            try:
                commands.add(" ".join(each.cmdline()))
                for found in each.net_connections("inet"):
                    if found.status == psutil.CONN_LISTEN:
                        sockets.add(found.laddr.ip)
            except psutil.Error:
                pass  # it has ended
        time.sleep(0.2)


threading.Thread(target=look, daemon=True).start()
try:
    main()
finally:
    (folder / "seen.json").write_text(json.dumps([sorted(sockets), sorted(commands)]))
"""
"""The command, with a look at the sockets and the command lines of all of its processes"""


@pytest.fixture
def working(tmp_path: Path) -> Path:
    """A working folder with modules that end whoever imports them."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in SHADOWS:
        (folder / f"{name}.py").write_text(f"raise SystemExit('shadowed {name}')", "utf-8")
    return folder


def test_a_sweep_gives_nothing_away_and_imports_nothing_of_the_folder(
    working: Path,
    tmp_path: Path,
    write_plugin: Callable[..., Path],
    environment: dict[str, str],
) -> None:
    # What the user names in his folder is imported all the same.
    write_plugin(working / "known.py", "known")
    suite = write_few_pairs(working)
    (working / "space.yaml").write_text(SPACE.replace("SUITE", str(suite)), "utf-8")
    place = tmp_path / "t"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-P", "-c", SPIED, str(tmp_path), "sweep", "./known.py", "space.yaml",
         "--store", str(tmp_path / "store"), "--dashboard", "--track", "tensorboard"],
        cwd=working, env=environment | SECRETS | {"HARNESS_CACHE": str(tmp_path / "cache")},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr  # nothing of Ray's, though it has a dashboard
    [record] = Store(tmp_path / "store").read().records()
    assert record.status == "finished"

    addresses, commands = json.loads((tmp_path / "seen.json").read_text())
    assert any("gcs_server" in command for command in commands)
    assert set(addresses) <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}, addresses

    [token] = done.stdout.split("which is in ")[1].split(")")[:1]
    session = Path(token).parent
    assert session.stat().st_mode & 0o077 == 0
    texts = [done.stdout, *commands, repr(record)]
    for folder in (tmp_path, session):
        texts += [path.read_text("latin-1") for path in folder.rglob("*") if path.is_file()]
    assert any("runtime_env" in text for text in texts)
    assert not [text for text in texts if PLANTED in text]
    own_token = Path(token).read_text()
    elsewhere = [path for path in session.rglob("*") if path.is_file() and path != Path(token)]
    assert not [path for path in elsewhere if own_token in path.read_text("latin-1")]
    subprocess.run(["rm", "-r", str(session)], check=True)


@pytest.mark.parametrize(
    ("command", "given", "answer"),
    [
        (python_command("harness.trials.follower"), "{}\n", "KeyError: 'trial'"),
        (
            python_command(
                "harness.sweep.workers.watchdog", str(os.getpid()), "0", options=("-S",)
            ),
            "",
            "",
        ),
        (python_command("harness", "--version"), "", ""),
    ],
    ids=["rank", "watchdog", "command"],
)
def test_our_processes_import_nothing_of_the_working_folder(
    working: Path, command: list[str], given: str, answer: str
) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=working, text=True, **pipes) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(given)
        process.stdin.flush()
        if not given:
            process.stdin.close()  # a rank ends with its input, before it could answer
        printed = process.stdout.read()
        assert (process.wait(600) == 0) == (not answer), printed
    assert "shadowed" not in printed
    assert answer in printed


def test_python_m_harness_imports_no_file_of_the_working_folder(working: Path) -> None:
    for name in ("types", "typing", "harness"):  # Python itself imports them before harness begins
        (working / f"{name}.py").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "harness", "list", "suites"],
        cwd=working, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
