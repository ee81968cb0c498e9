"""A pretrained encoder, with the places where methods reach into it.

A method can put key/value pairs in front of every layer's own (deep prompts, prefixes), move the
positions of the tokens, put vectors in the place of word embeddings, change the output of the
embedding layer, and mix adapter modules in. Anything that transformers loads as a text model works,
decoders included. Nothing in its code is copied or changed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from harness.choices import Decoding, LowRank
from harness.data.batching import TextBatch
from harness.encoders.families import EncoderFamily, embedding_output
from harness.encoders.fast_paths import (
    WITH_BERT_ATTENTION,
    Pass,
    Where,
    attended_at,
    check_views,
    run_in_shares,
)
from harness.encoders.low_rank import add_low_rank, load_trained
from harness.encoders.pretrained import Loading, keep_layers, pretrained_model
from harness.encoders.reach import Embedded, Reach, ended, select
from harness.encoders.unpadding import Padded, Unpadded, layout_of, unpads
from harness.ranks import entering, rank_count


def last_positions(attention_mask: Tensor) -> Tensor:
    """The position of the last real token of every row, (rows,); padding is on the right.

    attention_mask: (rows, length).
    """
    return attention_mask.sum(dim=1) - 1


def averaged(states: Tensor, attention_mask: Tensor, *, weighted: bool) -> Tensor:
    """The mean over the real tokens: (rows, length, H) -> (rows, H).

    attention_mask: (rows, length). weighted: token k counts k times, from 1 on.
    """
    weights = attention_mask.cumsum(dim=1) * attention_mask if weighted else attention_mask
    shares = weights.to(states.dtype) / weights.sum(dim=1, keepdim=True)
    return torch.einsum("rlh,rl->rh", states, shares.to(states.dtype))


class Encoder(nn.Module):
    """A pretrained encoder. Every forward pass numbers the positions.

    H is the width of its hidden states.
    """

    def __init__(
        self,
        name: str,
        *,
        checkpointing: bool = False,
        chunk_size: int | None = None,
        low_rank: LowRank | None = None,
        depth: int | None = None,
        **loading: Unpack[Loading],
    ) -> None:
        """Load the model.

        name: as on the Hub, a folder, or an encoder that a trial has trained. checkpointing:
        compute activations a second time in the backward pass instead of keeping them. chunk_size:
        the same for this many rows at a time; None: for no rows. low_rank: the changes that train
        in the place of its weights. depth: its layers from the first one on; None: all. Raises
        UserError when the model cannot be loaded as an encoder, and when it has fewer layers.
        """
        super().__init__()
        self.name = name
        self.model = pretrained_model(name, **loading)
        load_trained(self.model, name)
        if depth is not None:
            keep_layers(self.model, depth, name)
        self.low_rank = low_rank
        if low_rank is not None:
            add_low_rank(self.model, low_rank)
        self.family = EncoderFamily(name, self.model)
        """Changes for which the model has a place"""
        self.decoding = loading.get("decoding", Decoding())
        self.checks_views = True
        """Whether the next pass in training over copies of rows refuses it when they stay equal"""
        self.unpads = unpads(self.model.config)
        """Whether padding is left out of forward passes"""
        self.reach: Reach = {}
        """Injection into the forward pass that is running"""
        self.layout: Padded | Unpadded = Padded(None)
        """Layout in memory of the states of the forward pass that is running"""
        self._wanted: Where = None
        """The position that `at` asks `forward` for; None: all"""
        self._where: Where = None
        """The position that is wanted from the pass that is running; None: all"""
        self.checkpointing, self.chunk_size = checkpointing, chunk_size
        if checkpointing:
            self.model.activation_checkpointing_enable({"use_reentrant": False})
        # Hooks, because transformers has no arguments for these places.
        self._hook_last_layer()
        self.model.get_input_embeddings().register_forward_hook(self._put_words)
        embedding_output(self.model).register_forward_hook(self._edit_embedding)

    @property
    def hidden_size(self) -> int:
        """Width H of the hidden states."""
        return int(self.model.config.hidden_size)

    @property
    def longest(self) -> int:
        """The most tokens of a row: as many as there are positions."""
        return self.family.longest

    @property
    def first_position(self) -> int:
        """Number of the first position: 0 in BERT."""
        return self.family.first_position

    def forward(self, batch: TextBatch, **reach: Unpack[Reach]) -> Tensor:
        """Hidden states of the last layer, (rows, length, H).

        What stands at padding has no meaning, unless `reach` asks for it.
        """
        where, self._wanted = self._wanted, None
        states = self._shared_out(self._states, batch, reach, where)[0]
        trains = self.training and torch.is_grad_enabled()  # the views of a frozen one may be equal
        if trains and batch.copies > 1 and self.checks_views:
            check_views(self.name, states, batch, reach)
            self.checks_views = False
        return states

    def at(self, batch: TextBatch, where: Tensor | int, **reach: Unpack[Reach]) -> Tensor:
        """The last layer's state at one position of every row, (rows, H).

        where: (rows,), or one position for all rows; not of padding. The result is that of
        `forward(...)[:, where]`, at a lower price: in the families of BERT and RoBERTa the last
        layer then works on that position alone, which is exact and saves nearly all of a layer.
        """
        if self.checkpointing and self.training:
            # The backward pass computes the layer again, when `_where` is not set any more.
            return select(self.forward(batch, **reach), where)[:, 0]
        self._wanted = where
        return self.forward(batch, **reach)[:, 0]

    def cls(self, batch: TextBatch, **reach: Unpack[Reach]) -> Tensor:
        """The state that stands for a sentence, (rows, H): the last layer's at position 0.

        A decoder sees nothing of the sentence there; in its place, `Decoding` says what counts.
        """
        if not self.family.decoder:
            return self.at(batch, 0, **reach)
        if self.decoding.pooling == "last-token":
            return self.at(batch, last_positions(batch.attention_mask), **reach)
        weighted = self.decoding.pooling == "weighted-mean"
        return averaged(self.forward(batch, **reach), batch.attention_mask, weighted=weighted)

    def layers(self, batch: TextBatch, **reach: Unpack[Reach]) -> tuple[Tensor, ...]:
        """The embedding output, then the hidden states of every layer, each (rows, length, H)."""
        return self._shared_out(self._all_states, batch, reach, None)

    def _shared_out(
        self, run: Pass, batch: TextBatch, reach: Reach, where: Where
    ) -> tuple[Tensor, ...]:
        """`run` over all rows: by this process at once, or in shares and chunks."""
        chunk_size = self.chunk_size if self.training and torch.is_grad_enabled() else None
        if rank_count() == 1 and chunk_size is None:
            return run(batch, reach, where)
        if (edit := reach.get("edit")) is not None:
            # An edit may know all rows, so it gets the embedding output of all of them.
            edited = entering(edit(self._embedded(batch, reach)))
            reach = {**reach, "edit": lambda _: edited}
        return run_in_shares(run, batch, reach, where, chunk_size)

    def _states(self, batch: TextBatch, reach: Reach, where: Where) -> tuple[Tensor, ...]:
        """Hidden states of the last layer: (rows, length, H), or at `where`, (rows, 1, H)."""
        self._where = where
        try:
            output, layout = self._run(batch, reach)
            states = _full(output.last_hidden_state, self.model)
            if where is None:
                return (layout.padded(states),)
            # The last layer may have gone on with the one position alone.
            return (states if self._one_position else layout.at(states, where),)
        finally:
            self._where = None

    def _all_states(self, batch: TextBatch, reach: Reach, _: Where) -> tuple[Tensor, ...]:
        """The embedding output, then the hidden states of every layer, each (rows, length, H)."""
        output, layout = self._run(batch, reach, output_hidden_states=True)
        return tuple(layout.padded(_full(each, self.model)) for each in output.hidden_states)

    def _embedded(self, batch: TextBatch, reach: Reach) -> Tensor:
        """The embedding output, (rows, length, H), without an edit."""
        try:
            self._run(batch, {**reach, "edit": ended})
        except Embedded as found:
            return found.output
        raise AssertionError("the embeddings were not reached")

    def _positions(self, batch: TextBatch, reach: Reach) -> Tensor:
        """The number of each token's position, (rows, length)."""
        positions = reach.get("positions")
        if positions is not None:
            self.family.need_positions("this method moves", "choose another method")
        else:
            row = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
            positions = row.expand_as(batch.input_ids)
        # Always given, so that the numbering does not depend on the family of the encoder.
        return positions + (self.first_position + reach.get("position_offset", 0))

    def _run(self, batch: TextBatch, reach: Reach, **options: Any) -> tuple[Any, Padded | Unpadded]:
        """Output of the model of transformers, and the layout of its states in memory."""
        if reach.get("prefix") is not None:
            self.family.need_prefix("prompts")
            options["prefix"] = reach["prefix"]
        unpad = self.unpads and not reach.get("padding", False)
        layout = layout_of(
            batch.attention_mask,
            unpad=unpad,
            host_mask=batch.host_mask,
            masks=self.family.decoder,
            room=batch.room,
        )
        if self.family.takes_positions:
            options["position_ids"] = layout.tokens(self._positions(batch, reach))
        # The hooks read these two, because they cannot be given arguments of a forward pass.
        self.reach, self.layout = reach, layout
        try:
            output = self.model(
                input_ids=layout.tokens(batch.input_ids), **layout.arguments, **options
            )
        finally:
            self.reach, self.layout = {}, Padded(None)
        return output, layout

    def _hook_last_layer(self) -> None:
        """From the last layer's attention on, `at` works on one position alone."""
        config = self.model.config
        # For other families `at` selects from all positions.
        self._one_position = config.model_type in WITH_BERT_ATTENTION and not self.family.decoder
        if self._one_position:
            attention = self.model.encoder.layer[-1].attention
            usual = attention.self.forward
            attention.self.forward = partial(self._attend, attention.self, usual)
            # The residual connection around the attention must shrink as well.
            attention.output.register_forward_pre_hook(self._keep_residual)

    def _attend(
        self,
        module: nn.Module,
        usual: Callable[..., Any],
        states: Tensor,
        *inputs: Any,
        **named: Any,
    ) -> Any:
        """The last layer's attention, in the place of its `usual` forward pass."""
        if self._where is None:
            return usual(states, *inputs, **named)
        prefix = self.reach.get("prefix")
        return attended_at(module, states, self.layout, self._where, prefix), None

    def _keep_residual(self, _module: nn.Module, inputs: tuple[Tensor, Tensor]) -> Any:
        return None if self._where is None else (inputs[0], self.layout.at(inputs[1], self._where))

    def _put_words(self, _module: nn.Module, _inputs: Any, output: Tensor) -> Tensor | None:
        words = self.reach.get("words")
        if words is None:
            return None
        index = self.layout.places(words.positions).unsqueeze(-1).expand(-1, -1, output.shape[-1])
        vectors = words.vectors.to(output.dtype).expand(len(words.positions), -1, -1)
        return output.scatter(1, index, vectors.reshape(index.shape))

    def _edit_embedding(self, _module: nn.Module, _inputs: Any, output: Tensor) -> Tensor | None:
        edit = self.reach.get("edit")
        return None if edit is None else self.layout.tokens(edit(self.layout.padded(output)))


def _full(states: Tensor, model: Any) -> Tensor:
    """In float32, which the modules of a method have, the states of a model in bf16."""
    return states.float() if model.dtype == torch.bfloat16 else states
