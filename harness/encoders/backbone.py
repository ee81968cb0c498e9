"""A pretrained bidirectional encoder, with the three places where methods reach into it.

Key/value pairs in front of every layer's own (deep prompts, prefixes), a vector instead of the first token's word
embedding, and a vector instead of the first position of the embedding output. Anything that transformers loads as an
encoder with an `embeddings` module works; nothing in its code is copied or changed.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, AutoConfig, AutoModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from harness.data.batching import TextBatch
from harness.data.hub import model_folder
from harness.errors import UserError

ATTENTION = "prefix_sdpa"


@dataclass(frozen=True)
class KeyValues:
    """Keys and values that stand in front of a layer's own, for every layer."""

    keys: tuple[Tensor, ...]
    """One per layer, (rows, heads, prompts, head size)"""
    values: tuple[Tensor, ...]
    visible: Tensor | None = None
    """(rows, prompts) bool: which of them a row sees; None: all"""

    @property
    def length(self) -> int:
        """Number of prompt positions."""
        return self.keys[0].shape[2]


def prefix_sdpa(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    prefix: KeyValues | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' SDPA with `prefix` in front of keys and values; queries stay those of the text.

    query, key, value: (rows, heads, length, head size); attention_mask: (rows, 1, length, length) bool or None.
    """
    if prefix is not None:
        layer: int = module.layer_idx  # type: ignore[assignment]
        rows, _, length, _ = query.shape
        key = torch.cat([prefix.keys[layer].to(key.dtype), key], dim=2)
        value = torch.cat([prefix.values[layer].to(value.dtype), value], dim=2)
        if attention_mask is not None or prefix.visible is not None:
            attention_mask = _widen(attention_mask, prefix, (rows, 1, length, length), query.device)
    attended, _ = sdpa_attention_forward(module, query, key, value, attention_mask, is_causal=False, **kwargs)
    return attended, None


def _widen(mask: Tensor | None, prefix: KeyValues, shape: tuple[int, int, int, int], device: torch.device) -> Tensor:
    """The mask with the prompt columns in front, (rows, 1, length, prompts + length)."""
    rows, _, length, _ = shape
    text = torch.ones(shape, dtype=torch.bool, device=device) if mask is None else mask.expand(rows, 1, length, -1)
    columns = (rows, 1, length, prefix.length)
    if prefix.visible is None:
        front = torch.ones(columns, dtype=torch.bool, device=device)
    else:
        front = prefix.visible[:, None, None, :].expand(columns)
    return torch.cat([front, text], dim=-1)


AttentionInterface.register(ATTENTION, prefix_sdpa)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)


class Encoder(nn.Module):
    """A pretrained encoder. Weights are float32; every forward numbers the positions itself."""

    def __init__(self, name: str) -> None:
        """`name`: as on the Hub, or a folder. Raises UserError when it cannot be loaded as an encoder."""
        super().__init__()
        self.name = name
        folder = model_folder(name)
        try:
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            options = {"add_pooling_layer": False} if config.model_type in ("bert", "roberta", "xlm-roberta") else {}
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
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise UserError(f'encoder "{name}" cannot be loaded: {str(error).splitlines()[0]}') from error
        missing = sorted(key for key in loading["missing_keys"] if not key.startswith("pooler."))
        if missing:
            raise UserError(f'encoder "{name}" is incomplete (missing weights: {", ".join(missing[:3])})')
        if not hasattr(self.model, "embeddings"):
            raise UserError(f'encoder "{name}" ({config.model_type}) is no bidirectional encoder: it has no embeddings')
        self._word_slot: Tensor | None = None
        self._embedding_slot: Tensor | None = None
        self._first_only = False
        self._hook_last_layer()
        self.model.get_input_embeddings().register_forward_hook(self._put_word)
        self.model.embeddings.register_forward_hook(self._put_embedding)

    @property
    def hidden_size(self) -> int:
        """Width H of the hidden states."""
        return int(self.model.config.hidden_size)

    @property
    def longest(self) -> int:
        """Tokens that the position embeddings allow."""
        return int(self.model.config.max_position_embeddings) - self._first_position

    @property
    def _first_position(self) -> int:
        """RoBERTa's relatives keep a padding_idx in their embeddings and number from the one after it, BERT from 0."""
        padding = getattr(self.model.embeddings, "padding_idx", None)
        return 0 if padding is None else int(padding) + 1

    def forward(
        self,
        batch: TextBatch,
        *,
        prefix: KeyValues | None = None,
        position_offset: int = 0,
        first_word: Tensor | None = None,
        first_embedding: Tensor | None = None,
    ) -> Tensor:
        """Hidden states of the last layer, (rows, length, H).

        prefix: key/value pairs in front of every layer's.
        position_offset: added to every position (the released prompt methods shift the text by the prompt length).
        first_word: (H,), instead of the word embedding at position 0 (a [CLS] prompt).
        first_embedding: (rows, H), instead of the embedding output at position 0 (after LayerNorm and dropout).
        """
        states: Tensor = self._run(batch, prefix, position_offset, first_word, first_embedding).last_hidden_state
        return states

    def cls(
        self,
        batch: TextBatch,
        *,
        prefix: KeyValues | None = None,
        position_offset: int = 0,
        first_word: Tensor | None = None,
    ) -> Tensor:
        """The last layer's state at position 0, (rows, H): `forward(...)[:, 0]` at a lower price.

        In BERT's and RoBERTa's family the last layer then works on that position alone (its keys and values are of
        all positions), which is exact and saves most of a layer.
        """
        self._first_only = True
        try:
            return self.forward(batch, prefix=prefix, position_offset=position_offset, first_word=first_word)[:, 0]
        finally:
            self._first_only = False

    def layers(self, batch: TextBatch) -> tuple[Tensor, ...]:
        """The embedding output and every layer's hidden states, each (rows, length, H)."""
        output = self._run(batch, None, 0, None, None, output_hidden_states=True)
        return tuple(output.hidden_states)

    def _run(
        self,
        batch: TextBatch,
        prefix: KeyValues | None,
        position_offset: int,
        first_word: Tensor | None,
        first_embedding: Tensor | None,
        **options: Any,
    ) -> Any:
        length = batch.input_ids.shape[1]
        first = self._first_position + position_offset
        positions = torch.arange(first, first + length, device=batch.input_ids.device).expand_as(batch.input_ids)
        if prefix is not None:
            options["prefix"] = prefix
        self._word_slot, self._embedding_slot = first_word, first_embedding
        try:
            return self.model(
                input_ids=batch.input_ids, attention_mask=batch.attention_mask, position_ids=positions, **options
            )
        finally:
            self._word_slot = self._embedding_slot = None

    def _hook_last_layer(self) -> None:
        """After the last layer's attention, `cls` goes on with position 0 alone."""
        layers = getattr(getattr(self.model, "encoder", None), "layer", None)
        attention: Any = None if layers is None else getattr(layers[-1], "attention", None)
        if hasattr(attention, "self") and hasattr(attention, "output"):
            attention.self.register_forward_hook(self._keep_first_attended)
            attention.output.register_forward_pre_hook(self._keep_first_residual)

    def _keep_first_attended(self, _module: nn.Module, _inputs: Any, output: Any) -> Any:
        return (output[0][:, :1], *output[1:]) if self._first_only else None

    def _keep_first_residual(self, _module: nn.Module, inputs: tuple[Tensor, Tensor]) -> Any:
        return (inputs[0], inputs[1][:, :1]) if self._first_only else None

    def _put_word(self, _module: nn.Module, _inputs: Any, output: Tensor) -> Tensor | None:
        if self._word_slot is None:
            return None
        vector = self._word_slot.to(output.dtype).expand(output.shape[0], 1, -1)
        return torch.cat([vector, output[:, 1:]], dim=1)

    def _put_embedding(self, _module: nn.Module, _inputs: Any, output: Tensor) -> Tensor | None:
        if self._embedding_slot is None:
            return None
        return torch.cat([self._embedding_slot.to(output.dtype)[:, None], output[:, 1:]], dim=1)
