"""The lower case that a folder of sentence-transformers may ask for."""

from tokenizers.normalizers import Lowercase, Sequence
from transformers import PreTrainedTokenizerFast


def add_lower_case(tokenizer: PreTrainedTokenizerFast) -> None:
    """Let a tokenizer read lower case, as the library does where the folder asks for it."""
    backend = tokenizer.backend_tokenizer
    own = [backend.normalizer] if backend.normalizer else []
    backend.normalizer = Sequence([Lowercase(), *own])
