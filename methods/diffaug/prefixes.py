"""Prefix modules: keys and values made by a small network, one module for each view.

DiffAug makes its two views with them (diffaug.md, sections 1.1, 1.2, 1.3 and 1.4).
"""

import torch
from torch import Tensor, nn

from harness.encoders import plain_attention
from harness.encoders.backbone import Encoder
from harness.encoders.families import key_shape
from harness.encoders.reach import KeyValues, Reach

VIEW_MODULES = 2
"""Modules of an augmentation: one for each of the two views"""


class PrefixModules(nn.Module):
    """Two modules of `length` rows; a network turns a row into keys and values of all layers.

    The network is Linear(H, H), tanh, Linear(H, 2 * layers * H), or narrower where heads of queries
    share those of keys. Weights start from N(0, 0.02) and biases from 0. The modules share the
    network in the released code. There are then 2 * length * H + (H + 1) * H + (H + 1) * 2 * layers
    * H parameters, and 2 * length * 2 * layers * H numbers once the network is folded away.
    """

    def __init__(
        self, encoder: Encoder, length: int, *, share_network: bool = True, shift: bool = True
    ) -> None:
        """length: rows of one module. share_network: whether one network serves both modules.

        shift: whether the text starts behind the rows of both modules, also where a row of the
        batch sees one module alone (diffaug.md, section 1.4). Raises UserError for an encoder that
        has no place for them.
        """
        super().__init__()
        encoder.family.need_prefix("prefixes")
        self.position_offset = VIEW_MODULES * length if shift else 0
        """Number that is added to the positions of the text"""
        width = encoder.hidden_size
        self.layers, self.heads, size = key_shape(encoder.model.config)
        self.length, self.dropout = length, encoder.family.dropout
        self.table = nn.Parameter(torch.empty(VIEW_MODULES, length, width))
        # Small: the first keys and values are much shorter than the encoder's own, as in the paper.
        nn.init.normal_(self.table, std=0.02)
        count = 1 if share_network else VIEW_MODULES
        outputs = 2 * self.layers * self.heads * size
        self.networks = nn.ModuleList([_network(width, outputs) for _ in range(count)])

    def reach(self, rows: int, modules: Tensor | None) -> Reach:
        """Injection of the prefix for `rows` rows.

        modules: (rows,), the number of the module that each row sees; None: every row sees both.
        In training every row has a dropout mask of its own.
        """
        numbers = range(VIEW_MODULES)
        made = torch.stack([self._network(number)(self.table[number]) for number in numbers])
        # A module that a row must not see is left out. This equals masking it, and is cheaper.
        chosen = made.flatten(0, 1).expand(rows, -1, -1) if modules is None else made[modules]
        # Dropout comes last, so that every row of the batch has a mask of its own.
        dropped = plain_attention.dropped(chosen, self.dropout, training=self.training)
        by_slot = dropped.view(rows, dropped.shape[1], 2 * self.layers, self.heads, -1)
        # Slot 2m is the key of layer m, slot 2m+1 its value, each (rows, heads, length, head size).
        slots: tuple[Tensor, ...] = by_slot.permute(2, 0, 3, 1, 4).unbind(0)
        return {
            "prefix": KeyValues(slots[0::2], slots[1::2]),
            "position_offset": self.position_offset,
        }

    def _network(self, number: int) -> nn.Module:
        """The network of a module; a shared one is the only one there is."""
        return self.networks[min(number, len(self.networks) - 1)]


def _network(width: int, outputs: int) -> nn.Sequential:
    network = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs))
    for layer in network:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
    return network
