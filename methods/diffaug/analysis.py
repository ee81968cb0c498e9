"""DiffAug's two analysis metrics along stage 1: representation divergence and weight convergence (diffaug.md, section 8)."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.data.batching import Stream, StreamOptions, TextBatch
from harness.encoders.backbone import Encoder
from harness.modules.prefixes import MODULES, PrefixModules
from harness.plugin import Kit

SAMPLE = 1000
"""Items of a corpus that a curve is measured on"""
View = Callable[[TextBatch, Tensor], Tensor]
"""(batch, module of every row) -> raw sentence vectors (rows, H), without head and denoising"""


@dataclass(frozen=True)
class Divergence:
    """Mean distance of the two views of positive pairs."""

    raw: float
    """Of the vectors as they are; the paper's delta"""
    unit: float
    """Of the vectors at unit length"""


@dataclass(frozen=True)
class Convergence:
    """How much longer the encoder's own keys and values are than the prefix's; the paper's kappas."""

    keys: tuple[float, ...]
    """Of each layer"""
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """kappa: over keys, values and layers."""
        return sum(self.keys + self.values) / (2 * len(self.keys))


class PrefixAnalysis:
    """Both metrics for a method that trains prefixes, to be called along its first stage.

    Measured on the first 1,000 items of a corpus of sentences and of one of triplets, whatever the trial's seed and
    share of the labels are, so that the curves of all trials are about the same text, cut and wrapped as in training.
    """

    def __init__(self, method: Any, kit: Kit, view: View) -> None:
        """`method`: has an `encoder`, PrefixModules as its `augmentation`, and both corpora in its configuration."""
        self.encoder: Encoder = method.encoder
        self.prefixes: PrefixModules = method.augmentation
        self.template, self.view = method.template, view
        self.sentences = _sample(method, kit, method.config.sentences)
        self.triplets = _sample(method, kit, method.config.triplets)

    def __call__(self) -> dict[str, float]:
        """Metric -> value, in evaluation mode: divergence of sentences from themselves and of premises from
        entailments, the reference line of dropout alone, convergence in the mean and of each layer."""
        convergence = weight_convergence(self.view, self.encoder, self.prefixes, self.sentences)
        divergences = {
            "divergence": representation_divergence(self.view, self.sentences),
            "divergence-entailment": representation_divergence(self.view, self.triplets),
            "divergence-dropout": self._dropout(),
        }
        return {
            **{name: found.raw for name, found in divergences.items()},
            **{f"{name}-unit": found.unit for name, found in divergences.items()},
            "convergence": convergence.mean,
            **{f"convergence-key-{layer}": value for layer, value in enumerate(convergence.keys)},
            **{
                f"convergence-value-{layer}": value
                for layer, value in enumerate(convergence.values)
            },
        }

    def _dropout(self) -> Divergence:
        """Of two passes that differ by the encoder's dropout, without prefixes."""

        def plain(batch: TextBatch, _modules: Tensor) -> Tensor:
            return self.encoder.at(batch, self.template.mask_positions(batch.attention_mask))

        self.encoder.train()
        found = representation_divergence(plain, self.sentences)
        self.encoder.eval()
        return found


def representation_divergence(view: View, batches: Iterable[TextBatch]) -> Divergence:
    """delta (eq. 6): mean of ||f(x; module 1) - f(x+; module 2)|| over positive pairs.

    A batch with one view pairs each sentence with itself, a batch of triplets premise and entailment. The caller
    chooses evaluation mode (the metric), or training mode for the reference line of dropout alone.
    """
    raw, unit = [], []
    with torch.no_grad():
        for batch in batches:
            one, two = (
                _seen(view, part, module).double() for module, part in enumerate(_pair(batch))
            )
            raw.append((one - two).norm(dim=1))
            unit.append((functional.normalize(one) - functional.normalize(two)).norm(dim=1))
    return Divergence(float(torch.cat(raw).mean()), float(torch.cat(unit).mean()))


def weight_convergence(
    view: View, encoder: Encoder, prefixes: PrefixModules, batches: Iterable[TextBatch]
) -> Convergence:
    """kappa (eq. 7): for every layer, mean norm of the encoder's keys minus that of the prefix's, and so for values.

    Norms are of whole rows (all heads, bias included), over all tokens that are no padding, template included. The
    encoder's are those of the two training views, each read with its own module; both modules count alike. To be
    called in evaluation mode.
    """
    projections = [
        getattr(layer.attention.self, name)
        for name in ("key", "value")
        for layer in encoder.model.encoder.layer
    ]
    text = torch.zeros(len(projections), dtype=torch.float64)
    tokens = 0
    with torch.no_grad(), _outputs(projections) as outputs:
        for batch in batches:
            for module, part in enumerate(_pair(batch)):
                _seen(view, part, module)
                real = part.attention_mask.bool()
                text += torch.stack(
                    [output[real].double().norm(dim=1).sum().cpu() for output in outputs]
                )
                tokens += int(real.sum())
        difference = (text / tokens - _prefix_norms(prefixes)).tolist()
    layers = len(projections) // 2
    return Convergence(tuple(difference[:layers]), tuple(difference[layers:]))


def _prefix_norms(prefixes: PrefixModules) -> Tensor:
    """Mean norm of the rows of both modules, keys of every layer, then values."""
    device = prefixes.table.device
    made = prefixes.reach(MODULES, torch.arange(MODULES, device=device))["prefix"]
    assert made is not None
    rows = (
        torch.stack([*made.keys, *made.values]).transpose(2, 3).flatten(3)
    )  # (slots, modules, length, H)
    norms: Tensor = rows.double().norm(dim=3)
    return norms.mean(dim=(1, 2)).cpu()


def _sample(method: Any, kit: Kit, corpus: str) -> list[TextBatch]:
    tokens = kit.tokens(corpus, method.template)
    first = np.arange(min(SAMPLE, len(tokens)))
    options = StreamOptions(limit=method.training_pieces, batch_size=64, seed=0, items=first)
    stream = Stream(tokens, method.template, options)
    return [batch.to(kit.device) for batch in islice(stream, len(stream))]


def _pair(batch: TextBatch) -> tuple[TextBatch, TextBatch]:
    return (batch, batch) if batch.views == 1 else (batch.view(0), batch.view(1))


def _seen(view: View, batch: TextBatch, module: int) -> Tensor:
    return view(batch, torch.full((len(batch.input_ids),), module, device=batch.input_ids.device))


@contextmanager
def _outputs(modules: list[nn.Module]) -> Iterator[list[Tensor]]:
    """What each module last gave back."""
    outputs = [torch.empty(0)] * len(modules)

    def remember(number: int) -> Callable[[nn.Module, object, Tensor], None]:
        return lambda _module, _inputs, output: outputs.__setitem__(number, output)

    handles = [
        module.register_forward_hook(remember(number)) for number, module in enumerate(modules)
    ]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()
