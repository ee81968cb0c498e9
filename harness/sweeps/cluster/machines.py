"""What the machines of a sweep have: their memory and their GPUs."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import UserError
from harness.sweeps.resources import Gpu, Resources
from harness.sweeps.workers.process_memory import machine_memory
from harness.trials.trial import Trial

REPLY_SECONDS = 180.0
"""A machine starts a worker for its answer"""
_ASK = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")


@dataclass(frozen=True)
class Machine:
    """What one machine has, as far as it is known."""

    memory_bytes: int
    """Host memory; 0: not known"""
    gpus: tuple[Gpu, ...] = ()


def this_machine() -> Machine:
    """What the machine of this process has. GPUs are known where the program nvidia-smi is."""
    # torch would tell it too, but a Ray task without a GPU is shown none.
    try:
        done = subprocess.run(_ASK, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return Machine(machine_memory()[0])
    return Machine(machine_memory()[0], listed_gpus(done.stdout))


def listed_gpus(printed: str) -> tuple[Gpu, ...]:
    """The GPUs in the lines `name, MiB` of nvidia-smi; a line without a number is left out."""
    pairs = [line.rpartition(", ") for line in printed.splitlines()]
    return tuple(Gpu(name, int(mib)) for name, _, mib in pairs if mib.isdecimal())


def all_machines() -> list[Machine]:
    """What each machine of Ray has; one that does not answer is left out."""
    if not os.environ.get("RAY_ADDRESS"):
        return [this_machine()]
    import ray  # a plan asks about this machine alone

    from harness.sweeps.travelling.on_machines import on_every_machine

    asked = [answer for _, answer in on_every_machine(this_machine)]
    answered, _ = ray.wait(asked, num_returns=len(asked), timeout=REPLY_SECONDS)
    found = []
    for answer in answered:
        try:
            found.append(ray.get(answer))
        except ray.exceptions.RayError:
            continue  # a machine that was lost meanwhile runs no trial
    return found


def affordable(wanted: Resources) -> Resources:
    """The resources with the number of GPUs filled in; without GPUs, it is 0.

    `auto` stays where there are GPUs. Raises UserError when no machine has as many CPUs and GPUs.
    """
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    there_are_gpus = any(node.get("GPU", 0) for node in nodes)
    gpus = wanted.gpus
    if gpus is None:
        gpus = 1 if there_are_gpus else 0
    elif gpus == "auto" and not there_are_gpus:
        gpus = 0
    least = 1 if gpus == "auto" else gpus
    if any(node.get("CPU", 0) >= wanted.cpus and node.get("GPU", 0) >= least for node in nodes):
        return Resources(wanted.cpus, gpus)
    most = max(nodes, key=lambda node: (node.get("GPU", 0), node.get("CPU", 0)))
    raise UserError(
        f"no machine has {wanted.cpus:g} CPUs and {least:g} GPUs for one trial: the largest has "
        f"{most.get('CPU', 0):g} and {most.get('GPU', 0):g}; lower --cpus-per-trial or "
        f"--gpus-per-trial"
    )


def check_workers(trial: Trial, each: Resources, total: Mapping[str, float]) -> None:
    """Raises UserError for a trial whose workers can never run all at the same time.

    `each`: what one of them occupies; a trial of several has whole GPUs. `total`: of all machines.
    """
    count = trial.workers
    gpus = count if each.gpus else 0
    if count > 1 and (total.get("CPU", 0) < count * each.cpus or total.get("GPU", 0) < gpus):
        raise UserError(
            f"{trial.label} cannot run: its {count} workers need {count * each.cpus:g} CPUs and "
            f"{gpus} GPUs, and all machines have {total.get('CPU', 0):g} and "
            f"{total.get('GPU', 0):g}; lower workers or --cpus-per-trial"
        )
