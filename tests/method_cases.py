"""Configurations of all methods whose computation is compared with a reference."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from harness.data.batching import Stream, StreamOptions, TextBatch, pad
from harness.encoders.backbone import Encoder
from harness.modules.prompts import DeepPrompts
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.training.seeds import seed_everything

CASES: list[tuple[str, dict[str, Any]]] = [
    ("simcse", {}), ("simcse", {"setting": "sup", "head": "batchnorm"}),
    ("simcse", {"setting": "semisup"}),
    ("simcse", {"masked_language_weight": 0.1, "masking_ratio": 0.5}), ("simcse", {"lora_rank": 2}),
    ("esimcse", {"queue_ratio": 2.0}),
    ("consert", {"setting": "sup", "first_view": "adversarial", "second_view": "shuffle"}),
    ("consert", {"first_view": "token-cutoff", "second_view": "feature-cutoff"}),
    ("consert", {"first_view": "dropout", "second_view": "none"}), ("sbert", {}), ("angle", {}),
    ("scored_pairs", {}), ("scored_pairs", {"objective": "cosent"}), ("ct", {"negatives": 4}),
    ("rankcse", {}), ("sncse", {}), ("mixcse", {}), ("whitenedcse", {}), ("pcl", {}),
    ("infocse", {}), ("vascl", {}), ("cotbert", {"accumulation": 1}),
    ("cotbert", {"denoising": "released", "accumulation": 1}), ("dclr", {}), ("arccse", {}),
    ("isbert", {}), ("promptbert", {}), ("prompteol", {"setting": "sup", "lora_rank": 2}),
    ("echo", {"setting": "sup", "lora_rank": 2}),
    ("llm2vec", {"lora_rank": 2, "encoder_dropout": 0.0}), ("promptbert", {"setting": "sup"}),
    ("promptbert", {"setting": "semisup", "denoising": "released"}),
    ("dcpcse", {"mlm": True, "masking_ratio": 0.5}), ("dcpcse", {"prompts": "shallow"}),
    ("dcpcse", {"prompts": "layer-shared", "setting": "sup", "hinge_weight": 10.0}),
    ("dcpcse", {"prompts": "input-layer"}), ("d2cse", {}),
    ("d2cse", {"cls_prompt": True, "rtd_reduction": "mean_nonpad"}),
    ("d2cse", {"setting": "sup", "discriminator": "copy", "rtd_reduction": "sum"}), ("diffcse", {}),
    ("diffcse", {"rtd_reduction": "mean_nonpad", "edit": "all"}),
    ("diffcse", {"setting": "sup", "objective": "corrective"}),
    ("diffcse", {"objective": "masked-language"}), ("diffcse", {"objective": "negatives"}),
    ("diffaug", {}), ("diffaug", {"views": "same", "denoising": "released"}),
    ("diffaug", {"setting": "sup", "augmentation": "lora", "accumulation": 1}),
    ("diffaug", {"augmentation": "adapter", "combination": "sum"}), ("clsr", {"batch_size": 20}),
    ("flow", {"pooling": "last-two"}), ("whitening", {"pooling": "first-last"}),
    ("pooling", {"pooling": "cls"}), ("pooling", {"pooling": "mean"}),
    ("pooling", {"pooling": "first-last-embeddings"}),
]  # fmt: skip
IDS = ["-".join([name, *map(str, options.values())]) for name, options in CASES]


def values_of(
    name: str, options: dict[str, Any], encoder: str, triplets: Path, pairs: Path
) -> dict[str, Any]:
    """The values of a case. All items of a corpus make a batch, however batches are drawn."""
    fields = registry.load(name).config_type.model_fields
    wanted = {
        "batch_size": 50, "stage1_batch_size": 20, "auxiliary_batch_size": 20, "epochs": 1,
        "pairs": str(triplets if name == "clsr" else pairs), "corpus": str(triplets),
        "scored_pairs": f"{pairs}?first=premise&second=hypothesis&score=label",
        "encoder": encoder, "stage1_steps": 3, "prompt_length": 3,
        "teacher": encoder, "second_teacher": encoder,
    }  # fmt: skip
    return {field: value for field, value in wanted.items() if field in fields} | options


def mixed(kit: Kit, method: Any) -> TextBatch:
    """Sentences of one token up to twelve, in the template of the method."""
    template = method.evaluation_template
    generator = torch.Generator().manual_seed(0)
    rows = [
        torch.randint(5, 30, (length,), generator=generator).numpy() for length in (7, 1, 12, 3)
    ]
    ids, mask = pad(rows, template, kit.tokenizer.pad_token_id)
    return TextBatch(ids, mask, torch.arange(len(rows)))


def without_dropout(kit: Kit) -> Any:
    """The method without dropout, which would draw other numbers than its reference does."""
    seed_everything(0)
    method = kit.build()
    for module in method.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, DeepPrompts) or type(module).__name__ == "PrefixModules":
            module.dropout = 0.0
        if isinstance(module, Encoder):
            module.checks_views = False
    return method


def grouped(kit: Kit, method: Any) -> TextBatch:
    """A grouped batch of six items that is shorter than the shuffled one in its place."""
    (corpus,) = kit.declared.corpora.values()
    options = StreamOptions(limit=30, batch_size=6, seed=0, batching="grouped")
    endless = Stream(kit.tokens(corpus), method.template, options)
    return next(batch for batch in endless if batch.shuffled_length > batch.input_ids.shape[1])
