"""Runs functions on chosen machines of Ray, beside the trials that occupy them."""

from collections.abc import Callable
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


def on_machine(node: str, function: Callable[..., Any], **options: Any) -> Any:
    """The function as a task of the machine that Ray calls `node`; it occupies no CPU and no GPU.

    `options`: further options of Ray for the task.
    """
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(function).options(num_cpus=0, scheduling_strategy=there, **options)


def on_every_machine(function: Callable[..., Any], *arguments: Any) -> list[tuple[str, Any]]:
    """Call the function on every living machine: its name, and the reference to its answer.

    Two nodes of Ray on one machine have the same name.
    """
    return [
        (
            f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})",
            on_machine(node["NodeID"], function).remote(*arguments),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]
