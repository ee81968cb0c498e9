"""The recipes for schedulers: SLURM's script runs with stand-ins, KubeRay's file has its shape."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.kuberay.autoscaling_config import (
    _derive_autoscaling_config_from_ray_cr,
)

from tests.checkout import CHECKOUT

DOCS = CHECKOUT / "docs"

STAND_INS = {
    "scontrol": 'printf "one\\ntwo\\nthree\\n"',
    # The words behind its options are the program of a step; a signal to it goes to that.
    "srun": 'while [[ $1 == -* ]]; do echo "srun $1" >> "$LOG"; shift; done; exec "$@"',
    "ray": 'echo "ray $* | $GLOO_SOCKET_IFNAME $NCCL_SOCKET_IFNAME $RAY_AUTH_MODE" >> "$LOG"\n'
    '[[ $1 == start ]] || exit 0\ntrap "echo ray-ended >> $LOG; exit" TERM\n'
    "while true; do sleep 0.05; done",
    "harness": 'echo "harness $*" >> "$LOG"\ntrap "sleep 0.3; echo saved >> $LOG; exit 130" TERM\n'
    'while [[ ! -e "$HOME/ends" ]]; do sleep 0.05; done; exit 3',
}
"""Program -> what stands in for it"""


@contextmanager
def slurm_job(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The script as a batch job of three machines, and the log of what it has called."""
    programs, log = folder / "bin", folder / "log"
    programs.mkdir()
    for name, script in STAND_INS.items():
        (programs / name).write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "LOG": str(log),
        "SLURM_JOB_NODELIST": "node[1-3]", "SLURM_NNODES": "3", "SLURM_CPUS_PER_TASK": "8",
        "INTERFACE": "eth7",
    }  # fmt: skip
    command = ["bash", DOCS / "slurm.sh", "d2cse", "unsup", "--store", folder / "a store"]
    job = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        until = time.monotonic() + 60
        while (
            not (
                log.exists()
                and log.read_text().count("ray start") == 2
                and "harness" in log.read_text()
            )
            and time.monotonic() < until
        ):
            time.sleep(0.05)
        yield job, log
    finally:
        os.killpg(job.pid, signal.SIGKILL) if job.poll() is None else None
        job.wait()


@pytest.mark.process
def test_the_signal_of_slurm_reaches_the_sweep(tmp_path: Path) -> None:
    with slurm_job(tmp_path) as (job, log):
        os.kill(job.pid, signal.SIGTERM)  # as `--signal=B:TERM@300` does: the script alone
        assert job.wait(60) == 130
        lines = log.read_text(encoding="utf-8").splitlines()
    assert lines.index("saved") < lines.index("ray-ended"), "Ray is there until the end"
    assert lines.count("ray-ended") == 2
    starts = [line for line in lines if line.startswith("ray start")]
    assert all("--num-cpus=8" in line and line.endswith("| eth7 eth7 token") for line in starts)
    assert any("--head --port=6379" in line for line in starts)
    assert any("--address=one:6379" in line for line in starts)
    store = f"--store {tmp_path}/a store"
    assert f"harness sweep d2cse unsup {store} --address one:6379" in lines
    assert {"srun --nodelist=one", "srun --nodes=2", "srun --exclude=one"} <= set(lines)
    assert "#SBATCH --signal=B:TERM@300" in (DOCS / "slurm.sh").read_text(encoding="utf-8")


@pytest.mark.process
def test_a_sweep_that_ends_ends_the_job(tmp_path: Path) -> None:
    with slurm_job(tmp_path) as (job, log):
        (tmp_path / "ends").touch()
        assert job.wait(60) == 3
        assert log.read_text(encoding="utf-8").count("ray-ended") == 2


# KubeRay. The CRD's own schema is generated, has 2 MB and is not ours; the file was once held
# against it, with no unknown field allowed. What it uses is written down here.

POD = {
    "rayStartParams": {"num-cpus": str},
    "template": {"spec": {
        "restartPolicy": {"Always", "OnFailure", "Never"},
        "containers": [{
            "name": str, "image": str, "env": [{"name": str, "value": str}],
            "resources": {"limits": {"cpu": str, "memory": str, "nvidia.com/gpu": str}},
            "volumeMounts": [{"name": str, "mountPath": str}],
        }],
        "volumes": [{"name": str, "persistentVolumeClaim": {"claimName": str}}],
    }},
}  # fmt: skip
WORKERS = {"groupName": str, "replicas": int, "minReplicas": int, "maxReplicas": int, **POD}
CLUSTER = {
    "apiVersion": {"ray.io/v1"}, "kind": {"RayCluster"}, "metadata": {"name": str},
    "spec": {
        "rayVersion": str, "authOptions": {"mode": {"disabled", "token"}},
        "enableInTreeAutoscaling": bool,
        "autoscalerOptions": {"version": {"v1", "v2"}, "idleTimeoutSeconds": int},
        "headGroupSpec": POD, "workerGroupSpecs": [WORKERS],
    },
}  # fmt: skip
"""Field -> its type, its words, its own fields, or the fields of each item of a list"""


def check_shape(value: Any, shape: Any, name: str = "the file") -> None:
    if isinstance(shape, dict):
        assert value.keys() <= shape.keys(), name
        for key, part in value.items():
            check_shape(part, shape[key], f"{name}.{key}")
    elif isinstance(shape, list):
        for part in value:
            check_shape(part, shape[0], name)
    else:
        assert value in shape if isinstance(shape, set) else type(value) is shape, name


@pytest.fixture
def kuberay() -> Any:
    """The file for KubeRay."""
    page = (DOCS / "cluster.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^    apiVersion: .*\n(?:^(?:    .*)?\n)+", page, re.MULTILINE)
    return yaml.safe_load(block)


def test_rays_autoscaler_reads_the_file_for_kuberay(kuberay: Any) -> None:
    """Ray derives what it may start from the same object, and checks it by its schema."""
    # Kubernetes puts each object into a namespace.
    kuberay["metadata"]["namespace"] = "default"
    derived = _derive_autoscaling_config_from_ray_cr(kuberay)
    machines = {
        name: (each["max_workers"], each["resources"])
        for name, each in derived["available_node_types"].items()
    }
    memory = 32 * 2**30
    assert machines == {
        "headgroup": (0, {"CPU": 0, "memory": memory}),
        "gpu": (4, {"CPU": 8, "GPU": 1, "memory": memory}),
    }
    assert derived["available_node_types"]["gpu"]["min_workers"] == 0
    assert derived["idle_timeout_minutes"] == 5


def test_the_file_for_kuberay_has_the_shape_of_a_ray_cluster(kuberay: Any) -> None:
    check_shape(kuberay, CLUSTER)
    [group] = kuberay["spec"]["workerGroupSpecs"]
    assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    for part in (kuberay["spec"]["headGroupSpec"], group):
        pod = part["template"]["spec"]
        mounts = {mount["name"] for each in pod["containers"] for mount in each["volumeMounts"]}
        assert mounts == {volume["name"] for volume in pod["volumes"]}
        assert pod["containers"][0]["name"] == "ray"  # Ray's container is the first one
