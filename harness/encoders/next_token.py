"""The head of a causal language model: logits of the piece that follows a token."""

from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

from harness.data.hub import model_folder
from harness.data.weight_contents import stored_in_bf16
from harness.encoders.pretrained import checkpoint_tensor
from harness.errors import UserError, explained

_OTHER_SCALES = ("logit_scale", "logits_scaling", "output_multiplier_scale")
"""Keys of configurations whose models change their logits in a way of their own"""


class NextTokenHead(nn.Module):
    """The output matrix of a decoder, as a copy that is not tied to the embeddings.

    `Stage.trains` says whether it trains.
    """

    def __init__(self, name: str, *, as_stored: bool = False, empty: bool = False) -> None:
        """Load the matrix of the model `name`, alone of all its weights.

        as_stored: keep it in bf16 where it is stored so. empty: read no weights, because they are
        set afterwards. Raises UserError when the checkpoint has none that is understood.
        """
        super().__init__()
        with explained(f'encoder "{name}" has no head of a language model: '):
            config = transformers.AutoConfig.from_pretrained(
                model_folder(name), trust_remote_code=False
            )
            with torch.device("meta"):
                model = transformers.AutoModelForCausalLM.from_config(
                    config, trust_remote_code=False
                )
        output, words = model.get_output_embeddings(), model.get_input_embeddings()
        if any(hasattr(config, key) for key in _OTHER_SCALES) or output.bias is not None:
            raise UserError(
                f'encoder "{name}" ({config.model_type}): how it makes logits is not known; those '
                f"of Llama, Qwen, Mistral and Gemma are"
            )
        # A tied matrix may be left out of the file, and one that is there does not count.
        key = _name_of(model, words if config.tie_word_embeddings else output)
        weight = torch.empty(output.weight.shape) if empty else checkpoint_tensor(name, key)
        if weight is None:
            raise UserError(f'encoder "{name}" has no head of a language model (missing: {key})')
        half = as_stored and not empty and stored_in_bf16(name)
        self.weight = nn.Parameter(weight if half else weight.float())
        self.largest: float | None = getattr(config, "final_logit_softcapping", None)

    def forward(self, states: Tensor) -> Tensor:
        """(..., H) -> logits (..., vocabulary)."""
        logits = functional.linear(states.to(self.weight.dtype), self.weight)
        return logits if self.largest is None else self.largest * (logits / self.largest).tanh()


def _name_of(model: Any, part: nn.Module) -> str:
    """The name of a part in the model, as its file has it without the prefix of the decoder."""
    path = next(path for path, module in model.named_modules() if module is part)
    return f"{path.removeprefix(f'{model.base_model_prefix}.')}.weight"
