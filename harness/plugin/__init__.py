"""The facade of a plugin: everything that a method's file needs besides its building blocks.

    from harness import plugin
    from harness.plugin import Kit, Stage, TextBatch

    class Config(plugin.TrainingConfig): ...
    class Method(plugin.Method[Config]): ...

The names of what computes are loaded at their first use, because declarations are read without
torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from harness.plugin.config import MethodConfig as MethodConfig
from harness.plugin.config import Precision as Precision
from harness.plugin.config import Setting as Setting
from harness.plugin.config import TrainingConfig as TrainingConfig
from harness.plugin.declaration import Declaration as Declaration
from harness.plugin.passes import Pass as Pass
from harness.plugin.passes import Passes as Passes
from harness.plugin.passes import Products as Products
from harness.plugin.semisupervised import SemiSupervisedConfig as SemiSupervisedConfig
from harness.plugin.stage import Artefact as Artefact
from harness.plugin.stage import Batches as Batches
from harness.plugin.stage import LossWeight as LossWeight
from harness.plugin.stage import Optimisation as Optimisation
from harness.plugin.stage import Selection as Selection
from harness.plugin.stage import Stage as Stage

if TYPE_CHECKING:
    from harness.data.batching import TextBatch as TextBatch
    from harness.plugin.kit import Kit as Kit
    from harness.plugin.method import FrozenMethod as FrozenMethod
    from harness.plugin.method import Method as Method

_COMPUTING = {
    "TextBatch": "harness.data.batching",
    "Kit": "harness.plugin.kit",
    "FrozenMethod": "harness.plugin.method",
    "Method": "harness.plugin.method",
}


def __getattr__(name: str) -> Any:
    if name not in _COMPUTING:
        raise AttributeError(f"harness.plugin has no {name}")
    return getattr(import_module(_COMPUTING[name]), name)
