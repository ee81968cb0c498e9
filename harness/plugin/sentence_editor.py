"""The editor of sentences: it edits anew on every call, or looks up edits that were made before."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from harness.choices import Edit
from harness.data.batching import TextBatch, pad
from harness.data.tokens import Template
from harness.device import token_groups
from harness.plugin.kit import Kit
from harness.plugin.replaced_tokens import CORRUPTIONS, ReplacedTokenConfig
from harness.views.edits import Edited, Editor, compare_pieces
from harness.views.masking import Masker

COLUMNS = {"unsup": (0, 0), "sup": (0, 1, 2)}
"""Setting -> the text of an item that each view is made of"""


def editor(config: ReplacedTokenConfig, kit: Kit, edits: Sequence[Edit] = ("replace",)) -> Editor:
    """The editor of sentences that a configuration asks for, with its generator.

    It edits anew on every call. Where deletion is the only edit, no generator is loaded.
    """
    generator = None
    if tuple(edits) != ("delete",):
        generator = kit.generator(config.generator, dropout=not config.generator_eval)
    return Editor(
        Masker(kit.tokenizer, config.masking_ratio),
        generator,
        longest=config.max_length,
        edits=edits,
        only_masked=config.replace_only_masked,
    )


class StaticCorruption(nn.Module):
    """Looks up what an `Editor` would write anew, and gives the same labels.

    It has no generator and no parameters.
    """

    def __init__(self, kit: Kit) -> None:
        super().__init__()
        self.arrays = kit.artefact(CORRUPTIONS)

    def forward(self, batch: TextBatch) -> Edited:
        """The edited rows of a batch whose views are those of `COLUMNS`, in their order."""
        rows = []
        for item in batch.items.tolist():
            for view in range(batch.views):
                start, stop = self.arrays[f"starts{view}"][item : item + 2]
                rows.append(self.arrays[f"ids{view}"][start:stop])
        ids, _ = pad(rows, Template((), ()), 0)
        # A corruption is never longer than the text that it replaces.
        missing = batch.input_ids.shape[1] - ids.shape[1]
        written = functional.pad(ids, (0, missing)).to(batch.input_ids.device)
        return compare_pieces(batch, written)


def sentence_editor(
    config: ReplacedTokenConfig, kit: Kit, edits: Sequence[Edit] = ("replace",)
) -> Editor | StaticCorruption:
    """Editor of the sentences of a batch: TextBatch -> Edited, static or anew on every call."""
    return StaticCorruption(kit) if config.static_corruption else editor(config, kit, edits)


def corruptions(config: ReplacedTokenConfig, kit: Kit) -> Mapping[str, np.ndarray]:
    """Edited rows, special tokens included, one after the other, and where each begins."""
    # A fixed seed, so that the result does not depend on the trial that builds it.
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
    """One text of every item -> (ids, starts).

    The edited row of item k is ids[starts[k]:starts[k + 1]].
    """
    template = Template.plain(kit.tokenizer)
    tokens = kit.tokens(kit.declared.corpora["contrastive"], template)
    pieces = np.diff(tokens.starts[column]).clip(max=max_length - len(template))
    starts = np.concatenate([[0], np.cumsum(pieces + len(template))])
    ids = np.empty(starts[-1], np.int32)
    # Long texts first, as `token_groups` wants them.
    order = np.argsort(-pieces, kind="stable")
    for group in token_groups(pieces[order] + len(template), kit.device):
        items = order[group]
        texts = [tokens.row(column, item)[: pieces[item]] for item in items]
        rows, mask = pad(texts, template, tokens.pad_id)
        batch = TextBatch(rows, mask, torch.from_numpy(items)).to(kit.device)
        written = writer(batch).batch.input_ids.cpu().numpy()
        for item, row in zip(items, written, strict=True):
            ids[starts[item] : starts[item + 1]] = row[: pieces[item] + len(template)]
    return ids, starts
