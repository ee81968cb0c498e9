"""A pretrained bidirectional encoder, with the four places where methods reach into it.

Key/value pairs in front of every layer's own (deep prompts, prefixes), the positions of the tokens, vectors instead of
word embeddings, and the output of the embedding layer. Anything that transformers loads as an encoder with an
`embeddings` module works; nothing in its code is copied or changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel

from harness.data.batching import TextBatch
from harness.data.hub import model_folder
from harness.encoders.attention import ATTENTION, KeyValues, OnePosition, select
from harness.errors import UserError


@dataclass(frozen=True)
class WordVectors:
    """Trained vectors that stand where word embeddings would; position, type, LayerNorm and dropout follow as usual."""

    positions: Tensor
    """(rows, count): where in each row"""
    vectors: Tensor
    """(count, H)"""


class Reach(TypedDict, total=False):
    """How a method reaches into a forward pass."""

    prefix: KeyValues | None
    """Key/value pairs in front of every layer's"""
    position_offset: int
    """Added to every position (the released prompt methods shift the text by the prompt length)"""
    positions: Tensor | None
    """(rows, length), counted from 0; default 0, 1, 2, ..."""
    words: WordVectors | None
    edit: Callable[[Tensor], Tensor] | None
    """Changes the embedding output, (rows, length, H), after its LayerNorm and dropout"""
    mixture: Tensor | None
    """(rows, modules): how much of each adapter module a row gets (harness.modules.adapters)"""


class Encoder(nn.Module):
    """A pretrained encoder. Weights are float32; every forward numbers the positions itself."""

    def __init__(
        self, name: str, *, dropout: float | None = None, checkpointing: bool = False
    ) -> None:
        """`name`: as on the Hub, or a folder. `dropout`: instead of the model's own, 0 to 1. `checkpointing`: compute
        activations again in the backward pass rather than keep them.

        Raises UserError when it cannot be loaded as an encoder.
        """
        super().__init__()
        self.name = name
        folder = model_folder(name)
        try:
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            if dropout is not None:
                config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
            options = (
                {"add_pooling_layer": False}
                if config.model_type in ("bert", "roberta", "xlm-roberta")
                else {}
            )
            self.model, loading = AutoModel.from_pretrained(
                folder,
                config=config,
                attn_implementation=ATTENTION,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
                **options,
            )
        except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
            raise UserError(
                f'encoder "{name}" cannot be loaded: {str(error).splitlines()[0]}'
            ) from error
        missing = sorted(key for key in loading["missing_keys"] if not key.startswith("pooler."))
        if missing:
            raise UserError(
                f'encoder "{name}" is incomplete (missing weights: {", ".join(missing[:3])})'
            )
        if not hasattr(self.model, "embeddings"):
            raise UserError(
                f'encoder "{name}" ({config.model_type}) is no bidirectional encoder: it has no embeddings'
            )
        self.reach: Reach = {}
        """Of the forward pass that is running"""
        self._where: Tensor | int | None = None
        self.checkpointing = checkpointing
        if checkpointing:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
        self._hook_last_layer()
        self.model.get_input_embeddings().register_forward_hook(self._put_words)
        self.model.embeddings.register_forward_hook(self._edit_embedding)

    @property
    def hidden_size(self) -> int:
        """Width H of the hidden states."""
        return int(self.model.config.hidden_size)

    @property
    def longest(self) -> int:
        """Tokens that the position embeddings allow."""
        return int(self.model.config.max_position_embeddings) - self.first_position

    @property
    def first_position(self) -> int:
        """Number of the first position: behind padding_idx in RoBERTa's relatives, which keep one in their embeddings,
        0 in BERT."""
        padding = getattr(self.model.embeddings, "padding_idx", None)
        return 0 if padding is None else int(padding) + 1

    def forward(self, batch: TextBatch, **reach: Unpack[Reach]) -> Tensor:
        """Hidden states of the last layer, (rows, length, H)."""
        states: Tensor = self._run(batch, reach).last_hidden_state
        return states

    def at(self, batch: TextBatch, where: Tensor | int, **reach: Unpack[Reach]) -> Tensor:
        """The last layer's state at one position of every row, (rows, H): `forward(...)[:, where]` at a lower price.

        `where`: (rows,), or one position for all. In BERT's and RoBERTa's family the last layer then works on that
        position alone (its keys and values are of all positions), which is exact and saves most of a layer.
        """
        if (
            self.checkpointing and self.training
        ):  # the second computation, in the backward pass, knows no `where`
            return select(self.forward(batch, **reach), where)[:, 0]
        self._where = where
        try:
            states = self.forward(batch, **reach)
            return states[:, 0] if self._one_position else select(states, where)[:, 0]
        finally:
            self._where = None

    def cls(self, batch: TextBatch, **reach: Unpack[Reach]) -> Tensor:
        """The last layer's state at position 0, (rows, H)."""
        return self.at(batch, 0, **reach)

    def layers(self, batch: TextBatch, **reach: Unpack[Reach]) -> tuple[Tensor, ...]:
        """The embedding output and every layer's hidden states, each (rows, length, H)."""
        return tuple(self._run(batch, reach, output_hidden_states=True).hidden_states)

    def _run(self, batch: TextBatch, reach: Reach, **options: Any) -> Any:
        length = batch.input_ids.shape[1]
        positions = reach.get("positions")
        if positions is None:
            positions = torch.arange(length, device=batch.input_ids.device).expand_as(
                batch.input_ids
            )
        positions = positions + (self.first_position + reach.get("position_offset", 0))
        if reach.get("prefix") is not None:
            options["prefix"] = reach["prefix"]
        if self._where is not None and self._one_position:
            options["only"] = OnePosition(self._where, self.model.config.num_hidden_layers - 1)
        self.reach = reach
        try:
            return self.model(
                input_ids=batch.input_ids,
                attention_mask=batch.attention_mask,
                position_ids=positions,
                **options,
            )
        finally:
            self.reach = {}

    def _hook_last_layer(self) -> None:
        """After the last layer's attention, `at` goes on with one position alone."""
        layers = getattr(getattr(self.model, "encoder", None), "layer", None)
        attention: Any = None if layers is None else getattr(layers[-1], "attention", None)
        self._one_position = hasattr(attention, "self") and hasattr(attention, "output")
        if self._one_position:
            attention.self.register_forward_hook(self._keep_attended)
            attention.output.register_forward_pre_hook(self._keep_residual)

    def _keep_attended(self, _module: nn.Module, _inputs: Any, output: Any) -> Any:
        return None if self._where is None else (select(output[0], self._where), *output[1:])

    def _keep_residual(self, _module: nn.Module, inputs: tuple[Tensor, Tensor]) -> Any:
        return None if self._where is None else (inputs[0], select(inputs[1], self._where))

    def _put_words(self, _module: nn.Module, _inputs: Any, output: Tensor) -> Tensor | None:
        words = self.reach.get("words")
        if words is None:
            return None
        index = words.positions.unsqueeze(-1).expand(-1, -1, output.shape[-1])
        return output.scatter(1, index, words.vectors.to(output.dtype).expand_as(index))

    def _edit_embedding(self, _module: nn.Module, _inputs: Any, output: Tensor) -> Tensor | None:
        edit = self.reach.get("edit")
        return None if edit is None else edit(output)


def first_replaced(vectors: Tensor) -> Callable[[Tensor], Tensor]:
    """An `edit` that puts vectors (rows, H) over position 0 of the embedding output (diffcse.md, section 1.3)."""
    return lambda output: torch.cat([vectors.to(output.dtype)[:, None], output[:, 1:]], dim=1)
