"""Masked language models: the frozen generator of DiffCSE and D2CSE, and a vocabulary head."""

from typing import Any, Self

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

from harness.data.hub import model_folder, model_shape
from harness.encoders.families import has_masked_lm
from harness.encoders.plain_attention import replace_dropout
from harness.encoders.unpadding import first_position, layout_of, unpads
from harness.errors import UserError, explained

ROWS_AT_ONCE = 32
"""Rows whose vocabulary logits exist at the same time. Those of all rows would be the largest
tensor of a training step."""


class Generator(nn.Module):
    """A masked language model without gradients, which writes plausible word pieces.

    Its dropout is on while the method trains, as in the released code, unless `dropout` is False
    (diffcse.md, section 1.2).
    """

    def __init__(self, name: str, vocabulary_size: int, *, dropout: bool = True) -> None:
        """Load the model.

        vocabulary_size: of the encoder. Raises UserError when the model has no masked-LM head or
        has another number of word pieces than the encoder.
        """
        super().__init__()
        self.dropout = dropout
        self.model = load_masked_lm(name, "generator")
        # Ids of another vocabulary would be other words, or out of range.
        if self.model.config.vocab_size != vocabulary_size:
            raise UserError(
                f'generator "{name}" has {self.model.config.vocab_size} word pieces and the '
                f"encoder has {vocabulary_size}: they must share a tokenizer"
            )
        self.requires_grad_(False)
        replace_dropout(self.model)
        self.unpads = unpads(self.model.config)
        """Whether padding is left out of forward passes"""
        if self.unpads:
            from harness.encoders.prefix_attention import ATTENTION  # it takes seconds to import

            self.model.set_attn_implementation(ATTENTION)

    def train(self, mode: bool = True) -> Self:
        """Training mode only where dropout is wanted: nothing else in the model depends on it."""
        return super().train(mode and self.dropout)

    @torch.no_grad()
    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, host_mask: Tensor | None = None
    ) -> Tensor:
        """The most probable piece at every real token; all tensors are (rows, length).

        host_mask: the mask in the memory of the CPU. Without it the CPU waits for a GPU.
        """
        known = attention_mask.cpu() if host_mask is None else host_mask
        parts = zip(
            *(torch.split(each, ROWS_AT_ONCE) for each in (input_ids, attention_mask, known)),
            strict=True,
        )
        return torch.cat([self._best(*part) for part in parts])

    def _best(self, input_ids: Tensor, attention_mask: Tensor, host_mask: Tensor) -> Tensor:
        layout = layout_of(attention_mask, unpad=self.unpads, host_mask=host_mask)
        arguments = layout.arguments
        if self.unpads:  # tokens that follow one another in memory do not show where they stand
            positions = torch.arange(input_ids.shape[1], device=input_ids.device)
            positions = positions + first_position(self.model.base_model)
            arguments["position_ids"] = layout.tokens(positions.expand_as(input_ids))
        logits: Tensor = self.model(input_ids=layout.tokens(input_ids), **arguments).logits
        # `max` is four times as fast as `argmax` on a CPU in bf16.
        return layout.padded(logits.max(dim=-1).indices)


class VocabularyHead(nn.Module):
    """The masked-LM head of a checkpoint: dense, GELU, LayerNorm, then logits of all word pieces.

    Its output matrix is a copy and not tied to the embeddings of any encoder, as in the released
    code of SimCSE and DCPCSE.
    """

    def __init__(self, name: str, *, empty: bool = False) -> None:
        """Load the head of the model `name`. Raises UserError when the checkpoint has none.

        empty: read no weights, because they are set afterwards.
        """
        super().__init__()
        model = load_masked_lm(name, "encoder", empty=empty)
        decoder = model.get_output_embeddings()
        words = model.get_input_embeddings().weight
        head = model.cls.predictions if hasattr(model, "cls") else getattr(model, "lm_head", None)
        if decoder is None or head is None:
            raise UserError(
                f'encoder "{name}" ({model.config.model_type}) has a masked-LM head of another '
                f"kind than BERT and RoBERTa: choose an encoder of their families"
            )
        # BERT's head has this part as a module of its own, RoBERTa's has not.
        bert = hasattr(head, "transform")
        self.transform: Any = head.transform if bert else _RobertaTransform(head)
        self.decoder = nn.Linear(words.shape[1], words.shape[0])
        with torch.no_grad():
            # From the embeddings, because a checkpoint may leave the tied output matrix out.
            self.decoder.weight.copy_(words)
            self.decoder.bias.copy_(decoder.bias)

    def forward(self, states: Tensor) -> Tensor:
        """(..., H) -> logits (..., vocabulary)."""
        logits: Tensor = self.decoder(self.transform(states))
        return logits


class _RobertaTransform(nn.Module):
    """RoBERTa's head without its decoder, (..., H) -> (..., H)."""

    def __init__(self, head: Any) -> None:
        super().__init__()
        self.dense, self.layer_norm = head.dense, head.layer_norm

    def forward(self, states: Tensor) -> Tensor:
        normalised: Tensor = self.layer_norm(functional.gelu(self.dense(states)))
        return normalised


def load_masked_lm(name: str, role: str, *, empty: bool = False) -> Any:
    """A pretrained masked language model of transformers, in float32.

    role: what the model is for, in error messages. empty: read no weights. Raises UserError when
    the model cannot be loaded or has no masked-LM head.
    """
    shape = model_shape(name)  # it refuses sizes with which transformers fails without a clear word
    if not has_masked_lm(shape):
        raise UserError(
            f'{role} "{name}" ({shape.get("model_type")}) is no masked language model: choose an '
            f"encoder such as BERT, or a method without one"
        )
    with explained(f'{role} "{name}" cannot be loaded: '):
        if empty:
            config = transformers.AutoConfig.from_pretrained(
                model_folder(name), trust_remote_code=False
            )
            return transformers.AutoModelForMaskedLM.from_config(config, trust_remote_code=False)
        model, loading = transformers.AutoModelForMaskedLM.from_pretrained(
            model_folder(name),
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    if loading["missing_keys"]:
        # transformers would fill what is missing with random numbers and go on.
        missing = ", ".join(sorted(loading["missing_keys"])[:3])
        raise UserError(f'{role} "{name}" has no masked-LM head (missing weights: {missing})')
    return model
