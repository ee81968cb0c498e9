"""The number of workers that fit on machines; tests/faults/test_growing_cluster.py has the rest."""

import pytest

from harness.sweeps.cluster.capacity import fitting


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
