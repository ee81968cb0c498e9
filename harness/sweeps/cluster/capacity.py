"""Resources of Ray's machines at this moment, and those that an autoscaler may add.

An autoscaler starts machines for placement groups that wait. Ours wait here, apart from those of
trials, so that a cluster grows before a trial is chosen for it, and they are given back as soon as
they are granted. They go when the driver does, unlike what `request_resources` asks for.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.autoscaler._private.util import format_readonly_node_type
from ray.core.generated.autoscaler_pb2 import AutoscalingState, GetClusterStatusReply
from ray.experimental.internal_kv import _internal_kv_get
from ray.util import placement_group, remove_placement_group

from harness.errors import UserError, counted

LOOK_SECONDS = 1.0
"""Time between two looks at the machines of a cluster, which may join and leave"""
REPORT_SECONDS = 15.0
"""The autoscaler of a cluster that has just begun says after some seconds that it is there"""
GROWTH_SECONDS = 1800.0
"""Longest wait for machines that an autoscaler starts, or that come back"""
MOST = 32
"""Most placement groups that wait, for an autoscaler to start machines for them"""

Bundle = Mapping[str, float]
"""What a worker occupies: CPU and GPU"""


def written(bundle: Bundle) -> str:
    """CPUs and GPUs in words: `2 CPUs and 1 GPU`."""
    return f"{counted(bundle.get('CPU', 0), 'CPU')} and {counted(bundle.get('GPU', 0), 'GPU')}"


def fitting(bundle: Bundle, machines: Sequence[Mapping[str, float]]) -> int:
    """The number of such bundles that fit on machines at a time, each on one of them.

    Without a CPU and a GPU, any number would fit: it is the number of CPUs then.
    """
    wanted = {name: value for name, value in bundle.items() if value} or {"CPU": 1.0}
    return sum(
        # A share of a GPU has four decimals, as Ray counts them.
        min(int(machine.get(name, 0) / value + 1e-3) for name, value in wanted.items())
        for machine in machines
    )


class Capacity:
    """The resources of the machines that Ray has now; a look is at most a second old."""

    def __init__(self) -> None:
        self._looked, self._machines = 0.0, list[dict[str, float]]()

    @property
    def machines(self) -> list[dict[str, float]]:
        """The resources of each living machine."""
        if not self._looked or time.monotonic() - self._looked > LOOK_SECONDS:
            self._machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            self._looked = time.monotonic()
        return self._machines

    @property
    def largest(self) -> str:
        """The resources of the largest machine, in words."""
        machines = self.machines or [{}]
        most = max(machines, key=lambda each: (each.get("GPU", 0), each.get("CPU", 0)))
        return written(most)

    def wait(self, workers: int, bundle: Bundle, refused: str, say: Callable[[str], None]) -> None:
        """Wait until so many bundles fit, where an autoscaler may start machines for them.

        Raises UserError with the sentence `refused` where none does or none can, or after
        `GROWTH_SECONDS`. `say`: hears that it waits.
        """
        if fitting(bundle, self.machines) >= workers:
            return
        if not os.environ.get("RAY_ADDRESS") or not autoscales():
            raise UserError(refused)
        say(f"Waiting for machines that the autoscaler of the cluster starts: {refused}")
        group, until = _pending(bundle, workers), time.monotonic() + GROWTH_SECONDS
        try:
            while fitting(bundle, self.machines) < workers:
                if group.id.hex() in _infeasible():
                    raise UserError(f"{refused}; the autoscaler has no kind of machine for it")
                if time.monotonic() > until:
                    raise UserError(f"{refused}; no other came in {GROWTH_SECONDS / 60:g} minutes")
                time.sleep(LOOK_SECONDS)
        finally:
            remove_placement_group(group)


class Demand:
    """Placement groups that wait, so that an autoscaler starts machines."""

    def __init__(self) -> None:
        self._groups: list[Any] = []
        self._looked = 0.0

    def show(self, count: int, bundle: Bundle) -> None:
        """Let so many of them wait, and at most `MOST`; it looks every second."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        states = ray.util.placement_group_table() if self._groups else {}
        granted = [
            each
            for each in self._groups
            if states.get(each.id.hex(), {}).get("state") not in ("PENDING", "PREPARED")
        ]
        count = min(count, MOST)
        if granted:  # their room is for trials now
            count = min(count, len(self._groups) - len(granted))
        kept = [each for each in self._groups if each not in granted]
        for group in (*granted, *kept[count:]):
            remove_placement_group(group)
        self._groups = kept[:count]
        self._groups += [_pending(bundle) for _ in range(count - len(self._groups))]


def autoscales() -> bool:
    """Whether an autoscaler may start machines for what waits.

    A cluster that is made by hand has one, too, which only reports its machines.
    """
    until = time.monotonic() + REPORT_SECONDS
    while time.monotonic() < until:
        if _autoscaling().autoscaler_state_version:
            return True  # the second version, which says itself what it cannot start
        if said := _internal_kv_get(b"__autoscaling_status"):
            report = json.loads(said).get("autoscaler_report") or {}
            kinds: Mapping[str, str] = report.get("node_type_mapping") or {}
            return any(kind != format_readonly_node_type(node) for node, kind in kinds.items())
        time.sleep(LOOK_SECONDS)
    return False


def _autoscaling() -> AutoscalingState:
    client = GcsClient(ray.get_runtime_context().gcs_address)
    reply = GetClusterStatusReply.FromString(client.get_cluster_status(timeout_s=10))
    return reply.autoscaling_state


def _infeasible() -> set[str]:
    """Placement groups for which the autoscaler has no kind of machine."""
    waiting = _autoscaling().infeasible_gang_resource_requests
    return {each.details.partition(":")[0] for each in waiting}


def _pending(bundle: Bundle, workers: int = 1) -> Any:
    return placement_group([{name: value for name, value in bundle.items() if value}] * workers)
