"""Differences between the families of transformers. The model is asked, not a list of names."""

import functools
import inspect
import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from torch import nn

from harness.data.tokens import LONGEST
from harness.encoders.unpadding import first_position
from harness.errors import UserError

HIDDEN_DROPOUTS = (
    "hidden_dropout_prob", "dropout", "hidden_dropout", "resid_pdrop", "dropout_rate",
    "mlp_dropout", "attention_dropout",
)  # fmt: skip
"""Names that families have for the dropout of their hidden states; the first that is there counts,
and a family that drops nothing there may still drop attention"""
_DROPOUT = re.compile("dropout|pdrop")
_RELATIVE = ("relative_attention", "relative_attention_num_buckets")
"""Keys of a configuration whose model counts the distances between tokens by itself"""
_EMBEDDING_OUTPUTS = ("embeddings_project", "encoder.embedding_hidden_mapping_in", "embeddings")
"""Modules whose output the first layer reads; ELECTRA and ALBERT widen their embeddings"""


def is_decoder(shape: Mapping[str, Any]) -> bool:
    """Whether a model was pretrained to see no later tokens, as far as its config.json says.

    A family is one of decoders where transformers has it as a causal language model and not as a
    masked one.
    """
    causal, masked = _language_models()
    kind = shape.get("model_type")
    return bool(shape.get("is_decoder")) or (kind in causal and kind not in masked)


def has_masked_lm(shape: Mapping[str, Any]) -> bool:
    """Whether the family of a model, as its config.json names it, has masked language models."""
    return shape.get("model_type") in _language_models()[1]


@functools.cache
def _language_models() -> tuple[frozenset[str], frozenset[str]]:
    """The families that transformers has as causal language models, and as masked ones."""
    # It takes seconds to import, and what only reads configurations seldom needs it.
    from transformers.models.auto import modeling_auto

    return (
        frozenset(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
        frozenset(modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES),
    )


def check_text_encoder(name: str, config: Any) -> None:
    """Raise UserError for a model that cannot read one text. config: of transformers."""
    kind = f'model "{name}" ({config.model_type})'
    if config.is_encoder_decoder:
        raise UserError(
            f"{kind} is an encoder and a decoder in one: choose an encoder such as BERT, or a "
            f"decoder such as Llama"
        )
    if config.get_text_config() is not config or not hasattr(config, "vocab_size"):
        raise UserError(f"{kind} does not read text alone: choose a text model")


def set_dropout(config: Any, rate: float) -> None:
    """Set every dropout of a configuration of transformers, whatever its family calls it.

    rate: 0 to 1. Raises UserError when the family has none to set.
    """
    names = [
        name
        for name, value in config.to_dict().items()
        if _DROPOUT.search(name) and _is_rate(value)
    ]
    if rate and not names:
        raise UserError(f"encoder_dropout = {rate}: a {config.model_type} has no dropout")
    for name in names:
        setattr(config, name, rate)


def _is_rate(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def takes_our_attention(model: Any) -> bool:
    """Whether the model computes its attention with a function that transformers lets us choose.

    MPNet and DeBERTa compute their own, and Gemma 2 computes what SDPA cannot.
    """
    return bool(model._supports_sdpa and model._can_set_attn_implementation())


def attentions(model: nn.Module) -> list[nn.Module]:
    """The modules that compute the self-attention of the layers, in their order."""
    return [module for module in model.modules() if hasattr(module, "is_causal")]


def embedding_output(model: Any) -> nn.Module:
    """The module that gives what the first layer reads, (rows, length, H)."""
    named = dict(model.named_modules())
    output: nn.Module = next(
        # Decoders read their word embeddings as they are.
        (named[path] for path in _EMBEDDING_OUTPUTS if path in named),
        model.get_input_embeddings(),
    )
    return output


class EncoderFamily:
    """Changes for which a model of transformers has a place."""

    def __init__(self, name: str, model: Any) -> None:
        """name: of the encoder. model: of transformers."""
        config = model.config
        self._who = f'encoder "{name}" ({config.model_type})'
        self.decoder = is_decoder(config.to_dict())
        """Whether it was pretrained to see no later tokens"""
        self.our_attention = takes_our_attention(model)
        """Whether the attention of this package runs in it"""
        names = inspect.signature(type(model).forward).parameters
        self.takes_positions = "position_ids" in names
        """Whether a forward pass can be told where the tokens stand"""
        self.first_position = first_position(model) or _first_in_buffer(model)
        """Number of the first position: 0 in BERT"""
        positions = int(getattr(config, "max_position_embeddings", None) or -1)
        self.longest = positions - self.first_position if positions > 0 else LONGEST
        """The most tokens of a row: as many as there are positions, if they are numbered"""
        rates = [getattr(config, name, None) for name in HIDDEN_DROPOUTS]
        self.dropout: float = next((float(rate) for rate in rates if _is_rate(rate)), 0.0)
        """Rate for the hidden states, 0 to 1"""
        self._relative = any(getattr(config, name, False) for name in _RELATIVE)
        self._no_prefix = _why_no_prefix(model, ours=self.our_attention)

    def need_prefix(self, parts: str) -> None:
        """Raise UserError unless keys and values can stand in front of each layer's own.

        parts: what they are, in the plural.
        """
        if self._no_prefix:
            raise UserError(
                f"{parts} have no place in {self._who}, {self._no_prefix}: choose an encoder such "
                f"as BERT, DistilBERT, ModernBERT or Llama, or a method without them"
            )

    def need_positions(self, cause: str, instead: str) -> None:
        """Raise UserError unless the positions of the tokens can be moved.

        cause: what moves them, with its verb. instead: what would work.
        """
        if self._relative or not self.takes_positions:
            raise UserError(
                f"{cause} the positions of tokens, whose distances {self._who} counts by itself: "
                f"{instead}"
            )


def _why_no_prefix(model: Any, *, ours: bool) -> str | None:
    """Why keys and values cannot stand in front of each layer's own; None: they can."""
    if not ours:
        return "which computes its attention in a way of its own"
    numbers = {getattr(attention, "layer_idx", None) for attention in attentions(model)}
    if numbers != set(range(model.config.num_hidden_layers)):
        return "whose layers do not have an attention each"
    # Multi-head latent attention has keys and values of other sizes.
    return "which compresses its keys" if hasattr(model.config, "kv_lora_rank") else None


def _first_in_buffer(model: Any) -> int:
    """Number of the first position in an embedding module that has all numbers, or else 0.

    Nystromformer counts from 2.
    """
    numbers = getattr(getattr(model, "embeddings", None), "position_ids", None)
    return 0 if numbers is None or numbers.is_meta else int(numbers.flatten()[0])


def key_shape(config: Any) -> tuple[int, int, int]:
    """Layers, heads of keys and values in each, and size of such a head.

    Heads of queries may share those of keys and values (grouped-query attention).
    """
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(config.num_hidden_layers), int(heads), int(size)


def number_attentions(model: nn.Module) -> None:
    """Number the attentions of a family that does not, so that prompts find their layer."""
    for number, attention in enumerate(attentions(model)):
        if not hasattr(attention, "layer_idx"):
            vars(attention)["layer_idx"] = number  # torch's types know no such attribute
