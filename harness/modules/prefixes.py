"""Prefix modules: keys and values made by a small network, one module a view (DiffAug; diffaug.md, sections 1.1, 1.2, 1.3 and 1.4)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.encoders.attention import KeyValues
from harness.encoders.backbone import Encoder, Reach

MODULES = 2


class PrefixModules(nn.Module):
    """Two modules of `length` rows; Linear - tanh - Linear turns a row of width H into keys and values of all layers.

    N(0, 0.02) weights, zero biases. 2 * length * H + (H + 1) * H + (H + 1) * 2 * layers * H parameters when the modules
    share the network (the released code); 2 * length * 2 * layers * H numbers once it is folded away.
    """

    def __init__(self, encoder: Encoder, length: int, *, share_network: bool = True) -> None:
        """`length`: rows of one module."""
        super().__init__()
        config = encoder.model.config
        width, self.layers, self.heads = (
            encoder.hidden_size,
            int(config.num_hidden_layers),
            config.num_attention_heads,
        )
        self.length, self.dropout = length, float(config.hidden_dropout_prob)
        self.table = nn.Parameter(torch.empty(MODULES, length, width))
        nn.init.normal_(self.table, std=0.02)
        networks = [
            _network(width, 2 * self.layers * width) for _ in range(1 if share_network else MODULES)
        ]
        self.networks = nn.ModuleList(networks)

    @property
    def position_offset(self) -> int:
        """Text starts behind all rows, also where a row sees one module only (diffaug.md, section 1.4)."""
        return MODULES * self.length

    def reach(self, rows: int, modules: Tensor | None) -> Reach:
        """How `rows` rows meet the prefix: each its module (rows,), or, with None, both modules.

        A hidden module is left out, which equals masking it. In training every row has its own dropout mask.
        """
        made = torch.stack([self._network(number)(self.table[number]) for number in range(MODULES)])
        chosen = made.flatten(0, 1).expand(rows, -1, -1) if modules is None else made[modules]
        dropped = functional.dropout(chosen, self.dropout, self.training)
        shaped = dropped.unflatten(2, (2 * self.layers, self.heads, -1)).permute(2, 0, 3, 1, 4)  # type: ignore[no-untyped-call]
        slots: tuple[Tensor, ...] = shaped.unbind(0)
        return {
            "prefix": KeyValues(slots[0::2], slots[1::2]),
            "position_offset": self.position_offset,
        }

    def _network(self, number: int) -> nn.Module:
        return self.networks[min(number, len(self.networks) - 1)]


def _network(width: int, outputs: int) -> nn.Sequential:
    network = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs))
    for layer in network:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
    return network
