"""A pretrained encoder, with the places where methods reach into it.

A method can put key/value pairs in front of every layer's own (deep prompts, prefixes), move the
positions of the tokens, put vectors in the place of word embeddings, change the output of the
embedding layer, and mix adapter modules in. Anything that transformers loads as a text model works,
decoders included. Nothing in its code is copied or changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor, nn

from harness.data.batching import TextBatch
from harness.encoders.attention import KeyValues, OnePosition, select
from harness.encoders.decoders import Decoding, averaged, last_positions
from harness.encoders.families import Family, embedding_output
from harness.encoders.pretrained import Reading, pretrained_model
from harness.encoders.trained import load_trained
from harness.encoders.unpadding import Padded, Unpadded, layout_of, unpads
from harness.encoders.views import check_views

EmbeddingEdit = Callable[[Tensor], Tensor]
"""Embedding output (rows, length, H) -> the output that the first layer reads instead.

What it gives at padding is not read."""


@dataclass(frozen=True)
class WordVectors:
    """Trained vectors that stand where word embeddings would.

    Position and type embeddings, LayerNorm and dropout follow as for any token.
    """

    positions: Tensor
    """(rows, count): where they stand in each row"""
    vectors: Tensor
    """(count, H): the same vectors for every row"""


class Reach(TypedDict, total=False):
    """How a method reaches into one forward pass. What is left out stays as it is.

    Example:
        encoder.cls(batch, prefix=prompts, position_offset=prompts.length)
    """

    prefix: KeyValues | None
    """Key/value pairs in front of every layer's own"""
    position_offset: int
    """Added to every position (the released prompt methods shift the text by the prompt length)"""
    positions: Tensor | None
    """(rows, length), counted from 0; None: 0, 1, 2, ..."""
    words: WordVectors | None
    """Vectors in the place of word embeddings"""
    edit: EmbeddingEdit | None
    """Changes the embedding output, after its LayerNorm and dropout"""
    mixture: Tensor | None
    """(rows, modules): how much of each adapter module a row gets (harness.modules.adapters)"""
    padding: bool
    """Compute states at padding, too, which some released losses read"""


class Encoder(nn.Module):
    """A pretrained encoder. Every forward pass numbers the positions.

    H is the width of its hidden states.
    """

    def __init__(
        self, name: str, *, checkpointing: bool = False, **reading: Unpack[Reading]
    ) -> None:
        """Load the model.

        name: as on the Hub, a folder, or an encoder that a trial has trained. checkpointing:
        compute activations a second time in the backward pass instead of keeping them. Raises
        UserError when the model cannot be loaded as an encoder.
        """
        super().__init__()
        self.name = name
        self.model = pretrained_model(name, **reading)
        load_trained(self.model, name)
        self.family = Family(name, self.model)
        """What the model has a place for"""
        self.decoding = reading.get("decoding", Decoding())
        self._views_differ = False
        """Whether views of a sentence were seen that are not the same"""
        self.unpads = unpads(self.model.config)
        """Whether padding is left out of forward passes"""
        self.reach: Reach = {}
        """Of the forward pass that is running"""
        self.layout: Padded | Unpadded = Padded(None)
        """Of the forward pass that is running: how its states lie in memory"""
        self._where: Tensor | int | None = None
        """The position that `at` wants from the running forward pass; None: all"""
        self.checkpointing = checkpointing
        if checkpointing:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
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
        output, layout = self._run(batch, reach)
        states = _full(output.last_hidden_state, self.model)
        if self._where is None:
            states = layout.padded(states)
        elif not self._one_position:  # else the last layer has gone on with this one alone
            states = layout.at(states, self._where)
        if self.training and batch.copies > 1 and not self._views_differ:
            check_views(self.name, states, batch, _given_rows(reach))
            self._views_differ = True
        return states

    def at(self, batch: TextBatch, where: Tensor | int, **reach: Unpack[Reach]) -> Tensor:
        """The last layer's state at one position of every row, (rows, H).

        where: (rows,), or one position for all rows; not of padding. The result is that of
        `forward(...)[:, where]`, at a lower price: in the families of BERT and RoBERTa the last
        layer then works on that position alone (its keys and values are still those of all
        positions). This is exact and saves most of a layer.
        """
        if self.checkpointing and self.training:
            # The backward pass computes the layer again, when `_where` is not set any more.
            return select(self.forward(batch, **reach), where)[:, 0]
        self._where = where
        try:
            return self.forward(batch, **reach)[:, 0]
        finally:
            self._where = None

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
        output, layout = self._run(batch, reach, output_hidden_states=True)
        return tuple(layout.padded(_full(each, self.model)) for each in output.hidden_states)

    def _run(self, batch: TextBatch, reach: Reach, **options: Any) -> tuple[Any, Padded | Unpadded]:
        """What the model of transformers gives, and how its states lie in memory."""
        positions = reach.get("positions")
        if positions is not None:
            self.family.need_positions("this method moves", "choose another method")
        else:
            row = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
            positions = row.expand_as(batch.input_ids)
        # Always given, so that the numbering does not depend on the family of the encoder.
        positions = positions + (self.first_position + reach.get("position_offset", 0))
        if reach.get("prefix") is not None:
            self.family.need_prefix("prompts")
            options["prefix"] = reach["prefix"]
        if self._where is not None and self._one_position:
            options["only"] = OnePosition(self._where, self.model.config.num_hidden_layers - 1)
        unpad = self.unpads and not reach.get("padding", False)
        layout = layout_of(
            batch.attention_mask, unpad=unpad, known=batch.host_mask, masks=self.family.decoder
        )
        if self.family.takes_positions:
            options["position_ids"] = layout.tokens(positions)
        # The hooks read these two, because they cannot be given arguments of a forward pass.
        self.reach, self.layout = reach, layout
        try:
            output = self.model(
                input_ids=layout.tokens(batch.input_ids),
                **layout.arguments,
                **options,
            )
        finally:
            self.reach, self.layout = {}, Padded(None)
        return output, layout

    def _hook_last_layer(self) -> None:
        """After the last layer's attention, `at` goes on with one position alone."""
        layers = getattr(getattr(self.model, "encoder", None), "layer", None)
        attention: Any = None if layers is None else getattr(layers[-1], "attention", None)
        # Other families name these parts differently; for them `at` selects from all positions.
        parts = hasattr(attention, "self") and hasattr(attention, "output")
        self._one_position = parts and self.family.our_attention and not self.family.decoder
        if self._one_position:
            attention.self.register_forward_hook(self._keep_attended)
            # The residual connection around the attention must shrink as well.
            attention.output.register_forward_pre_hook(self._keep_residual)

    def _keep_attended(self, _module: nn.Module, _inputs: Any, output: Any) -> Any:
        if self._where is None:
            return None
        return self.layout.at(output[0], self._where), *output[1:]

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


def _given_rows(reach: Reach) -> list[Tensor]:
    """What a method puts into the rows of a pass, each (rows, ...)."""
    prefix, mixture = reach.get("prefix"), reach.get("mixture")
    return [*(prefix.keys[:1] if prefix else ()), *([] if mixture is None else [mixture])]


def _full(states: Tensor, model: Any) -> Tensor:
    """In float32, which the modules of a method have, the states of a model in bf16."""
    return states.float() if model.dtype == torch.bfloat16 else states


def first_replaced(vectors: Tensor) -> EmbeddingEdit:
    """An edit that puts vectors (rows, H) over position 0 of the embedding output.

    The vectors keep their gradient (diffcse.md, section 1.3).
    """
    return lambda output: torch.cat([vectors.to(output.dtype)[:, None], output[:, 1:]], dim=1)
