"""What a plugin may remember outside of a checkpoint: plain attributes and variables."""

import random
import sys
from collections import deque
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_MODULE_PARTS = frozenset(vars(nn.Module()))
"""What every module has, `training` included"""


def hidden_state(method: nn.Module) -> dict[str, Any]:
    """Name -> value, of all that may be state and is no parameter and no buffer.

    These are the numbers, tensors, sequences and generators among the attributes of the modules
    whose classes the plugin defines, and among the variables of its files. Memos (mappings) and
    values that a module makes at their first use are not state.
    """
    home = type(method).__module__
    found: dict[str, Any] = {}
    for path, module in method.named_modules():
        if _in(type(module).__module__, home):
            names = vars(module).keys() - _MODULE_PARTS
            found |= {
                ".".join(filter(None, ("self", path, name))): _value(vars(module)[name])
                for name in sorted(names)
            }
    for name, file in list(sys.modules.items()):
        if _in(name, home):
            variables = {each: _value(value) for each, value in vars(file).items()}
            found |= {f"the variable {each}": value for each, value in variables.items()}
    return {name: value for name, value in found.items() if value is not None}


def _in(module: str, home: str) -> bool:
    return module == home or module.startswith(f"{home}.")


def _value(value: Any) -> Any:
    """The value as something that can be compared; None for what is no state."""
    if isinstance(value, Tensor):
        return value.detach().cpu().double().numpy().tobytes()
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple | deque):
        return [_value(each) for each in value]
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, torch.Generator):
        return value.get_state().numpy().tobytes()
    return None
