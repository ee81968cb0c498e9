"""The machines of Ray: their resources, those that an autoscaler adds, and whether they are alike.

An autoscaler starts machines for placement groups that wait. Ours wait here, apart from those of
trials, so that a cluster grows before a trial is chosen for it, and they are given back as soon as
they are granted. They go when the driver does, unlike what `request_resources` asks for.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import ray
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.autoscaler._private.util import format_readonly_node_type
from ray.core.generated.autoscaler_pb2 import AutoscalingState, GetClusterStatusReply
from ray.experimental.internal_kv import _internal_kv_get
from ray.util import placement_group, remove_placement_group

from harness import PROTOCOL, __version__
from harness.data.corpora import source
from harness.data.hub import model_digest
from harness.errors import UserError, counted, reason, shortened
from harness.files import PACKAGE, digest_files
from harness.plugin import registry
from harness.sweeps.workers.files import on_every_machine, receive
from harness.sweeps.workers.worker import trial_settings  # with all that a trial needs
from harness.trials.trial import Trial, arrived, suites_of

LOOK_SECONDS = 1.0
"""Time between two looks at the machines of a cluster, which may join and leave"""
REPORT_SECONDS = 15.0
"""The autoscaler of a cluster that has just begun says after some seconds that it is there"""
GROWTH_SECONDS = 1800.0
"""Longest wait for machines that an autoscaler starts, or that come back"""
MOST = 32
"""Most placement groups that wait, for an autoscaler to start machines for them"""
ANSWER_SECONDS = 900.0
"""A machine starts a worker for its answer, and may download models and data before it"""
DECIDING = ("torch", "transformers", "tokenizers", "numpy", "scipy")
"""Packages on whose versions the last digits of a result depend"""

Bundle = Mapping[str, float]
"""Resources that a worker occupies: CPU and GPU"""
Digests = dict[str, str]
"""Parts that decide results, such as `the model "bert-base-uncased"` -> its digest or version"""


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
                waiting = _autoscaling().infeasible_gang_resource_requests
                # The autoscaler has no kind of machine for these placement groups.
                if any(each.details.partition(":")[0] == group.id.hex() for each in waiting):
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


def _pending(bundle: Bundle, workers: int = 1) -> Any:
    return placement_group([{name: value for name, value in bundle.items() if value}] * workers)


def digests_of_code() -> Digests:
    """The digest of harness on this machine, and the versions of the packages under it.

    Raises PackageNotFoundError without one of them.
    """
    own = f"{__version__}, protocol {PROTOCOL}, {registry.source_digest(PACKAGE)}"
    # A machine with GPUs has another build of torch (2.13.0+cu130) than one without.
    packages = {f"the package {name}": version(name).partition("+")[0] for name in DECIDING}
    return {"the source of harness": own} | packages


def digests_of(trial: Trial) -> Digests:
    """The digests of what decides the result of a trial on this machine.

    Raises UserError when a model or a file is missing.
    """
    declared = trial.declared
    corpora = {name: source(name).paths() for name in declared.corpora.values()}
    return {
        f'the source of "{declared.name}"': declared.source_digest,
        f'the files of "{declared.name}"': digest_files(declared.files),
        **{f'the suite "{each.name}"': each.digest() for each in suites_of(trial.config)},
        **{f'the model "{name}"': model_digest(name) for name in declared.models},
        **{f'the corpus "{name}"': digest_files(paths) for name, paths in corpora.items()},
    }


def check_machines(samples: Sequence[Trial], node: str) -> None:
    """Let every machine of the cluster receive the files of trials, and compare its digests.

    `samples`: a trial of each search. `node`: Ray's name of this machine. Raises UserError, with
    the name of the machine, when its digests differ from those of this machine, and when it cannot
    answer.
    """
    here = digests_of_code()
    for sample in samples:
        here |= digests_of(sample)
    sent = [trial_settings(sample, node) for sample in samples]
    for name, digests in on_every_machine(digests_or_reason, sent):
        try:
            check_same(name, here, ray.get(digests, timeout=ANSWER_SECONDS))
        except ray.exceptions.RayError as error:
            why = shortened(str(error).strip().splitlines()[-1], 300)
            raise UserError(f"the machine {name} of the cluster cannot run trials: {why}") from None


def digests_or_reason(samples: Sequence[Mapping[str, Any]]) -> Digests | str:
    """The digests on this machine, or why there are none."""
    try:
        digests = digests_of_code()
        for sample in samples:
            receive(**sample["files"])
            digests |= digests_of(arrived(sample["trial"]))
    except PackageNotFoundError as error:
        return f"it does not have the package {error.name}"
    except UserError as error:
        return reason(error)
    return digests


def check_same(name: str, here: Digests, there: Digests | str) -> None:
    """Raises UserError when the machine `name` has no digests, or others than this one."""
    if isinstance(there, str):
        raise UserError(f"the machine {name} of the cluster cannot run trials: {there}")
    for part, digest in here.items():
        if there[part] != digest:
            raise UserError(
                f"the machine {name} of the cluster has another version of {part}: put the same "
                f"there as here, or take it out of the cluster"
            )
