"""Things that a sweep keeps to itself: secrets of the environment, its ports and its imports.

One sweep runs in a folder with modules that end whoever imports them, and with planted secrets.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import FileSelector

from harness.processes import python_command
from harness.trials.store import Store
from tests.planted import PLANTED, SECRETS, leaks
from tests.remote.buckets import straight
from tests.remote.conftest import bucket, proxy, server
from tests.sweeping import write_space

__all__ = ["bucket", "proxy", "server"]  # fixtures

pytestmark = [pytest.mark.process, pytest.mark.slow]
SHADOWS = ("types", "typing", "random", "torch", "datasets", "harness", "ray")
SPIED = """\
import json, shutil, sys, threading, time
from pathlib import Path
from typing import Any
from types import SimpleNamespace

import psutil

from harness.cli import main
from harness.sweeps.cluster import lifetime

lifetime.shutil = SimpleNamespace(rmtree=lambda *_, **__: None)  # the folder of Ray stays
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


# More than 20 s: a real start of everything that could give something away, with a dashboard.
def test_a_sweep_gives_nothing_away_and_imports_nothing_of_the_folder(
    working: Path, tmp_path: Path, write_plugin: Any, environment: Any, bucket: str, server: int
) -> None:
    # What the user names in his folder is imported all the same.
    write_plugin(working / "known.py", "known")
    nothing = {"sentences": None, "batch_size": None, "precision": None}
    write_space(working, "  known: {grid: {noise: [0.1]}}", **nothing)
    cache = tmp_path / "cache"
    aws = {"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"]}
    done = subprocess.run(
        [sys.executable, "-P", "-c", SPIED, str(tmp_path), "sweep", "./known.py", "space.yaml",
         "--store", f"s3://{bucket}/results/trials", "--dashboard", "--track", "tensorboard"],
        cwd=working, env=environment | SECRETS | aws | {
            "HARNESS_CACHE": str(cache), "HARNESS_SHARED_CACHE": f"s3://{bucket}/cache",
        },
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr  # nothing of Ray's, though it has a dashboard
    [copy] = cache.glob("stores/*/trials")
    [record] = Store(copy).read().records()
    assert record.status == "finished"
    assert list(copy.with_name("trials-tracking").rglob("events.*"))

    addresses, commands = json.loads((tmp_path / "seen.json").read_text())
    assert any("gcs_server" in command for command in commands)
    assert set(addresses) <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}, addresses

    [token] = done.stdout.split("which is in ")[1].split(")")[:1]
    session = Path(token).parent
    assert session.stat().st_mode & 0o077 == 0
    sent = straight(server)
    objects = sent.get_file_info(FileSelector(bucket, recursive=True))
    contents = [sent.open_input_file(each.path).read() for each in objects if each.is_file]
    assert any(each.path.endswith(f"{record.key}.parquet") for each in objects)
    texts = [done.stdout, *commands, repr(record), *(each.decode("latin-1") for each in contents)]
    assert not [text for text in texts if PLANTED in text]
    assert not [*leaks(tmp_path, {}), *leaks(session, {})]
    assert any("runtime_env" in path.read_text("latin-1") for path in session.rglob("*.log"))
    own_token = Path(token).read_text()
    elsewhere = [path for path in session.rglob("*") if path.is_file() and path != Path(token)]
    assert not [path for path in elsewhere if own_token in path.read_text("latin-1")]
    subprocess.run(["rm", "-r", str(session)], check=True)


OWN = {
    "rank": (python_command("harness.trials.follower"), "{}\n", "KeyError: 'trial'"),
    "watchdog": (
        python_command("harness.sweeps.workers.watchdog", str(os.getpid()), "0", options=("-S",)),
        "", "",
    ),
    "command": (python_command("harness", "--version"), "", "harness"),
    "python -m": ([sys.executable, "-m", "harness", "list", "suites"], "", "graded"),
}  # fmt: skip
"""Kind -> the command of a process, its input, and a part of what it prints"""


@pytest.mark.parametrize("kind", OWN)
def test_our_processes_import_nothing_of_the_working_folder(working: Path, kind: str) -> None:
    command, source, answer = OWN[kind]
    if kind == "python -m":
        for name in ("types", "typing", "harness"):  # Python imports them before harness begins
            (working / f"{name}.py").unlink()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=working, text=True, **pipes) as process:
        process.stdin.write(source)
        process.stdin.flush()
        if not source:
            process.stdin.close()  # a rank ends with its input, before it could answer
        printed = process.stdout.read()
        assert (process.wait(600) == 0) == (kind != "rank"), printed
    assert "shadowed" not in printed
    assert answer in printed
