"""States of a stage on disk, so that trials which differ only in what comes later run it once between them.

A trial that trains a stage to update N leaves its states at every 250th update and at N. Another that agrees in all
that matters starts from the last state at or before its own N. Exact, because the rate at an update does not depend on
N (the stage names its `decay_steps`), batches are a function of seed and update, and the random state is kept too. So
is the history up to there: a trial's record does not show which trial ran the stage.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from safetensors.torch import load_file, save_file
from torch import Tensor

from harness import PROTOCOL
from harness.data.hub import cache_folder
from harness.kit import Kit
from harness.method import Method, Stage
from harness.training.outcome import Outcome
from harness.training.parameters import state

INTERVAL = 250
KEPT = ("steps", "sentences", "seconds", "best_dev", "best_step", "history")


class Snapshots:
    """The states of one stage."""

    def __init__(self, folder: Path, changing: set[str], trained: set[str]) -> None:
        """`changing`: names of the parameters that the stage trains; `trained`: of those that any stage does."""
        self.folder, self.changing, self.trained = folder, changing, trained

    @classmethod
    def of(cls, stage: Stage, kit: Kit, seed: int, interval: int, changing: set[str], trained: set[str]) -> "Snapshots":
        """Of a stage's trials with this seed and interval between evaluations that agree in the stage's `shared`
        fields, on this kind of machine."""
        assert stage.shared is not None
        values = {field: getattr(kit.config, field) for field in (*stage.shared, "encoder", "precision")}
        machine = [torch.__version__, kit.device.type, torch.get_num_threads(), PROTOCOL]
        trial = [kit.identity(), stage.name, values, seed, interval]
        described = json.dumps([trial, machine, KEPT], sort_keys=True, default=str)
        digest = hashlib.sha256(described.encode()).hexdigest()[:16]
        folder = cache_folder() / "stages" / f"{kit.plugin.name}-{stage.name}-{digest}"
        return cls(folder, changing, trained)

    @contextmanager
    def held(self) -> Iterator[None]:
        """One trial at a time runs the stage; the others wait for its states."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "lock"):
            yield

    def resume(self, optimiser: torch.optim.Optimizer, method: Method, outcome: Outcome, updates: int) -> int:
        """Put method, optimiser, outcome and random state where they were at the last usable state; its update."""
        for update in sorted(self._kept(), reverse=True):
            if update == updates or (update < updates and self._optimiser(update).exists()):
                self._restore(update, optimiser, method, outcome, whole=update < updates)
                return update
        return 0

    def keep(
        self, update: int, updates: int, optimiser: torch.optim.Optimizer, method: Method, outcome: Outcome
    ) -> None:
        """Save when it is time; only the newest state can be trained on, the older ones are starting points."""
        if update % INTERVAL and update != updates:
            return
        tensors = {f"now/{name}": value for name, value in state(method, self.changing).items()}
        tensors |= {f"best/{name}": value for name, value in outcome.best_state.items() if name in self.changing}
        described = {name: json.dumps(getattr(outcome, name)) for name in KEPT}
        _write(_optimiser_tensors(optimiser), self._optimiser(update), {})
        _write(tensors, self._state(update), described)
        for older in self._kept():
            if older < update:
                self._optimiser(older).unlink(missing_ok=True)

    def _restore(
        self, update: int, optimiser: torch.optim.Optimizer, method: Method, outcome: Outcome, *, whole: bool
    ) -> None:
        """What this stage does not train is as it was before, in the best state as well."""
        parts: dict[str, dict[str, Tensor]] = {"now": {}, "best": {}}
        device = next(method.parameters()).device
        for name, value in load_file(self._state(update)).items():
            part, _, parameter = name.partition("/")
            parts[part][parameter] = value.to(device)
        if parts["best"]:
            outcome.best_state = state(method, self.trained) | parts["best"]
        method.load_state_dict(parts["now"], strict=False)
        for name, text in _metadata(self._state(update)).items():
            setattr(outcome, name, json.loads(text))
        if whole:
            _load_optimiser(optimiser, load_file(self._optimiser(update)))

    def _kept(self) -> list[int]:
        return [int(path.stem) for path in self.folder.glob("*.safetensors") if path.stem.isdigit()]

    def _state(self, update: int) -> Path:
        return self.folder / f"{update}.safetensors"

    def _optimiser(self, update: int) -> Path:
        return self.folder / f"{update}-optimiser.safetensors"


def _optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state and the random state, as named tensors."""
    tensors = {"random/cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["random/cuda"] = torch.cuda.get_rng_state()
    for index, values in optimiser.state_dict()["state"].items():
        tensors |= {f"{index}/{name}": value for name, value in values.items()}
    return tensors


def _load_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    torch.set_rng_state(tensors.pop("random/cpu"))
    if "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors.pop("random/cuda"))
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, part = name.split("/")
        state.setdefault(int(index), {})[part] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


def _write(tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Whole or not at all."""
    temporary = path.with_suffix(".tmp")
    save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, temporary, metadata)
    temporary.replace(path)


def _metadata(path: Path) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return dict(file.metadata() or {})
