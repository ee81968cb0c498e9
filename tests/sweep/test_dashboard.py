"""Ray's dashboard during a sweep names the running trial and has its metrics, as Grafana's has."""

import json
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.sweeps.cluster.dashboard import BUILT, ENDED, FIGURES, LABELS, RUNNING, SHARED
from tests.checkout import CHECKOUT
from tests.programs import forking_python
from tests.sweeping import write_space

METHODS = "  slow: {grid: {learning_rate: [0.01, 0.02]}}"
LABEL = "slow unsup tiny-bert learning_rate=0.01 seed 42"
PATIENCE_SECONDS = 300.0


def fetched(url: str, token: str = "") -> str:
    """The answer of the dashboard."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        return str(answer.read().decode())


def check(process: "subprocess.Popen[str]") -> None:
    """Check the dashboard of a sweep that runs."""
    line = next(line for line in process.stdout if line.startswith("Ray dashboard: "))
    page, token_file = re.findall(r"(http://\S+|/\S+/dashboard-token)", line)
    token = Path(token_file).read_text()

    def waited(url: str, look: Callable[[str], Any]) -> Any:
        """The finding of `look` in an answer, which is asked for until there is one."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not (seen := look(fetched(url, token))):
            assert time.monotonic() < until, "it is not there"
            assert process.poll() is None, "the sweep has ended"
            time.sleep(1.0)
        return seen

    # The page is for this machine and this user.
    assert page.startswith("http://127.0.0.1:")
    assert Path(token_file).stat().st_mode & 0o077 == 0
    assert Path(token_file).parent.stat().st_mode & 0o077 == 0
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetched(f"{page}/api/v0/tasks")
    assert refused.value.code == 401
    assert "<html" in fetched(page)

    def named(answer: str) -> list[Any]:
        tasks = json.loads(answer)["data"]["result"]["result"]
        return [task for task in tasks if (task["name"], task["state"]) == (LABEL, "RUNNING")]

    assert len(waited(f"{page}/api/v0/tasks?limit=1000", named)) == 1
    actors = json.loads(fetched(f"{page}/api/v0/actors", token))["data"]["result"]["result"]
    assert {actor["class_name"] for actor in actors} == {"TrialTasks", "TrialWorker"}
    targets = waited(f"{page}/api/prometheus/sd", lambda answer: json.loads(answer)[0]["targets"])

    def loss(_: str) -> re.Match[str] | None:
        metrics = ""
        for target in targets:
            with suppress(OSError):  # it starts listening some seconds later
                metrics += fetched(f"http://{target}/metrics", token)
        line = rf'^ray_harness_loss{{(.*trial="{re.escape(LABEL)}".*)}} (\S+)$'
        return re.search(line, metrics, re.MULTILINE)

    labels, value = waited(f"{page}/api/version", loss).groups()
    assert 'method="slow"' in labels
    assert 'encoder="tiny-bert"' in labels
    assert float(value) > 0


# More than 20 s: Ray with its dashboard starts, whose metrics come some seconds later.
@pytest.mark.process
@pytest.mark.slow
def test_the_page_names_the_running_trial_and_has_its_loss(
    tmp_path: Path, write_plugin: Callable[..., Path], environment: dict[str, str]
) -> None:
    """The trials of the sweep last until the test has seen them."""
    plugin = write_plugin(tmp_path / "slow.py", "trained", 0.2)
    space = write_space(tmp_path, METHODS, suite="graded", epochs=1)
    command = ["sweep", plugin, space, "--store", tmp_path / "store", "--dashboard"]
    program = [forking_python(), "-m", "harness", *map(str, command)]
    with subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            check(process)
        finally:
            process.send_signal(signal.SIGTERM)  # a job in the background ignores Ctrl-C
            process.wait(timeout=PATIENCE_SECONDS)


def test_grafana_shows_every_metric_with_its_labels_and_no_other() -> None:
    board = json.loads((CHECKOUT / "docs" / "grafana.json").read_text())
    targets = [target for panel in board["panels"] for target in panel["targets"]]
    expressions = " ".join(target["expr"] for target in targets)
    gauges, counters = [RUNNING, *FIGURES.values()], [*ENDED.values(), BUILT, SHARED]
    names = [f"ray_{name}" for name, _ in gauges] + [f"ray_{name}_total" for name, _ in counters]
    assert {*re.findall(r"ray_harness_\w+", expressions)} == {*names}
    selected = {*re.findall(r"(\w+)=~", expressions)}
    variables: list[Any] = board["templating"]["list"]
    assert selected == {one["name"] for one in variables if one["type"] == "query"}
    legends = re.findall(r"{{(\w+)}}", " ".join(target["legendFormat"] for target in targets))
    assert selected | {*legends} == {*LABELS}
