"""Low-rank modules inside an encoder's layers, one set for each view: adapters and LoRA.

They are DiffAug's alternatives to prefixes (diffaug.md, section 6).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from harness.choices import Combination, LowRankKind
from harness.encoders.backbone import Encoder
from harness.encoders.reach import Reach
from harness.errors import UserError

from .prefixes import VIEW_MODULES

COMBINATION_WEIGHTS: dict[Combination, tuple[float, float]] = {
    "mean": (0.5, 0.5),
    "sum": (1.0, 1.0),
    "first": (1.0, 0.0),
    "second": (0.0, 1.0),
}
"""Weights of the sets at test time, where a sentence has no view"""
PLACES: dict[LowRankKind, tuple[str, str]] = {
    "adapter": ("attention.output.dense", "output.dense"),
    "lora": ("attention.self.query", "attention.self.value"),
}
"""The linear layers of a layer of BERT that a set changes"""
Hook = Callable[[nn.Module, tuple[Tensor], Tensor], Tensor | None]


class LowRankModules(nn.Module):
    """Two sets of low-rank changes, which an encoder's layers add to what they compute.

    adapter: h + relu(h Wd) Wu behind the attention's output and the feed-forward's (DiffAug,
    eq. 14). lora: h + scale * x Wd Wu on the query and value projections (DiffAug, eq. 15).
    Wd starts from N(0, 0.02); Wu starts from 0 (lora) or N(0, 0.001) (adapter). No biases.

    2 sets * layers * 2 places * 2 * H * rank parameters (more where a place is wider than H).
    """

    position_offset = length = 0
    """Nothing stands in front of the text"""

    def __init__(
        self,
        encoder: Encoder,
        kind: LowRankKind,
        rank: int,
        *,
        scale: float = 1.0,
        combination: Combination = "mean",
    ) -> None:
        """Hook the modules into the layers of `encoder`.

        scale: of lora. combination: of the sets at test time. Raises UserError for an encoder that
        is not built like BERT, or that computes activations twice.
        """
        super().__init__()
        if encoder.checkpointing:
            # The second computation runs in the backward pass, when `encoder.reach` is empty.
            raise UserError(
                f"{kind} modules do not work with gradient_checkpointing: set it to false"
            )
        self.kind, self.scale = kind, scale
        self.weights: Tensor
        weights = torch.tensor(COMBINATION_WEIGHTS[combination])
        self.register_buffer("weights", weights, persistent=False)  # the configuration has them
        self.down, self.up = nn.ParameterList(), nn.ParameterList()
        for number, place in enumerate(_places(encoder, kind)):
            self._add_matrices(place, rank)
            place.register_forward_hook(self._hook(encoder, number))

    def reach(self, rows: int, modules: Tensor | None) -> Reach:
        """Injection of the sets for `rows` rows.

        modules: (rows,), the number of the set that each row meets; None: the sets combined.
        """
        if modules is None:
            return {"mixture": self.weights.expand(rows, VIEW_MODULES)}
        every = torch.arange(VIEW_MODULES, device=modules.device)
        return {"mixture": (modules[:, None] == every).to(self.weights.dtype)}

    def _add_matrices(self, layer: nn.Linear, rank: int) -> None:
        """Wd and Wu of both sets at one place."""
        width = layer.out_features if self.kind == "adapter" else layer.in_features
        self.down.append(nn.init.normal_(torch.empty(VIEW_MODULES, width, rank), std=0.02))
        # Wu starts at (almost) 0, so that the encoder begins as it was pretrained.
        up = torch.zeros(VIEW_MODULES, rank, layer.out_features)
        self.up.append(nn.init.normal_(up, std=1e-3) if self.kind == "adapter" else up)

    def _hook(self, encoder: Encoder, number: int) -> Hook:
        """Addition to the output of place `number`, for all rows and sets at once."""

        def add(_module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor | None:
            mixture = encoder.reach.get("mixture")
            if mixture is None:
                return None  # a pass of the plain encoder
            # r: rows, l: length, h: width, m: sets, k: rank
            source = output if self.kind == "adapter" else inputs[0]
            inner = torch.einsum("rlh,mhk->rlmk", source, self.down[number].to(source.dtype))
            if self.kind == "adapter":
                inner = inner.relu()
            own = encoder.layout.spread(mixture, inner).unsqueeze(-1)
            weighted = inner * own.to(inner.dtype)
            change = torch.einsum("rlmk,mkh->rlh", weighted, self.up[number].to(inner.dtype))
            return output + change * (self.scale if self.kind == "lora" else 1.0)

        return add


def _places(encoder: Encoder, kind: LowRankKind) -> list[nn.Linear]:
    """The linear layers that a set changes, two in every layer of the encoder."""
    layers = getattr(getattr(encoder.model, "encoder", None), "layer", ())
    found = [dict(layer.named_modules()).get(path) for layer in layers for path in PLACES[kind]]
    places = [place for place in found if isinstance(place, nn.Linear)]
    if not found or len(places) < len(found):
        raise UserError(f'encoder "{encoder.name}": {kind} modules need layers built like BERT\'s')
    return places
