"""The one file format of saved training: the weights that a trial keeps, a stage's states, and
the checkpoint of a running trial.

It is a safetensors file. The parameters, buffers and extra state of a method stand under their own
names; what else a training needs to go on stands under a prefix, and as JSON in the metadata. A
digest of all of it finds a flipped bit. Weights that DeepSpeed has sharded are made whole by all
ranks together, and what rank 0 has read is sent to the others.
"""

import hashlib
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self, cast

import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from harness.errors import UserError
from harness.files import written_whole
from harness.ranks import agreed, rank_count, rank_number

AROUND = "whole_weights"
"""The attribute of a method with the module that makes FSDP2's shards whole"""


def is_sharded(parameter: nn.Parameter) -> bool:
    """Whether each rank has only a part of the parameter (ZeRO 3, FSDP2)."""
    return hasattr(parameter, "ds_id") or isinstance(parameter, DTensor)


def is_rounded(parameter: nn.Parameter) -> bool:
    """Whether steps read the parameter rounded, and ranks have shares of its values (ZeRO 1, 2)."""
    return hasattr(parameter, "_hp_mapping") and parameter.dtype != torch.float32


def whole(parameter: nn.Parameter) -> Tensor:
    """The values of a parameter; of one that ranks share a copy in the memory of the CPU."""
    if is_rounded(parameter):
        from deepspeed.utils import safe_get_full_fp32_param

        return cast("Tensor", safe_get_full_fp32_param(parameter)).cpu()
    if not is_sharded(parameter):
        return parameter.detach()
    if isinstance(parameter, DTensor):
        return cast("DTensor", parameter.detach()).full_tensor().cpu()
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter]):
        return parameter.detach().to("cpu", copy=True)


@contextmanager
def readable(method: nn.Module) -> Iterator[None]:
    """In the block, what a method reads outside of a training step is whole.

    The modules of pretrained models get their weights when they run; those of a method may not.
    Weights that are rounded stay so under autocast, where products would round them, too.
    """
    rounded = [each for each in method.parameters() if is_rounded(each)]
    if rounded and not torch.is_autocast_enabled(rounded[0].device.type):
        kept = [each.data for each in rounded]
        for each in rounded:
            each.data = whole(each).to(each.device)
        try:
            yield
        finally:
            for each, values in zip(rounded, kept, strict=True):
                each.data = values
        return
    sharded = [each for each in method.parameters() if is_sharded(each)]
    if not sharded:
        yield
        return
    if around := getattr(method, AROUND, None):
        around.unshard()
        try:
            yield
        finally:
            around.reshard()
        return
    import deepspeed
    from transformers import PreTrainedModel  # it takes seconds to import

    pretrained = (each for each in method.modules() if isinstance(each, PreTrainedModel))
    inside = {id(parameter) for model in pretrained for parameter in model.parameters()}
    beside = [parameter for parameter in sharded if id(parameter) not in inside]
    with deepspeed.zero.GatheredParameters(beside, enabled=bool(beside)):
        yield


def shared_out(value: Tensor, like: DTensor) -> DTensor:
    """The value that rank 0 has, sharded as `like` is."""
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements)


