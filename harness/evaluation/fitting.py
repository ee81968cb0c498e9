"""Whether texts fit into an encoder: word pieces into embeddings, and rows into positions."""

from typing import Any

import numpy as np
import transformers

from harness.data.tokenizers import check_embedded
from harness.errors import UserError
from harness.plugin.kit import Kit
from harness.plugin.method import Method


def check_embeds(method: Method[Any], kit: Kit) -> None:
    """Raise UserError when a word piece has no embedding, or no sentence fits into a template."""
    model, name = _language_model(method), kit.config.encoder
    if model is None:
        return  # such as word vectors
    check_embedded(name, method.tokenizer, int(model.config.vocab_size))
    around = len(method.evaluation_template)
    if around >= method.longest:
        raise UserError(
            f'encoder "{name}" has room for {method.longest} tokens, and {around} stand around '
            f"every sentence: choose a shorter template, or shorter prompts"
        )


def check_trains(method: Method[Any], kit: Kit) -> None:
    """Raise UserError when a text of a corpus, cut as configured, has more tokens than positions.

    The corpora are tokenised, if they are not yet.
    """
    declared = kit.declared
    read = {name for stage in declared.stages if stage.batches.text for name in stage.streams}
    if not read or _language_model(method) is None:
        return
    for corpus in sorted({declared.corpora[name] for name in read}):
        lengths = kit.tokens(corpus, method.template).item_lengths(method.training_pieces)
        tokens = int(np.max(lengths, initial=0)) + len(method.template)
        if tokens > method.longest:
            raise UserError(
                f"{corpus} has texts of {tokens} tokens (max_length), and encoder "
                f'"{kit.config.encoder}" has room for {method.longest}: its positions, less those '
                f"that prompts take. Lower max_length by {tokens - method.longest}"
            )


def _language_model(method: Method[Any]) -> Any:
    """The model of transformers in the encoder of a method; None where there is none."""
    encoder: Any = getattr(method, "encoder", None)
    parts = encoder.modules() if hasattr(encoder, "modules") else ()
    return next((part for part in parts if isinstance(part, transformers.PreTrainedModel)), None)
