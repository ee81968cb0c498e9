"""The one file format of saved training: the weights that a trial keeps, a stage's states, and
the checkpoint of a running trial.

It is a safetensors file. The parameters, buffers and extra state of a method stand under their own
names; what else a training needs to go on stands under a prefix, and as JSON in the metadata. A
digest of all of it finds a flipped bit.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from harness.errors import UserError
from harness.files import written_whole
from harness.training.sharded import whole

EXTRA = "_extra_state"
"""How torch calls what a module adds to its state (`get_extra_state`)"""
_METADATA = "harness"
"""The entry of the metadata that has the facts and the digest"""
_PARTS = ("best", "optimiser")
"""The parts under a prefix; a parameter's own name has no slash"""


@dataclass
class SavedState:
    """What a file of saved training holds."""

    weights: dict[str, Tensor]
    """Name -> parameter, buffer or extra state of the method"""
    best: dict[str, Tensor] = field(default_factory=dict)
    """The same at the best evaluation so far"""
    optimiser: dict[str, Tensor] = field(default_factory=dict)
    """NUMBER/NAME -> a tensor of the optimiser for the parameter of this number"""
    facts: dict[str, Any] = field(default_factory=dict)
    """All else, as JSON holds it"""

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all. Raises OSError when that is not possible."""
        tensors = dict(self.weights)
        for part in _PARTS:
            tensors |= {f"{part}/{name}": value for name, value in getattr(self, part).items()}
        plain, facts = _plain(tensors), json.dumps(self.facts)
        # One entry: safetensors writes several in an order of chance, and equal states should be
        # equal files, because a record names the digest of the file of its weights.
        described = json.dumps({"facts": facts, "digest": _digest(plain, facts)})
        try:
            with written_whole(path) as temporary:
                save_file(plain, temporary, {_METADATA: described})
                temporary.chmod(0o644)  # safetensors makes private files; the store's are readable
        except SafetensorError as error:  # it hides what the system said, such as a full disk
            raise OSError(str(error)) from None

    def digest(self) -> str:
        """The digest of the weights, 16 hexadecimal digits."""
        return _digest(_plain(self.weights), "")[:16]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The content of a file. Raises UserError when it is damaged or of another kind."""
        try:
            with safe_open(path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                metadata = file.metadata() or {}
        except (SafetensorError, OSError) as error:
            raise UserError(f"{path} cannot be read ({str(error).splitlines()[0]})") from None
        found = cls({}, facts=_facts(path, tensors, metadata))
        for name, value in tensors.items():
            part, _, rest = name.partition("/")
            if rest and part in _PARTS:
                getattr(found, part)[rest] = value
            else:
                found.weights[name] = value
        return found


def current(method: nn.Module, names: Collection[str]) -> dict[str, Tensor]:
    """The named parameters, all buffers, and the modules' extra state; not copies."""
    parameters = dict(method.named_parameters())
    chosen = {*names, *(name for name, _ in method.named_buffers())}
    return {
        name: whole(parameters[name]) if name in parameters else value.detach()
        for name, value in method.state_dict().items()
        if name in chosen or name.endswith(EXTRA)
    }


def state(method: nn.Module, names: Collection[str]) -> dict[str, Tensor]:
    """Copies of what `current` gives."""
    return {name: value.clone() for name, value in current(method, names).items()}


def load_state(method: nn.Module, names: Collection[str], path: Path) -> None:
    """Put the weights that a trial has kept into a method of the same configuration.

    Raises UserError when the file is damaged or does not fit.
    """
    found = SavedState.read(path).weights
    try:
        unknown = method.load_state_dict(found, strict=False).unexpected_keys
    except RuntimeError as error:
        why = str(error).splitlines()[0]
        raise UserError(f"the weights {path} cannot be read ({why})") from None
    if wrong := [*unknown, *sorted(set(names) - set(found))]:
        raise UserError(
            f"the weights {path} are those of another method: they differ in {wrong[0]}"
        )


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as safetensors takes them: on the CPU, contiguous, each with its own memory."""
    plain, taken = {}, set()
    for name, value in tensors.items():
        here = value.detach().cpu().contiguous()
        if here.untyped_storage().data_ptr() in taken:
            here = here.clone()
        taken.add(here.untyped_storage().data_ptr())
        plain[name] = here
    return plain


def _facts(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Any:
    """The facts in the metadata of a file. Raises UserError when the digest there differs."""
    if not metadata:
        return {}  # weights that were kept by an older version have no digest
    try:
        described = json.loads(metadata[_METADATA])
        if described["digest"] == _digest(tensors, described["facts"]):
            return json.loads(described["facts"])
    except (KeyError, TypeError, ValueError):
        pass
    raise UserError(f"{path} cannot be read (it is damaged: its digest differs)")


def _digest(tensors: Mapping[str, Tensor], facts: str) -> str:
    """The SHA-256 of all names, types, shapes and numbers, and of the facts."""
    found = hashlib.sha256(facts.encode())
    for name, value in sorted(tensors.items()):
        found.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        found.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
