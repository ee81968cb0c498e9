"""What fits on machines, and what waits so that an autoscaler starts more of them."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import UserError
from harness.sweeps.cluster import capacity
from harness.sweeps.cluster.capacity import MOST, Capacity, Demand, fitting


@pytest.mark.parametrize(
    ("bundle", "machines", "count"),
    [
        ({"CPU": 1, "GPU": 0}, [{"CPU": 4.0}, {}, {"CPU": 2.0, "GPU": 1.0}], 6),
        ({"CPU": 2, "GPU": 0}, [{"CPU": 3.0}, {"CPU": 3.0}, {"CPU": 3.0}], 3),
        ({"CPU": 1, "GPU": 1}, [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 1.0, "GPU": 4.0}], 3),
        ({"CPU": 0.5, "GPU": 0.3333}, [{"CPU": 8.0, "GPU": 2.0}], 6),
        ({"CPU": 1, "GPU": 0}, [], 0),
    ],
)
def test_a_worker_is_on_one_machine(
    bundle: dict[str, float], machines: list[dict[str, float]], count: int
) -> None:
    assert fitting(bundle, machines) == count


class Groups:
    """Ray's placement groups, of which a test grants some."""

    def __init__(self) -> None:
        self.states: dict[str, dict[str, str]] = {}
        self._number = 0

    def create(self, bundles: list[dict[str, float]]) -> Any:
        self._number += 1
        name = str(self._number)
        self.states[name] = {"state": "PENDING"}
        return SimpleNamespace(id=SimpleNamespace(hex=lambda: name), bundles=bundles)

    def remove(self, group: Any) -> None:
        del self.states[group.id.hex()]


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> Groups:
    made = Groups()
    monkeypatch.setattr(capacity, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(capacity, "placement_group", made.create)
    monkeypatch.setattr(capacity, "remove_placement_group", made.remove)
    monkeypatch.setattr(capacity.ray.util, "placement_group_table", lambda: dict(made.states))
    return made


def test_what_is_granted_is_given_back_at_once(groups: Groups) -> None:
    demand, one = Demand(), {"CPU": 1.0, "GPU": 0.0}
    demand.show(3, one)
    assert len(groups.states) == 3
    groups.states["1"]["state"] = "CREATED"
    demand.show(3, one)
    assert sorted(groups.states) == ["2", "3"], "its room is for a trial now"
    demand.show(1000, one)
    assert len(groups.states) == MOST
    demand.show(0, one)
    assert not groups.states


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """waiting(machines or none, ...): what `Capacity.wait` says; each look finds the next ones."""

    def wait(*looks: list[dict[str, float]], impossible: bool = False) -> list[str]:
        said: list[str] = []
        left = list(looks)

        def nodes() -> list[dict[str, Any]]:
            found = left.pop(0) if len(left) > 1 else left[0]
            return [{"Alive": True, "Resources": each} for each in found]

        monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
        monkeypatch.setattr(capacity.ray, "nodes", nodes)
        monkeypatch.setattr(capacity, "autoscales", lambda: len(looks) > 1 or impossible)
        infeasible = set(map(str, range(9))) if impossible else set()
        monkeypatch.setattr(capacity, "_infeasible", lambda: infeasible)
        Capacity().wait(2, {"CPU": 1.0, "GPU": 0.0}, "two workers have no machine", said.append)
        return said

    return wait


def test_machines_that_an_autoscaler_starts_are_waited_for(
    waiting: Callable[..., list[str]], groups: Groups
) -> None:
    [sentence] = waiting([{}], [{}, {"CPU": 1.0}], [{}, {"CPU": 1.0}, {"CPU": 1.0}])
    assert sentence.startswith("Waiting for machines that the autoscaler of the cluster starts:")
    assert not groups.states, "what waited for it is gone"
    assert waiting([{"CPU": 2.0}]) == []


@pytest.mark.parametrize(("impossible", "end"), [(False, "no machine"), (True, "machine for it")])
def test_what_cannot_come_is_refused(
    waiting: Callable[..., list[str]], groups: Groups, impossible: bool, end: str
) -> None:
    with pytest.raises(UserError, match=f"^two workers have .*{end}$"):
        waiting([{"CPU": 1.0}], impossible=impossible)
    assert not groups.states
