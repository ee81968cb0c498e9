"""Tiny random models of many families, with the tokenizer of the embedded model."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, processors

from harness.data.hub import EMBEDDED

TOKENIZER = EMBEDDED / "models" / "tiny-bert" / "tokenizer.json"
WIDTH, LAYERS, HEADS, SIZE = 32, 2, 4, 8
SIZES = {
    "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "intermediate_size": 48, "max_position_embeddings": 66, "initializer_range": 0.2,
}  # fmt: skip
DISTILBERT = {
    "dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": 48,
    "max_position_embeddings": 66, "initializer_range": 0.2,
}  # fmt: skip


DEBERTA_V3 = {
    "relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"],
    "norm_rel_ebd": "layer_norm", "share_att_key": True, "position_biased_input": False,
    "type_vocab_size": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Architecture:
    """A family of transformers, as a small model of it is made."""

    kind: str
    """`model_type`"""
    own: dict[str, Any] = field(default_factory=dict)
    """Differences from `SIZES`"""
    sizes: dict[str, Any] = field(default_factory=SIZES.copy)
    decoder: bool = False


GROUPED = {"num_key_value_heads": 2}
ARCHITECTURES = {
    "BERT": Architecture("bert"),
    "RoBERTa": Architecture("roberta"),
    "XLM-R": Architecture("xlm-roberta"),
    "DistilBERT": Architecture("distilbert", sizes=DISTILBERT),
    "MPNet": Architecture("mpnet"),
    "DeBERTa-v3": Architecture("deberta-v2", DEBERTA_V3),
    "ELECTRA": Architecture("electra", {"embedding_size": 16}),
    "ALBERT": Architecture("albert", {"embedding_size": 16}),
    "ModernBERT": Architecture("modernbert", {"local_attention": 8}),
    "Llama": Architecture("llama", GROUPED, decoder=True),
    "Qwen2": Architecture("qwen2", GROUPED, decoder=True),
    "Qwen3": Architecture("qwen3", {**GROUPED, "head_dim": 2 * SIZE}, decoder=True),
    "Gemma": Architecture("gemma", {"num_key_value_heads": 1, "head_dim": SIZE}, decoder=True),
    "Gemma 3": Architecture(
        "gemma3_text",
        {**GROUPED, "head_dim": SIZE, "sliding_window": 8, "query_pre_attn_scalar": SIZE},
        decoder=True,
    ),
    "Mistral": Architecture("mistral", {**GROUPED, "sliding_window": 8}, decoder=True),
}
"""Name in docs/methods.md -> the family"""


def save(name: str, folder: Path, seed: int = 0, **changed: Any) -> Path:
    """Write a random model of an architecture with its tokenizer; changed: of its configuration."""
    family = ARCHITECTURES[name]
    backend = Tokenizer.from_file(str(TOKENIZER))
    sizes = {"vocab_size": backend.get_vocab_size(), "pad_token_id": 0, **family.sizes}
    config = transformers.AutoConfig.for_model(family.kind, **{**sizes, **family.own, **changed})
    torch.manual_seed(seed)
    kind: Any = transformers.AutoModelForMaskedLM
    if family.decoder:
        kind = transformers.AutoModelForCausalLM
    kind.from_config(config).save_pretrained(folder)
    _tokenizer(family, backend).save_pretrained(folder)
    return folder


def _tokenizer(family: Architecture, backend: Tokenizer) -> Any:
    """Tokenizer of the embedded model; a decoder's lacks padding, and only Qwen no beginning."""
    if not family.decoder:
        return transformers.PreTrainedTokenizerFast(
            tokenizer_object=backend, cls_token="[CLS]", pad_token="[PAD]", sep_token="[SEP]",
            unk_token="[UNK]", mask_token="[MASK]",
        )  # fmt: skip
    begins = not family.kind.startswith("qwen")
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A" if begins else "$A",
        special_tokens=[("[CLS]", backend.token_to_id("[CLS]"))],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="[CLS]" if begins else None, eos_token="[SEP]",
        unk_token="[UNK]",
    )  # fmt: skip
