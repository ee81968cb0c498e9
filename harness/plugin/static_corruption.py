"""Corruptions made before training, one per text and view, for all trials of a sweep (d2cse.md, section 1.4)."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from harness.data.batching import TextBatch, pad
from harness.data.tokens import Template
from harness.device import token_groups
from harness.plugin.kit import Artefact, Kit
from harness.plugin.replaced_tokens import ReplacedTokenConfig, editor
from harness.views.corruption import Edited, compared
from harness.views.edits import Editor

CORRUPTIONS, STREAM = "corruptions", "contrastive"
COLUMNS = {"unsup": (0, 0), "sup": (0, 1, 2)}
"""Which text of an item each view is made of"""


class StaticCorruption(nn.Module):
    """Looks up what `Editor` would write anew; the same labels. It has no generator."""

    def __init__(self, kit: Kit) -> None:
        super().__init__()
        self.arrays = kit.artefact(CORRUPTIONS)

    def forward(self, batch: TextBatch) -> Edited:
        """A batch whose views are those of `COLUMNS`, in order."""
        rows = []
        for item in batch.items.tolist():
            for view in range(batch.views):
                start, stop = self.arrays[f"starts{view}"][item : item + 2]
                rows.append(self.arrays[f"ids{view}"][start:stop])
        ids, _ = pad(rows, Template((), ()), 0)
        width = batch.input_ids.shape[1]
        return compared(
            batch, functional.pad(ids, (0, width - ids.shape[1])).to(batch.input_ids.device)
        )


def static_corruption(config: ReplacedTokenConfig) -> list[Artefact]:
    """The artefact of a configuration that asks for static corruptions; else none."""
    fields = (
        "setting", "sentences", "triplets", "max_length", "masking_ratio", "generator", "generator_eval",
        "replace_only_masked",
    )  # fmt: skip
    if not config.static_corruption:
        return []
    return [Artefact(CORRUPTIONS, fields, lambda kit: _corruptions(config, kit))]


def _corruptions(config: ReplacedTokenConfig, kit: Kit) -> Mapping[str, np.ndarray]:
    """Edited rows, special tokens included, one after the other; the same whichever trial builds them."""
    torch.manual_seed(0)
    writer = editor(config, kit).to(kit.device).train()
    arrays = {}
    for view, column in enumerate(COLUMNS[config.setting]):
        arrays[f"ids{view}"], arrays[f"starts{view}"] = _corrupted_column(
            writer, config.max_length, kit, column
        )
    return arrays


def _corrupted_column(
    writer: Editor, max_length: int, kit: Kit, column: int
) -> tuple[np.ndarray, np.ndarray]:
    """One text of every item -> (ids, starts): item k's edited row is ids[starts[k]:starts[k + 1]]."""
    template = Template.plain(kit.tokenizer)
    tokens = kit.tokens(kit.declared.corpora[STREAM], template)
    pieces = np.diff(tokens.starts[column]).clip(max=max_length - len(template))
    starts = np.concatenate([[0], np.cumsum(pieces + len(template))])
    ids = np.empty(starts[-1], np.int32)
    order = np.argsort(-pieces, kind="stable")
    for group in token_groups(pieces[order] + len(template), kit.device):
        items = order[group]
        rows, mask = pad(
            [tokens.row(column, item)[: pieces[item]] for item in items], template, tokens.pad_id
        )
        batch = TextBatch(rows, mask, torch.from_numpy(items)).to(kit.device)
        written = writer(batch).batch.input_ids.cpu().numpy()
        for item, row in zip(items, written, strict=True):
            ids[starts[item] : starts[item + 1]] = row[: pieces[item] + len(template)]
    return ids, starts
