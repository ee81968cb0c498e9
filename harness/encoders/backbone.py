"""A pretrained bidirectional encoder, with the places where methods reach into it.

A method can put key/value pairs in front of every layer's own (deep prompts, prefixes), move the
positions of the tokens, put vectors in the place of word embeddings, change the output of the
embedding layer, and mix adapter modules in. Anything that transformers loads as an encoder with an
`embeddings` module works. Nothing in its code is copied or changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import torch
import transformers
from torch import Tensor, nn

from harness.data.batching import TextBatch
from harness.data.hub import model_folder, model_shape
from harness.encoders.attention import KeyValues, OnePosition, select
from harness.encoders.trained import load_trained
from harness.errors import UserError, explained

EmbeddingEdit = Callable[[Tensor], Tensor]
"""Embedding output (rows, length, H) -> the output that the first layer reads instead"""


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


class Encoder(nn.Module):
    """A pretrained encoder. Its weights are float32. Every forward pass numbers the positions.

    H is the width of its hidden states.
    """

    def __init__(
        self, name: str, *, dropout: float | None = None, checkpointing: bool = False
    ) -> None:
        """Load the model.

        name: as on the Hub, a folder, or an encoder that a trial has trained. dropout: 0 to 1, in
        every layer; None: the model's own. checkpointing: compute activations a second time in the
        backward pass instead of keeping them. Raises UserError when the model cannot be loaded as
        an encoder.
        """
        super().__init__()
        self.name = name
        self.model = _pretrained(name, dropout)
        load_trained(self.model, name)
        self.reach: Reach = {}
        """Of the forward pass that is running"""
        self._where: Tensor | int | None = None
        """The position that `at` wants from the running forward pass; None: all"""
        self.checkpointing = checkpointing
        if checkpointing:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
        # Hooks, because transformers has no arguments for these places.
        self._hook_last_layer()
        self.model.get_input_embeddings().register_forward_hook(self._put_words)
        self.model.embeddings.register_forward_hook(self._edit_embedding)

    @property
    def hidden_size(self) -> int:
        """Width H of the hidden states."""
        return int(self.model.config.hidden_size)

    @property
    def longest(self) -> int:
        """The most tokens of a row: as many as there are position embeddings."""
        return int(self.model.config.max_position_embeddings) - self.first_position

    @property
    def first_position(self) -> int:
        """Number of the first position: 0 in BERT.

        The relatives of RoBERTa start behind their padding_idx, which their embeddings keep.
        """
        padding = getattr(self.model.embeddings, "padding_idx", None)
        return 0 if padding is None else int(padding) + 1

    def forward(self, batch: TextBatch, **reach: Unpack[Reach]) -> Tensor:
        """Hidden states of the last layer, (rows, length, H)."""
        states: Tensor = self._run(batch, reach).last_hidden_state
        return states

    def at(self, batch: TextBatch, where: Tensor | int, **reach: Unpack[Reach]) -> Tensor:
        """The last layer's state at one position of every row, (rows, H).

        where: (rows,), or one position for all rows. The result is that of
        `forward(...)[:, where]`, at a lower price: in the families of BERT and RoBERTa the last
        layer then works on that position alone (its keys and values are still those of all
        positions). This is exact and saves most of a layer.
        """
        if self.checkpointing and self.training:
            # The backward pass computes the layer again, when `_where` is not set any more.
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
        """The embedding output, then the hidden states of every layer, each (rows, length, H)."""
        return tuple(self._run(batch, reach, output_hidden_states=True).hidden_states)

    def _run(self, batch: TextBatch, reach: Reach, **options: Any) -> Any:
        positions = reach.get("positions")
        if positions is None:
            row = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
            positions = row.expand_as(batch.input_ids)
        # Always given, so that the numbering does not depend on the family of the encoder.
        positions = positions + (self.first_position + reach.get("position_offset", 0))
        if reach.get("prefix") is not None:
            options["prefix"] = reach["prefix"]
        if self._where is not None and self._one_position:
            options["only"] = OnePosition(self._where, self.model.config.num_hidden_layers - 1)
        # The hooks read `self.reach`, because they cannot be given arguments of a forward pass.
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
        # Other families name these parts differently; for them `at` selects from all positions.
        self._one_position = hasattr(attention, "self") and hasattr(attention, "output")
        if self._one_position:
            attention.self.register_forward_hook(self._keep_attended)
            # The residual connection around the attention must shrink as well.
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


def first_replaced(vectors: Tensor) -> EmbeddingEdit:
    """An edit that puts vectors (rows, H) over position 0 of the embedding output.

    The vectors keep their gradient (diffcse.md, section 1.3).
    """
    return lambda output: torch.cat([vectors.to(output.dtype)[:, None], output[:, 1:]], dim=1)


def _pretrained(name: str, dropout: float | None) -> Any:
    """The model of transformers. Raises UserError when it is not a complete encoder."""
    with explained(f'encoder "{name}" cannot be loaded: '):
        model, loading = _loaded(name, dropout)
    # transformers would fill what is missing with random numbers and go on. A pooler may be
    # missing: no method reads it.
    missing = sorted(key for key in loading["missing_keys"] if not key.startswith("pooler."))
    if missing:
        some = ", ".join(missing[:3])
        raise UserError(f'encoder "{name}" is incomplete (missing weights: {some})')
    if not hasattr(model, "embeddings"):
        raise UserError(
            f'encoder "{name}" ({model.config.model_type}) is not a bidirectional encoder: '
            f"it has no embeddings"
        )
    return model


def _loaded(name: str, dropout: float | None) -> tuple[Any, dict[str, Any]]:
    """The model of transformers, and what transformers says about loading it."""
    # The models of transformers take seconds to import, and `import transformers` takes none.
    from harness.encoders.prefix_attention import ATTENTION

    folder = model_folder(name)
    model_shape(name)  # it refuses sizes with which transformers fails without a clear word
    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    if dropout is not None:
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
    # BERT's own pooler (dense and tanh on [CLS]) is not part of any method here.
    has_pooler = config.model_type in ("bert", "roberta", "xlm-roberta")
    model, loading = transformers.AutoModel.from_pretrained(
        folder,
        config=config,
        attn_implementation=ATTENTION,
        dtype=torch.float32,
        use_safetensors=True,
        trust_remote_code=False,
        output_loading_info=True,
        **({"add_pooling_layer": False} if has_pooler else {}),
    )
    return model, loading
