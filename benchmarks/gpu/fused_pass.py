"""One forward pass of a frozen encoder for several trials, whose rows lie side by side.

Every trial keeps its own prompts, its own layout of rows, and its own random numbers: a dropout
mask is drawn for the rows of one trial after the other, as each would draw it alone. The one query
that the last layer may have in every row is computed in the same way. Only the linear layers, norms
and activations see the rows of all trials together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, cycle
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from harness.data.batching import TextBatch
from harness.encoders import fast_paths, plain_attention
from harness.encoders.backbone import Encoder
from harness.encoders.families import embedding_output
from harness.encoders.reach import KeyValues, Reach
from harness.encoders.unpadding import Block, Padded, Unpadded, layout_of

_dropped = plain_attention.dropped


class RandomState:
    """The random numbers of one trial, which go on where it drew the last one."""

    def __init__(self, device: torch.device) -> None:
        """Begin with torch's present state."""
        self.device = device
        self.keep()

    def keep(self) -> None:
        """Remember torch's present state."""
        self._cpu = torch.get_rng_state()
        if self.device.type == "cuda":
            self._cuda = torch.cuda.get_rng_state(self.device)

    def use(self) -> None:
        """Let torch go on from here."""
        torch.set_rng_state(self._cpu)
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(self._cuda, self.device)


@dataclass
class Request:
    """Request of one trial to the encoder, and how its rows lie in memory."""

    encoder: Encoder
    batch: TextBatch
    reach: Reach
    state: RandomState
    layout: Padded | Unpadded
    blocks: tuple[Block, ...]
    where: Tensor | None
    """(rows,): the one position that the trial wants; None: all"""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.batch.input_ids)

    @property
    def tokens(self) -> int:
        """Number of places in the one row of tokens."""
        return sum(block.tokens for block in self.blocks)

    def flat(self, values: Tensor) -> Tensor:
        """(rows, length, ...) -> (1, tokens, ...)."""
        if isinstance(self.layout, Unpadded):
            return self.layout.tokens(values)
        return values.reshape(1, -1, *values.shape[2:])

    def unflat(self, states: Tensor) -> Tensor:
        """The inverse of `flat` for a padded batch; an unpadded one stays as it is."""
        if isinstance(self.layout, Unpadded):
            return states
        return states.view(*self.batch.input_ids.shape, *states.shape[2:])

    def edited(self, hook: Callable[..., Tensor | None], output: Tensor) -> Tensor:
        """The part of this trial in an output, (1, tokens, H), after a hook of its own encoder."""
        encoder = self.encoder
        encoder.reach, encoder.layout = self.reach, self.layout
        try:
            result = hook(encoder, None, None, self.unflat(output))
        finally:
            encoder.reach, encoder.layout = {}, Padded(None)
        return output if result is None else result.reshape(output.shape)


def request_of(
    encoder: Encoder, batch: TextBatch, reach: Reach, state: RandomState, where: Any
) -> Request:
    """The request of a trial whose encoder would run `batch`. It lies as it would alone."""
    if reach.get("mixture") is not None:
        raise ValueError("a mixture of adapters is not for a fused pass")
    unpad = encoder.unpads and not reach.get("padding", False)
    layout = layout_of(batch.attention_mask, unpad=unpad, host_mask=batch.host_mask)
    rows, length = batch.input_ids.shape
    if isinstance(layout, Unpadded):
        blocks = layout.blocks
    else:
        mask = layout.arguments["attention_mask"]
        keys = None if mask is None else mask.bool()[:, None, None].expand(-1, -1, length, -1)
        blocks = (Block(rows, length, rows * length, None, keys),)
    if isinstance(where, int):
        where = torch.full((rows,), where, device=batch.input_ids.device)
    return Request(encoder, batch, reach, state, layout, blocks, where)


