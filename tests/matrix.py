"""Which method works on which architecture: found out on tiny models, as docs/methods.md shows it.

tests/methods/test_matrix.py compares the two, and shows what the page should have.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import transformers

from harness.data.batching import TextBatch, pad
from harness.data.corpora import GRADED
from harness.data.hub import EMBEDDED
from harness.data.tokens import piece_ids
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.training.feeding import made, stage_streams
from harness.training.seeds import seed_everything
from tests.architectures import ARCHITECTURES, save

PAGE = Path(__file__).resolve().parents[1] / "docs" / "methods.md"
DATA = EMBEDDED / "datasets" / GRADED
METHODS = sorted(path.parent.name for path in (PAGE.parents[1] / "methods").glob("*/__init__.py"))
WORKS, NEEDS_DROPOUT = "yes", "dropout"
SMALL = {
    "suite": "graded", "precision": "fp32", "batch_size": 8, "stage1_steps": 1, "accumulation": 1,
    "vectors": DATA / "vectors.txt", "stage1_batch_size": 4, "auxiliary_batch_size": 4,
    "classification_batch_size": 4,
    "prompt_length": 2, "max_length": 12,
}  # fmt: skip
"""Hyperparameter -> a value that makes a step quick"""
ITEMS = 12
"""Items of a corpus"""
Cells = Mapping[str, str]
"""Method and setting -> `yes`, `dropout`, or the sentence that refuses the pair"""


def write_corpora(folder: Path) -> dict[str, str]:
    """Write the first items of the embedded corpora; hyperparameter -> corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    sentences, triplets = folder / "sentences.txt", folder / "triplets.csv"
    lines = (DATA / "sentences.txt").read_text().splitlines(keepends=True)
    sentences.write_text("".join(lines[:ITEMS]))
    lines = (DATA / "triplets.csv").read_text().splitlines(keepends=True)
    triplets.write_text("".join(lines[: ITEMS + 1]))
    pairs = folder / "pairs.parquet"
    texts = sentences.read_text().splitlines()
    columns = {"premise": texts, "hypothesis": texts[::-1], "label": [0, 1, 2] * (ITEMS // 3)}
    pq.write_table(pa.table(columns), pairs)
    return {
        "sentences": str(sentences),
        "triplets": str(triplets),
        "pairs": str(pairs),
        "corpus": str(pairs),
        "scored_pairs": f"{pairs}?first=premise&second=hypothesis&score=label",
    }


def rows() -> Iterator[tuple[str, str]]:
    """Every method in every setting."""
    for name in METHODS:
        fields = registry.load(name).config_type.model_fields
        for setting in get_args(fields["setting"].annotation):
            yield name, setting


def trained_rows() -> Iterator[tuple[str, str]]:
    """Every method that trains, in each setting in which it does."""
    for name, setting in rows():
        plugin = registry.load(name)
        if "max_steps" in plugin.config_type.model_fields:
            config = resolve(plugin, {"setting": setting, "encoder": "tiny-bert"})
            if plugin.declare(config).stages:
                yield name, setting


def column(folder: Path, corpora: Mapping[str, str]) -> dict[str, str]:
    """Results of every method and setting on the model in a folder."""
    return {f"{name} {setting}": cell(name, setting, folder, corpora) for name, setting in rows()}


def cell(name: str, setting: str, folder: Path, corpora: Mapping[str, str]) -> str:
    """Train and embed; where the model's own dropout does not do, with another one."""
    models = dict.fromkeys(("encoder", "generator", "teacher", "second_teacher"), str(folder))
    values: dict[str, Any] = {**models, **corpora}
    if name == "clsr":
        values["pairs"] = corpora["triplets"]
    if name == "prompteol":
        values["template"] = "{s} ."  # the last token of a small decoder sees few behind a sentence
    if name == "echo":
        values["template"] = "the {s} . {s}"
    try:
        attempt(name, setting, values)
    except UserError as error:
        why = str(error).replace(str(folder), "NAME").replace(folder.name, "NAME")
        why = re.sub(r'"NAME" \([\w-]+\)', '"NAME" (FAMILY)', why)
        if "encoder_dropout" not in why:
            return why
        attempt(name, setting, {**values, "encoder_dropout": 0.1})
        return NEEDS_DROPOUT
    return WORKS


def attempt(name: str, setting: str, values: Mapping[str, Any]) -> None:
    """One step of every stage, and two sentences. Raises UserError where that is refused."""
    plugin = registry.load(name)
    fields = plugin.config_type.model_fields
    used = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in {**SMALL, **values}.items()
        if _accepts(fields, key)
    }
    kit = Kit(plugin.declare(resolve(plugin, {"setting": setting, **used})), torch.device("cpu"))
    seed_everything(0)
    method = kit.build().train()
    for stage in kit.declared.stages:
        streams = stage_streams(method, kit, stage, seed=0)
        losses = method.losses(next(made(method, stage, streams, 0)), stage)
        loss = torch.stack([losses[each] for each in stage.losses]).sum()
        loss.backward()
        assert loss.isfinite(), (name, setting, stage.name)
    pieces = piece_ids(method.tokenizer, ["a young cat", "the old farmer sees the river"])
    found = [np.asarray(row, np.int64) for row in pieces]
    ids, mask = pad(found, method.evaluation_template, method.tokenizer.pad_token_id)
    with torch.inference_mode():
        vectors = method.eval().embed(TextBatch(ids, mask, torch.arange(2)))
    assert vectors.isfinite().all(), (name, setting)
    assert len(vectors) == 2, (name, setting)
    assert not torch.allclose(vectors[0], vectors[1]), (name, setting)


def _accepts(fields: Mapping[str, Any], key: str) -> bool:
    """Whether a configuration has this field, with more than one value."""
    return key in fields and len(get_args(fields[key].annotation)) != 1


def page_part(columns: Mapping[str, Cells]) -> str:
    """The table, with architectures and settings that are alike side by side, and the sentences."""
    reasons: list[str] = []
    short = {
        name: {row: _short(value, reasons) for row, value in cells.items()}
        for name, cells in columns.items()
    }
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, cells in short.items():
        alike.setdefault(tuple(cells.values()), []).append(name)
    head = [", ".join(names) for names in alike.values()]
    lines = [f"| method | setting | {' | '.join(head)} |", "| :-- | :-- |" + " :-- |" * len(head)]
    of_method: dict[tuple[str, ...], list[str]] = {}
    for place, row in enumerate(next(iter(short.values()))):
        method, setting = row.split()
        key = (method, *(cells[place] for cells in alike))
        of_method.setdefault(key, []).append(setting)
    for (method, *values), settings in of_method.items():
        lines.append(f"| {method} | {', '.join(settings)} | {' | '.join(values)} |")
    sentences = [f"{number}. {reason}" for number, reason in enumerate(reasons, start=1)]
    return "\n".join([*lines, "", *sentences]) + "\n"


def _short(value: str, reasons: list[str]) -> str:
    if value in (WORKS, NEEDS_DROPOUT):
        return value
    if value not in reasons:
        reasons.append(value)
    return f"no ({reasons.index(value) + 1})"


def found_in(folder: Path) -> dict[str, Cells]:
    """Results of every pair; models and corpora are written into a folder."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    corpora = write_corpora(folder / "corpora")
    return {
        name: column(save(name, folder / f"tiny-{name.lower()}".replace(" ", "-")), corpora)
        for name in ARCHITECTURES
    }
