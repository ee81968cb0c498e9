"""Distance of each engine from one process after eight steps of each method, in numbers.

The table of docs/cluster.md: `python -m pytest -s tests/ranks/all_methods.py -k print`. It takes
three minutes, so that CI compares what single steps compute (test_equal.py) and trains one method.
"""

from pathlib import Path
from typing import Any

import torch

from tests.ranks.rank import by_ranks
from tests.ranks.test_equal import ALIKE, ENGINES, REFUSED
from tests.ranks.test_equal import cases as cases  # the fixture
from tests.ranks.trained import trained_for_long

COMPARED = ("ddp-2", "zero-2", "zero-3", "fsdp")
RATES = {"learning_rate": 1e-4, "gradient_clipping": 1e9}


def test_print_differences(cases: dict[str, Any], tmp_path: Path) -> None:
    """Shares of weights (rms, largest) and norms; biases of keys have rounding as gradients."""
    chosen = {
        case: (name, values | RATES) for case, (name, values) in cases.items() if case not in ALIKE
    }
    runs = {
        engine: {
            case: (name, values | ENGINES[engine])
            for case, (name, values) in chosen.items()
            if case not in REFUSED.get(engine, ())
        }
        for engine in COMPARED
    }
    together = by_ranks("tests.ranks.trained:trained_for_long", runs, 2, tmp_path / "ranks")
    for case, (name, values) in chosen.items():
        alone = trained_for_long(name, values)
        norms = alone.pop("norms")
        for engine in COMPARED:
            if case not in together[engine]:
                print(f"{case} {engine}: refused")
                continue
            weights = together[engine][case]
            share = ((weights["norms"] - norms) / norms).abs().max().item()
            parts = [
                (weights[part] - value).flatten()
                for part, value in alone.items()
                if not part.endswith("key.bias")
            ]
            far = torch.cat(parts).double().abs()
            mean = far.square().mean().sqrt().item()
            print(f"{case} {engine}: weights {mean:.1e}, {far.max():.1e}; norms {share:.1e}")
