"""A pretrained encoder of transformers, with the attention of this package."""

from typing import Any

import torch
import transformers

from harness.data.hub import model_folder, model_shape
from harness.errors import UserError, explained


def pretrained_model(name: str, dropout: float | None) -> Any:
    """The model of transformers, in float32.

    dropout: 0 to 1, in every layer; None: the model's own. Raises UserError when it is not a
    complete encoder.
    """
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
