"""Small random models of a family, rows of several lengths, and prompts for them."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel

from harness.data.batching import TextBatch
from harness.encoders.reach import KeyValues

LENGTHS = [9, 2, 12, 1, 9, 5, 12]
ROWS, LONGEST, WIDTH, HEADS, LAYERS = len(LENGTHS), max(LENGTHS), 32, 4, 2
SIZES = {
    "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "intermediate_size": 48, "vocab_size": 60, "max_position_embeddings": 40, "pad_token_id": 1,
    "initializer_range": 0.2,
}  # fmt: skip
OTHER_NAMES: dict[str, dict[str, Any]] = {
    "distilbert": {
        "dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": 48, "dropout": 0.0,
        "attention_dropout": 0.0,
    }
}  # fmt: skip


def text(lengths: list[int] = LENGTHS) -> TextBatch:
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(5, 30, mask.shape, generator=torch.Generator().manual_seed(0))
    return TextBatch(torch.where(mask.bool(), ids, 1), mask, torch.arange(len(lengths)))


def ends(batch: TextBatch) -> Tensor:
    """The last real position of each row."""
    places = torch.arange(batch.input_ids.shape[1])
    return (places * batch.attention_mask).amax(dim=1)


def random_model(family: str, folder: Path, **options: Any) -> Path:
    """A small random model of a family, without dropout."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**SIZES, **OTHER_NAMES.get(family, {}), **options})
    AutoModel.from_config(config).save_pretrained(folder)
    return folder


def prefix_of(visible: bool) -> tuple[KeyValues, list[Tensor]]:
    """Prompts of ROWS rows, and their tensors. visible: whether each row sees some alone."""
    torch.manual_seed(1)
    shape = (ROWS, HEADS, 3, WIDTH // HEADS)
    made = [torch.randn(shape, requires_grad=True) for _ in range(2 * LAYERS)]
    seen = torch.rand(ROWS, 3) < 0.5 if visible else None
    return KeyValues(tuple(made[:LAYERS]), tuple(made[LAYERS:]), seen), made