class _Joined:
    """The layout of all requests, as attention and the hooks of an encoder read it."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.blocks = tuple(chain.from_iterable(each.blocks for each in requests))
        self.sizes = [each.tokens for each in requests]
        orders, first = [], 0
        for request in requests:
            plain = torch.arange(request.rows, device=request.batch.input_ids.device)
            own = request.layout.order if isinstance(request.layout, Unpadded) else plain
            orders.append(own + first)
            first += request.rows
        self.rows = first
        self.order = torch.cat(orders)

    def at(self, states: Tensor, _where: Any) -> Tensor:
        """The states at the position that each request wants, (rows, 1, H)."""
        parts = zip(self.requests, states.split(self.sizes, dim=1), strict=True)
        return torch.cat([each.layout.at(each.unflat(own), each.where) for each, own in parts])


class _OwnNumbers(TorchFunctionMode):
    """Draws the dropout of every request from its own random state."""

    def __init__(self, joined: _Joined) -> None:
        super().__init__()
        self.joined = joined
        owners = [each for each in joined.requests for block in each.blocks if block.rows]
        self.owners = cycle(owners)
        """Requests of the calls of attention to come: one for each block in every layer"""
        self.inside = False
        """Whether numbers of one request are being drawn"""

    def __torch_function__(self, call: Any, _types: Any, args: Any = (), named: Any = None) -> Any:
        named = named or {}
        if call is functional.scaled_dot_product_attention:
            return self.drawn(next(self.owners), lambda: call(*args, **named))
        return call(*args, **named)

    def dropped(self, states: Tensor, rate: float, *, training: bool) -> Tensor:
        """Dropout like `plain_attention.dropped`, in whose place it stands."""
        drop = partial(_dropped, rate=rate, training=training)
        if self.inside:
            return drop(states)
        if states.dim() == 4:  # probabilities of a block
            return self.drawn(next(self.owners), lambda: drop(states))
        along = 1 if len(states) == 1 else 0
        sizes = self.joined.sizes if along else [each.rows for each in self.joined.requests]
        parts = [
            self.drawn(owner, lambda own=own: drop(own.contiguous()))
            for owner, own in zip(self.joined.requests, states.split(sizes, dim=along), strict=True)
        ]
        return torch.cat(parts, dim=along)

    def drawn(self, owner: Request, draw: Callable[[], Tensor]) -> Tensor:
        """Result of `draw` with the random numbers of a request."""
        owner.state.use()
        self.inside = True
        values = draw()
        self.inside = False
        owner.state.keep()
        return values


class FusedEncoder:
    """A frozen encoder that answers the requests of several trials in one pass."""

    def __init__(self, encoder: Encoder) -> None:
        """encoder: a copy of the trials' encoder that nobody else uses."""
        self.encoder = encoder.train()
        self.requests: Sequence[Request] = ()
        """Requests of the pass that is running"""
        for parameter in encoder.parameters():
            parameter.requires_grad_(False)
        words, output = encoder.model.get_input_embeddings(), embedding_output(encoder.model)
        words.register_forward_hook(lambda *given: self._each(Encoder._put_words, given[2]))
        output.register_forward_hook(lambda *given: self._each(Encoder._edit_embedding, given[2]))
        if encoder._one_position:
            attention = encoder.model.encoder.layer[-1].attention.self
            attention.forward = partial(self._attend, attention, attention.forward)

    def __call__(self, requests: Sequence[Request]) -> list[Any]:
        """Output of the model of transformers for each request alone."""
        joined, encoder = _Joined(requests), self.encoder
        one = requests[0].where is not None and encoder._one_position
        options: dict[str, Any] = {"prefix": _prefix(requests), "unpadded": joined}
        if one:
            encoder._where = torch.cat([each.where for each in requests])
            encoder.layout = joined
        self.requests, self.numbers = requests, _OwnNumbers(joined)
        try:
            with (
                self.numbers,
                patch.object(plain_attention, "dropped", self.numbers.dropped),
                # Flash attention would take the rows of all trials at once.
                sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]),
            ):
                states = encoder.model(
                    input_ids=_side_by_side(requests, lambda each: each.batch.input_ids),
                    position_ids=_side_by_side(
                        requests, lambda each: each.encoder._positions(each.batch, each.reach)
                    ),
                    attention_mask=None,
                    **options,
                ).last_hidden_state
        finally:
            encoder._where, encoder.layout, self.requests = None, Padded(None), ()
        if one:
            parts = states.split([each.rows for each in requests])
        else:
            parts = [
                each.unflat(own)
                for each, own in zip(requests, states.split(joined.sizes, dim=1), strict=True)
            ]
        return [SimpleNamespace(last_hidden_state=part) for part in parts]

    def _attend(self, module: Any, usual: Any, states: Tensor, *args: Any, **named: Any) -> Any:
        """Attention like `Encoder._attend`."""
        if self.encoder._where is None:
            return usual(states, *args, **named)
        parts = [
            self.numbers.drawn(each, partial(_one_query, module, own, each))
            for each, own in zip(self.requests, self._parts(states), strict=True)
        ]
        return torch.cat(parts), None

    def _parts(self, states: Tensor) -> Sequence[Tensor]:
        return states.split([each.tokens for each in self.requests], dim=1)

    def _each(self, hook: Callable[..., Tensor | None], output: Tensor) -> Tensor:
        parts = self._parts(output)
        found = [each.edited(hook, own) for each, own in zip(self.requests, parts, strict=True)]
        return torch.cat(found, dim=1)


def _one_query(module: Any, states: Tensor, request: Request) -> Tensor:
    prefix = request.reach.get("prefix")
    return fast_paths.attended_at(
        module, request.unflat(states), request.layout, request.where, prefix
    )


def _side_by_side(requests: Sequence[Request], values: Callable[[Request], Tensor]) -> Tensor:
    return torch.cat([each.flat(values(each)) for each in requests], dim=1)


def _prefix(requests: Sequence[Request]) -> KeyValues | None:
    """The prompts of all rows. Trials of one pass have equally many."""
    own = [each.reach.get("prefix") for each in requests]
    if own[0] is None:
        return None
    keys, values, _ = zip(*own, strict=True)
    return KeyValues(
        tuple(map(torch.cat, zip(*keys, strict=True))),
        tuple(map(torch.cat, zip(*values, strict=True))),
    )
