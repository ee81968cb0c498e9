"""Ray's dashboard during a sweep: it names the running trial, and has its metrics."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.sweeping import write_space

pytestmark = [pytest.mark.process, pytest.mark.slow]
METHODS = "  slow: {grid: {learning_rate: [0.01, 0.02]}}"
LABEL = "slow unsup tiny-bert learning_rate=0.01 seed 42"
PATIENCE_SECONDS = 300.0


class Sweep:
    """A running sweep with a dashboard."""

    def __init__(self, process: "subprocess.Popen[str]", store: Path) -> None:
        self.process, self.store = process, store
        line = next(line for line in process.stdout if line.startswith("Ray dashboard: "))
        self.url, token = re.findall(r"(http://\S+|/\S+/dashboard-token)", line)
        self.token_file = Path(token)
        self.token = self.token_file.read_text()

    def asked(self, path: str, token: str | None = None) -> str:
        """What the dashboard answers."""
        url = path if path.startswith("http") else self.url + path
        request = urllib.request.Request(url)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.read().decode())

    def found(self, path: str, look: Callable[[str], Any]) -> Any:
        """What `look` finds in an answer, which is asked for until it finds something."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not (found := look(self.asked(path, self.token))):
            assert time.monotonic() < until, "it is not there"
            assert self.process.poll() is None, "the sweep has ended"
            time.sleep(1.0)
        return found


@pytest.fixture(scope="module")
def sweep(
    tmp_path_factory: pytest.TempPathFactory,
    write_plugin: Callable[..., Path],
    environment: dict[str, str],
) -> Iterator[Sweep]:
    """A sweep whose trials last until the tests have seen them."""
    folder = tmp_path_factory.mktemp("dashboard")
    plugin = write_plugin(folder / "slow.py", "trained", 0.2)
    space = write_space(folder, METHODS, suite="graded", epochs=1)
    command = ["sweep", plugin, space, "--store", folder / "store", "--dashboard"]
    program = [sys.executable, "-m", "harness", *map(str, command)]
    with subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, text=True) as process:
        running = Sweep(process, folder / "store")
        yield running
        process.send_signal(signal.SIGTERM)  # a job in the background ignores Ctrl-C
        process.wait(timeout=PATIENCE_SECONDS)


def test_the_page_is_for_this_machine_and_this_user(sweep: Sweep) -> None:
    assert sweep.url.startswith("http://127.0.0.1:")
    assert sweep.token_file.stat().st_mode & 0o077 == 0
    assert sweep.token_file.parent.stat().st_mode & 0o077 == 0
    with pytest.raises(urllib.error.HTTPError) as refused:
        sweep.asked("/api/v0/tasks")
    assert refused.value.code == 401
    assert "<html" in sweep.asked("/")


def test_a_running_trial_is_listed_under_its_name(sweep: Sweep) -> None:
    def look(answer: str) -> list[dict[str, Any]]:
        tasks = json.loads(answer)["data"]["result"]["result"]
        return [task for task in tasks if task["name"] == LABEL and task["state"] == "RUNNING"]

    assert len(sweep.found("/api/v0/tasks?limit=1000", look)) == 1
    actors = json.loads(sweep.asked("/api/v0/actors", sweep.token))["data"]["result"]["result"]
    assert {actor["class_name"] for actor in actors} == {"TrialTasks", "TrialWorker"}


def test_the_metrics_have_the_loss_of_the_trial(sweep: Sweep) -> None:
    targets = sweep.found("/api/prometheus/sd", lambda answer: json.loads(answer)[0]["targets"])

    def look(_: str) -> re.Match[str] | None:
        pages = ""
        for target in targets:
            with suppress(OSError):  # it starts listening some seconds later
                pages += sweep.asked(f"http://{target}/metrics")
        return re.search(
            rf'^ray_harness_loss{{(.*trial="{re.escape(LABEL)}".*)}} (\S+)$', pages, re.M
        )

    labels, value = sweep.found("/api/version", look).groups()
    assert 'method="slow"' in labels
    assert 'encoder="tiny-bert"' in labels
    assert float(value) > 0
