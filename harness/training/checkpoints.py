"""States of a method on disk: the weights that a trial keeps, and the states of a shared stage.

Trials that differ only in what comes after a stage run that stage once between them. A trial that
trains it to step N leaves its states at every 250th step and at N. Another trial that agrees in
all that matters starts from the last state at or before its own N. This is exact to the last bit,
because the rate at a step does not depend on N (the stage names its `decay_steps`), batches are a
function of seed and step, and the random state is kept. The history is kept as well, so a trial's
record does not show which trial ran the stage.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from harness import PROTOCOL
from harness.errors import UserError
from harness.files import cache_folder, digest_of, written_whole
from harness.locks import locked
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.training.progress import Outcome

STATE_INTERVAL = 250
KEPT = ("steps", "sentences", "seconds", "best_dev", "best_step", "history")
"""The fields of an outcome that a state holds"""
EXTRA = "_extra_state"
"""How torch calls what a module adds to its state (`get_extra_state`)"""


def state(method: nn.Module, names: Collection[str]) -> dict[str, Tensor]:
    """Copies of the named parameters, of all buffers, and of the modules' extra state."""
    chosen = {*names, *(name for name, _ in method.named_buffers())}
    return {
        name: value.detach().clone()
        for name, value in method.state_dict().items()
        if name in chosen or name.endswith(EXTRA)
    }


def save_state(method: nn.Module, names: Collection[str], path: Path) -> None:
    """Write `state` as safetensors, whole or not at all."""
    _write(state(method, names), path)


def load_state(method: nn.Module, names: Collection[str], path: Path) -> None:
    """Put what `save_state` wrote into a method of the same configuration.

    Raises UserError when the file is damaged or does not fit.
    """
    try:
        found = load_file(path)
        unknown = method.load_state_dict(found, strict=False).unexpected_keys
    except (SafetensorError, RuntimeError, OSError) as error:
        why = str(error).splitlines()[0]
        raise UserError(f"the weights {path} cannot be read ({why})") from None
    if wrong := [*unknown, *sorted(set(names) - set(found))]:
        raise UserError(
            f"the weights {path} are those of another method: they differ in {wrong[0]}"
        )


class StageStates:
    """The states of one stage that trials share."""

    def __init__(self, folder: Path, changing: set[str], trained: set[str]) -> None:
        """`changing`: names of the parameters that the stage trains; `trained`: of all stages."""
        self.folder, self.changing, self.trained = folder, changing, trained

    @classmethod
    def of(
        cls, stage: Stage, kit: Kit, seed: int, interval: int, changing: set[str], trained: set[str]
    ) -> "StageStates":
        """The states that belong to this stage, seed, evaluation interval and kind of machine."""
        assert stage.shared is not None
        fields = (*stage.shared, "encoder", "precision")
        values = {field: getattr(kit.config, field) for field in fields}
        machine = [torch.__version__, kit.device.type, torch.get_num_threads(), PROTOCOL]
        trial = [kit.identity(), stage.name, values, seed, interval]
        digest = digest_of([trial, machine, KEPT])
        folder = cache_folder() / "stages" / f"{kit.declared.name}-{stage.name}-{digest}"
        return cls(folder, changing, trained)

    @contextmanager
    def held(self) -> Iterator[None]:
        """One trial at a time runs the stage; the others wait for its states."""
        with locked(self.folder / "lock", f"the first stage {self.folder.name}"):
            yield

    def resume(
        self, optimiser: torch.optim.Optimizer, method: Method[Any], outcome: Outcome, steps: int
    ) -> int:
        """Go back to the last usable state and return its step; 0 when there is none.

        Method, optimiser, outcome and random state are then as they were at that step.
        """
        for step in sorted(self._kept(), reverse=True):
            if step == steps or (step < steps and self._optimiser(step).exists()):
                self._restore(step, method, outcome)
                if step < steps:
                    _load_optimiser(optimiser, load_file(self._optimiser(step)))
                return step
        return 0

    def keep(
        self,
        step: int,
        steps: int,
        optimiser: torch.optim.Optimizer,
        method: Method[Any],
        outcome: Outcome,
    ) -> None:
        """Save when it is time.

        Training can go on only from the newest state, which has the optimiser's; the older ones
        are ends of shorter stages.
        """
        if step % STATE_INTERVAL and step != steps:
            return
        best = {name: value for name, value in outcome.best_state.items() if name in self.changing}
        tensors = {f"now/{name}": value for name, value in state(method, self.changing).items()}
        tensors |= {f"best/{name}": value for name, value in best.items()}
        described = {name: json.dumps(getattr(outcome, name)) for name in KEPT}
        _write(_optimiser_tensors(optimiser), self._optimiser(step))
        _write(tensors, self._state(step), described)
        for older in self._kept():
            if older < step:
                self._optimiser(older).unlink(missing_ok=True)

    def _restore(self, step: int, method: Method[Any], outcome: Outcome) -> None:
        """What this stage does not train stays as it was before, in the best state as well."""
        parts: dict[str, dict[str, Tensor]] = {"now": {}, "best": {}}
        device = next(method.parameters()).device
        for name, value in load_file(self._state(step)).items():
            part, _, parameter = name.partition("/")
            parts[part][parameter] = value.to(device)
        if parts["best"]:
            outcome.best_state = state(method, self.trained) | parts["best"]
        method.load_state_dict(parts["now"], strict=False)
        for name, text in _metadata(self._state(step)).items():
            setattr(outcome, name, json.loads(text))

    def _kept(self) -> list[int]:
        return [int(path.stem) for path in self.folder.glob("*.safetensors") if path.stem.isdigit()]

    def _state(self, step: int) -> Path:
        return self.folder / f"{step}.safetensors"

    def _optimiser(self, step: int) -> Path:
        return self.folder / f"{step}-optimiser.safetensors"


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
    found: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, part = name.split("/")
        found.setdefault(int(index), {})[part] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": found})


def _write(
    tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str] | None = None
) -> None:
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    with written_whole(path) as temporary:
        save_file(plain, temporary, metadata)
        temporary.chmod(0o644)  # safetensors makes private files; the store's others are readable


def _metadata(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata() or {})