def load_weights(method: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Set parameters, buffers and extra state by name; the others stay as they are."""
    plain = dict(weights)
    for name, parameter in method.named_parameters():
        if name in plain and is_sharded(parameter):
            set_whole(parameter, plain.pop(name))
    method.load_state_dict(plain, strict=False)


def set_whole(parameter: nn.Parameter, value: Tensor) -> None:
    """Set the values of a parameter that ranks share; all of them call it."""
    if is_rounded(parameter):
        from deepspeed.utils import safe_set_full_fp32_param

        with torch.no_grad():
            parameter.copy_(value)
        safe_set_full_fp32_param(parameter, value.to(parameter.device))
        return
    if isinstance(parameter, DTensor):
        with torch.no_grad():
            parameter.copy_(shared_out(value, parameter))
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0), torch.no_grad():
        if rank_number() == 0:
            parameter.copy_(value)


EXTRA = "_extra_state"
"""Name that torch gives to what a module adds to its state (`get_extra_state`)"""
_METADATA = "harness"
"""The entry of the metadata that has the facts and the digest"""
_PARTS = ("best", "optimiser")
"""The parts under a prefix; a parameter's own name has no slash"""


@dataclass
class SavedState:
    """Content of a file of saved training."""

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
        state = cls({}, facts=_facts(path, tensors, metadata))
        for name, value in tensors.items():
            part, _, rest = name.partition("/")
            if rest and part in _PARTS:
                getattr(state, part)[rest] = value
            else:
                state.weights[name] = value
        return state


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
    weights = SavedState.read(path).weights
    try:
        unknown = method.load_state_dict(weights, strict=False).unexpected_keys
    except RuntimeError as error:
        why = str(error).splitlines()[0]
        raise UserError(f"the weights {path} cannot be read ({why})") from None
    if wrong := [*unknown, *sorted(set(names) - set(weights))]:
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
    sha256 = hashlib.sha256(facts.encode())
    for name, value in sorted(tensors.items()):
        sha256.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        sha256.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return sha256.hexdigest()


def from_rank_0(saved: SavedState | None) -> SavedState | None:
    """The state that rank 0 has, in every rank; the others may give None."""
    if rank_count() == 1:
        return saved
    shapes = agreed(saved and _with(saved, lambda value: torch.empty_like(value, device="meta")))
    if shapes is None or rank_number() > 0:
        saved = shapes and _with(shapes, lambda value: torch.empty_like(value, device="cpu"))
    if saved is not None:
        _with(saved, _sent)
    return saved


def _with(saved: SavedState, change: Callable[[Tensor], Tensor]) -> SavedState:
    """The same state with `change` of every tensor, in an order that all ranks share."""
    parts = {
        each.name: {name: change(value) for name, value in getattr(saved, each.name).items()}
        for each in fields(saved)
        if each.name != "facts"
    }
    return replace(saved, **parts)


def _sent(value: Tensor) -> Tensor:
    dist.broadcast(value, src=0)
    return value


_logger = logging.getLogger(__name__)
MINUTES = 5.0
"""Time between two checkpoints, unless HARNESS_CHECKPOINT_MINUTES says otherwise"""
FIRST_SECONDS = 30.0
"""Time before the first checkpoint of a trial of several workers, of which one may be lost"""
LARGEST_SHARE = 0.02
"""The most of the time that writing checkpoints may take"""


def checkpoint_minutes() -> float:
    """The minutes between two checkpoints. Raises UserError when the variable has no number."""
    setting = os.environ.get("HARNESS_CHECKPOINT_MINUTES") or str(MINUTES)
    try:
        minutes = float(setting)
    except ValueError:
        minutes = -1.0
    if not minutes >= 0:
        raise UserError(
            f'HARNESS_CHECKPOINT_MINUTES={setting}: write a number of minutes, for example "5"'
        )
    return minutes


class Checkpoint:
    """File of a trial's checkpoint, and the times when it is to be written."""

    def __init__(
        self,
        path: Path,
        identity: Mapping[str, Any],
        asked: Callable[[], bool] = lambda: False,
        spent: Callable[[], dict[str, float]] = dict,
    ) -> None:
        """`identity`: what a checkpoint must have been written with, so that it can be used.

        `asked`: whether the trial is asked to give way; it is called after every step. `spent`: the
        seconds of this attempt so far, by their names in the record. Raises UserError when
        HARNESS_CHECKPOINT_MINUTES is not a number.
        """
        self.path, self.identity, self.asked, self._spent = path, dict(identity), asked, spent
        self.earlier: Counter[str] = Counter()
        """The seconds of earlier attempts, up to the checkpoint from which this one goes on"""
        self._interval = 60 * checkpoint_minutes()
        first = min(self._interval, FIRST_SECONDS) if rank_count() > 1 else self._interval
        self._next = time.monotonic() + first

    def due(self, *, ends: bool) -> bool:
        """Whether it is time for the next checkpoint. `ends`: whether the training ends now.

        The end of a long training is kept as well, because its test may take long.
        """
        return time.monotonic() >= self._next or (ends and self.path.exists())

    def read(self) -> SavedState | None:
        """The checkpoint, or None when there is none, or none that this trial can go on from."""
        if not self.path.exists():
            return None
        try:
            saved = SavedState.read(self.path)
        except UserError as error:
            _logger.warning("the trial begins at step 0: its checkpoint %s", error)
            return None
        theirs = saved.facts.get("identity", {})
        for name, value in self.identity.items():
            # Several processes name no threads, so one process can go on with theirs.
            if theirs.get(name, value) != value:
                _logger.warning(
                    "the trial begins at step 0: its checkpoint %s is of %s %s, and this is %s",
                    self.path, name, theirs.get(name), value,
                )  # fmt: skip
                return None
        self.earlier = Counter(saved.facts.get("spent", {}))
        return saved

    def write(self, saved: SavedState) -> None:
        """Replace the checkpoint. A file that cannot be written is logged; the training goes on."""
        started = time.monotonic()
        saved.facts |= {"identity": self.identity, "spent": self.earlier + Counter(self._spent())}
        try:
            saved.write(self.path)
        except OSError as error:
            _logger.warning("the checkpoint %s cannot be written: %s", self.path, error)
        ended = time.monotonic()
        # On a slow disk the checkpoints are further apart.
        self._next = ended + max(self._interval, (ended - started) / LARGEST_SHARE)
