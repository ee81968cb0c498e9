"""Whether all machines of a cluster have the same sources as this one."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from harness import PROTOCOL, __version__
from harness.errors import UserError, shortened
from harness.files import PACKAGE
from harness.plugin import registry

ANSWER_SECONDS = 180.0
"""A machine starts a worker for its answer"""


def source_digests(plugins: Iterable[str]) -> dict[str, str]:
    """What is compared -> its digest on this machine: harness, and plugins by their paths.

    The digest of a plugin that is not here is "".
    """
    own = f"{__version__}, protocol {PROTOCOL}, {registry.source_digest(PACKAGE)}"
    return {"harness": own} | {
        plugin: registry.source_digest(Path(plugin)) if Path(plugin).exists() else ""
        for plugin in plugins
    }


def check_sources(plugins: Iterable[str]) -> None:
    """Ask every machine of the cluster for the digests of its sources.

    `plugins`: paths of plugins. Raises UserError, with the name of the machine, when its sources
    differ from those of this machine, and when it cannot answer.
    """
    plugins = sorted(plugins)
    here, answers = source_digests(plugins), {}
    for node in ray.nodes():
        if node["Alive"]:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ask = ray.remote(source_digests).options(num_cpus=0, scheduling_strategy=there)
            answers[f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"] = ask.remote(
                plugins
            )
    for node, answer in answers.items():
        try:
            check_same(node, here, ray.get(answer, timeout=ANSWER_SECONDS))
        except ray.exceptions.RayError as error:
            why = shortened(str(error).strip().splitlines()[-1], 300)
            raise UserError(f"the machine {node} of the cluster cannot run trials: {why}") from None


def check_same(node: str, here: Mapping[str, str], there: Mapping[str, str]) -> None:
    """Raises UserError when the machine `node` has other digests (`there`) than this one."""
    for name, digest in here.items():
        if there[name] == digest:
            continue
        what = "has another source of" if there[name] else "does not have"
        raise UserError(
            f"the machine {node} of the cluster {what} {name}: put the same files there as here, "
            f"or take it out of the cluster"
        )
