"""Operations that a plan gives for a step are those that torch counts while the step runs."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.operations import Lengths, batch_operations, lengths_of, passes_of
from harness.plugin.resolution import resolve
from harness.training.feeding import made, stage_streams
from harness.training.parameters import trained_names
from harness.training.seeds import seed_everything
from tests.architectures import save
from tests.matrix import METHODS, rows

BATCH = 24
TEMPLATE = "of the {s} a [MASK] ."
"""Words that the embedded tokenizer knows"""
TRAINED = set(METHODS) - {"glove", "pooling", "sentence_transformer", "whitening"}
CASES = [
    *((f"{name} {setting}", {}) for name, setting in rows() if name in TRAINED),
    ("simcse unsup", {"masked_language_weight": 0.1}),
    ("simcse unsup", {"lora_rank": 4}),
    ("angle sup", {"scored_pairs": None}),
    ("prompteol sup", {"template": "the {s} a .\nof the {s} a ."}),
    ("echo sup", {"echo_pooling": "last-token"}),
    ("consert sup", {"first_view": "adversarial"}),
    ("dcpcse unsup", {"mlm": True}),
    ("dcpcse sup", {"prompts": "shallow", "template": TEMPLATE}),
    ("dcpcse sup", {"prompts": "layer-shared", "hinge_weight": 10.0}),
    ("dcpcse unsup", {"prompts": "input-layer"}),
    ("d2cse unsup", {"discriminator": "copy"}),
    ("d2cse unsup", {"discriminator": "plain", "rtd_reduction": "sum"}),
    ("diffcse unsup", {"objective": "negatives"}),
    ("diffcse unsup", {"objective": "corrective"}),
    ("diffcse unsup", {"objective": "masked-language"}),
    ("diffcse unsup", {"edit": "insert", "rtd_reduction": "mean_nonpad"}),
    ("diffaug semisup", {"augmentation": "lora"}),
    ("cotbert unsup", {"denoising": "positions"}),
    ("flow unsup", {"vector_dropout": False}),
    ("simcse sup", {"gradient_checkpointing": True}),
    ("diffcse unsup", {"gradient_checkpointing": True}),
]
SIZES = {
    "num_hidden_layers": 4, "hidden_size": 128, "intermediate_size": 512,
    "num_attention_heads": 4, "max_position_embeddings": 128,
}  # fmt: skip
VALUES: dict[str, Any] = {
    "precision": "fp32", "batch_size": BATCH, "stage1_batch_size": BATCH, "accumulation": 1,
    "auxiliary_batch_size": BATCH, "sentences": "graded-sentences", "triplets": "graded-triplets",
    "pairs": "graded-pairs", "corpus": "graded-pairs", "scored_pairs": "graded-scored-pairs",
    "suite": "graded", "second_template": TEMPLATE, "negative_template": TEMPLATE,
    "teacher": "tiny-bert",
    "second_teacher": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT of four layers, so that none of them is most of it."""
    return save("BERT", tmp_path_factory.mktemp("model") / "four-layers", **SIZES)


def kit_of(case: str, options: dict[str, Any], encoder: Path) -> Kit:
    """The kit of a method in a setting."""
    name, setting = case.split()
    plugin = registry.load(name)
    config = {**VALUES, "encoder": str(encoder), "generator": str(encoder), "setting": setting}
    if name == "clsr":
        config["pairs"] = "graded-triplets"
    if name != "dcpcse":
        config["template"] = "of the {s} a {s}" if name == "echo" else TEMPLATE
    fields = plugin.config_type.model_fields
    values = {key: value for key, value in config.items() if key in fields} | options
    return Kit(plugin.declare(resolve(plugin, values)), torch.device("cpu"))


def lengths_in(batch: Any, around: int) -> Lengths:
    """The word pieces of the texts of a batch."""
    pieces = (batch.attention_mask.sum(dim=1) - around).view(-1, batch.views)
    return lengths_of([column.tolist() for column in pieces.T])


def planned_shares(kit: Kit) -> dict[str, float]:
    """Stage -> the operations that are planned over those that torch counts in three steps."""
    seed_everything(0)
    method = kit.build().train()
    passes, shares = passes_of(kit.declared), {}
    for stage in kit.declared.stages:
        streams = stage_streams(method, kit, stage, seed=0)
        batches = made(method, stage, streams, 0)
        counted = planned = 0.0
        trained = set(trained_names(method, stage))
        for name, parameter in method.named_parameters():
            parameter.requires_grad_(name in trained)
        for _ in range(3):  # in the first one, a flow looks at its vectors
            batch = next(batches)
            with FlopCounterMode(display=False) as counter:
                losses = method.losses(batch, stage)
                torch.stack([losses[name] for name in stage.losses]).sum().backward()
            counted += counter.get_total_flops()
            lengths = {
                name: lengths_in(batch[name], len(method.template))
                if stage.batches.text
                else lengths_of([[1.0]])
                for name in stage.streams
            }
            planned += batch_operations(passes, stage, lengths)
        shares[stage.name] = planned / counted
    return shares


@pytest.mark.slow
@pytest.mark.parametrize(("case", "options"), CASES, ids=str)
def test_a_step_computes_what_is_planned(case: str, options: dict[str, Any], encoder: Path) -> None:
    for stage, share in planned_shares(kit_of(case, options, encoder)).items():
        assert share == pytest.approx(1, rel=0.05), stage
