"""A cluster that begins with its head alone, and grows for a sweep: Ray's autoscaler is real.

Its machines are simulated, as Ray's own tests do it: each is a further node of this machine.
"""

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.trials.store import Store
from tests.clusters import cluster, free_address
from tests.programs import Answer, run_module
from tests.sweeping import write_space

pytestmark = [pytest.mark.slow, pytest.mark.process]

METHODS = """\
  slowly:
    ranges: {learning_rate: {low: 1.0e-3, high: 1.0e-1, log: true}}
    sampler: {name: tpe, configurations: 5}
"""
TRIALS = 6
HEAD = "f" * 51 + "00000"
"""The node that Ray's simulated machines take for the head"""


def autoscaling(folder: Path, address: str) -> Path:
    """The configuration of an autoscaler that may add two machines of one CPU."""
    machine = {"node_config": {}, "min_workers": 0}
    module = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
    path = folder / "cluster.json"
    content = {
        "cluster_name": "simulated",
        "max_workers": 2,
        "provider": {
            "type": "external", "module": module, "head_node_id": HEAD,
            "gcs_address": address, "launch_multiple": True,
        },
        "available_node_types": {
            "ray.head.default": {**machine, "resources": {"CPU": 0}, "max_workers": 0},
            "one": {**machine, "resources": {"CPU": 1}, "max_workers": 2},
        },
        "head_node_type": "ray.head.default",
        "idle_timeout_minutes": 10,
        # The configuration that Ray would add to this one is not in its wheel.
        **{part: {} for part in ("auth", "file_mounts", "docker")},
        **{f"{part}setup_commands": [] for part in ("", "head_", "worker_")},
        **{f"{part}_start_ray_commands": [] for part in ("head", "worker")},
        "initialization_commands": [],
        "cluster_synced_files": [],
        "file_mounts_sync_continuously": False,
        "rsync_exclude": [],
        "rsync_filter": [],
    }  # fmt: skip
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


# More than 20 s: three Rays start on one machine, two of them when they are asked for.
def test_a_cluster_grows_from_its_head_for_a_sampler(
    tmp_path: Path, environment: dict[str, str], write_plugin: Callable[..., Path]
) -> None:
    space, store = write_space(tmp_path, METHODS, max_steps=5), tmp_path / "store"
    plugin = write_plugin(tmp_path / "slowly.py", "trained", pause=0.4)
    nodes = environment | {
        "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex * 2,
        "HARNESS_TEST_MARK": uuid.uuid4().hex, "RAY_worker_niceness": "0",
        "RAY_FAKE_CLUSTER": "1", "RAY_enable_autoscaler_v2": "1", "RAY_CLOUD_INSTANCE_ID": HEAD,
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
    }  # fmt: skip
    head = {"RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD}
    address = free_address()
    config = autoscaling(tmp_path, address)

    def sweep(module: str, cpus: str) -> Answer:
        return run_module(
            module, "sweep", "--no-local", plugin, space, "--store", store, "--no-dashboard",
            "--cpus-per-trial", cpus,
            environment=nodes | {"RAY_ADDRESS": address},
        )  # fmt: skip

    options = ("--num-cpus=0", f"--autoscaling-config={config}")
    with cluster(nodes | head, *options, address=address):
        refused, grown = sweep("harness", "5"), sweep("tests.faults.counted", "1")
    assert refused.code == 2, refused.out + refused.err
    assert "no machine has 5 CPUs and 0 GPUs for one trial" in refused.err
    assert refused.err.endswith("the autoscaler has no kind of machine for it\n")
    assert grown.code == 0, grown.out + grown.err
    assert "Waiting for machines that the autoscaler of the cluster starts: no" in grown.out
    assert "machines that came: 2; trials in memory: " in grown.out
    kept = int(grown.out.partition("trials in memory: ")[2].split()[0])
    assert kept <= 3, "those that may still run, and none of the others"
    assert [record.status for record in Store(store).read().records()] == ["finished"] * TRIALS
