"""The Grafana dashboard shows the metrics that the code has, and no others."""

import json
import re
from pathlib import Path
from typing import Any

from harness.sweeps.cluster.dashboard import BUILT, ENDED, FIGURES, LABELS, RUNNING, SHARED

BOARD = json.loads((Path(__file__).parents[2] / "docs" / "grafana.json").read_text())


def expressions() -> list[str]:
    return [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]


def test_every_metric_is_shown_and_every_shown_metric_exists() -> None:
    shown = {name for text in expressions() for name in re.findall(r"ray_harness_\w+", text)}
    gauges, counters = [RUNNING, *FIGURES.values()], [*ENDED.values(), BUILT, SHARED]
    names = [f"ray_{name}" for name, _ in gauges] + [f"ray_{name}_total" for name, _ in counters]
    assert shown == set(names)


def test_the_labels_of_the_board_are_those_of_the_metrics() -> None:
    selected = {name for text in expressions() for name in re.findall(r"(\w+)=~", text)}
    legends = {
        name
        for panel in BOARD["panels"]
        for target in panel["targets"]
        for name in re.findall(r"{{(\w+)}}", target["legendFormat"])
    }
    variables: list[Any] = BOARD["templating"]["list"]
    asked = {each["name"] for each in variables if each["type"] == "query"}
    assert selected == asked
    assert selected | legends == set(LABELS)
