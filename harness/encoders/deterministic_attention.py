"""The backward pass of attention on a GPU, so that the same seed gives the same gradients.

torch's fused attention adds up its gradients in no fixed order where deterministic algorithms are
only asked for ("warn"), and in a fixed one where they are demanded ("error"). A whole training
cannot demand them, because some operations have none; this operation can.
"""

import torch
from torch import Tensor

ASKED, DEMANDED = "warn", "error"
"""The modes of `torch.set_deterministic_debug_mode`"""
_ASKED_NUMBER = 1
_FAR = 4
"""Operations between the attention and its result, which is transposed and copied"""


def determine(states: Tensor) -> None:
    """Demand a deterministic backward pass of the attention that has just given `states`.

    Nothing happens without gradients, and where nobody has asked for deterministic algorithms.
    """
    node = states.grad_fn
    for _ in range(_FAR):
        if node is None or "Attention" in node.name():
            break
        node = node.next_functions[0][0] if node.next_functions else None
    if node is None or "Attention" not in node.name():
        return  # composed of simpler operations, which are deterministic
    if torch.get_deterministic_debug_mode() == _ASKED_NUMBER:
        node.register_prehook(lambda _: torch.set_deterministic_debug_mode(DEMANDED))
        node.register_hook(lambda *_: torch.set_deterministic_debug_mode(ASKED))
