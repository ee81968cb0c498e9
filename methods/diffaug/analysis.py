"""DiffAug's two analysis metrics along stage 1 (section 3.2 of the paper; diffaug.md, section 8).

Representation divergence is how far the two views of a positive pair are from each other, weight
convergence how much larger the encoder's keys and values are than those of the prefixes.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.data.batching import Stream, StreamOptions
from harness.encoders.backbone import Encoder
from harness.errors import UserError
from harness.plugin import Kit, TextBatch

from .prefixes import VIEW_MODULES, PrefixModules

if TYPE_CHECKING:
    from .method import Method

SAMPLE = 1000
"""Items of a corpus that a curve is measured on"""
View = Callable[[TextBatch, Tensor], Tensor]
"""(batch, module of every row) -> raw sentence vectors (rows, H), without head and denoising"""


@dataclass(frozen=True)
class Divergence:
    """Mean distance of the two views of positive pairs."""

    raw: float
    """Of the vectors as they are: delta of the paper (eq. 6)"""
    unit: float
    """Of the vectors at unit length"""


@dataclass(frozen=True)
class Convergence:
    """How much longer the encoder's own keys and values are than those of the prefix."""

    keys: tuple[float, ...]
    """Of each layer: kappa_k of the paper (eq. 7)"""
    values: tuple[float, ...]
    """Of each layer: kappa_v"""

    @property
    def mean(self) -> float:
        """kappa (eq. 8): over keys, values and layers."""
        return sum(self.keys + self.values) / (2 * len(self.keys))


class PrefixAnalysis:
    """Both metrics of a method with prefixes, to be called along its first stage.

    They are measured on the first 1,000 sentences and triplets of the corpora, cut and wrapped as
    in training. The seed and the share of the labels do not matter, so that the curves of all
    trials are about the same text.
    """

    def __init__(self, method: "Method", kit: Kit, sentences: str, triplets: str) -> None:
        """sentences, triplets: names of the corpora. The method must have prefixes.

        Raises UserError for an encoder that is not built like BERT.
        """
        assert isinstance(method.augmentation, PrefixModules), "the configuration refuses others"
        if not hasattr(getattr(method.encoder.model, "encoder", None), "layer"):
            raise UserError(
                f'analysis=true compares keys, and encoder "{method.encoder.name}" has none where '
                f"BERT has them: choose analysis=false, or an encoder such as BERT"
            )
        self.encoder, self.prefixes = method.encoder, method.augmentation
        self.template, self.view = method.template, method.states
        self.sentences = _sample(method, kit, sentences)
        self.triplets = _sample(method, kit, triplets)

    def __call__(self) -> dict[str, float]:
        """Metric -> value, in evaluation mode.

        divergence: of sentences from themselves. divergence-entailment: of premises from their
        entailments. divergence-dropout: the reference line of dropout alone. convergence: in the
        mean, and of each layer.
        """
        convergence = weight_convergence(self.view, self.encoder, self.prefixes, self.sentences)
        divergences = {
            "divergence": representation_divergence(self.view, self.sentences),
            "divergence-entailment": representation_divergence(self.view, self.triplets),
            "divergence-dropout": self._dropout(),
        }
        keys, values = enumerate(convergence.keys), enumerate(convergence.values)
        return {
            **{name: found.raw for name, found in divergences.items()},
            **{f"{name}-unit": found.unit for name, found in divergences.items()},
            "convergence": convergence.mean,
            **{f"convergence-key-{layer}": value for layer, value in keys},
            **{f"convergence-value-{layer}": value for layer, value in values},
        }

    def _dropout(self) -> Divergence:
        """Of two passes without prefixes, which differ by the encoder's dropout."""

        def plain(batch: TextBatch, _modules: Tensor) -> Tensor:
            return self.encoder.at(batch, self.template.mask_positions(batch.attention_mask))

        # Dropout is on in training mode alone. The loop puts the random state back.
        self.encoder.train()
        found = representation_divergence(plain, self.sentences)
        self.encoder.eval()
        return found


def representation_divergence(view: View, batches: Iterable[TextBatch]) -> Divergence:
    """delta (eq. 6): the mean of ||f(x; module 1) - f(x+; module 2)|| over positive pairs.

    A batch with one view pairs each sentence with itself, a batch of triplets the premise with the
    entailment. The caller chooses evaluation mode (the metric), or training mode for the reference
    line of dropout alone.
    """
    raw, unit = [], []
    with torch.no_grad():
        for batch in batches:
            first, second = _pair(batch)
            one, two = _seen(view, first, 0).double(), _seen(view, second, 1).double()
            raw.append((one - two).norm(dim=1))
            unit.append((functional.normalize(one) - functional.normalize(two)).norm(dim=1))
    return Divergence(float(torch.cat(raw).mean()), float(torch.cat(unit).mean()))


def weight_convergence(
    view: View, encoder: Encoder, prefixes: PrefixModules, batches: Iterable[TextBatch]
) -> Convergence:
    """kappa (eq. 7), of every layer: mean norm of the encoder's keys minus that of the prefix's.

    The same with values. Norms are of whole rows (all heads, bias included), over all tokens but
    padding, those of the template included. The encoder's keys are those of the two training
    views, each read with its own module; both modules count alike. To be called in evaluation
    mode.
    """
    layers = encoder.model.encoder.layer
    projections = [layer.attention.self.key for layer in layers]
    projections += [layer.attention.self.value for layer in layers]
    # Sums in float64, because they run over all tokens of the sample.
    text = torch.zeros(len(projections), dtype=torch.float64)
    tokens = 0
    with torch.no_grad(), _outputs(projections) as outputs:
        for batch in batches:
            for module, part in enumerate(_pair(batch)):
                _seen(view, part, module)  # fills `outputs`
                real = part.attention_mask.bool()
                norms = [_own(output, real).double().norm(dim=1).sum().cpu() for output in outputs]
                text += torch.stack(norms)
                tokens += int(real.sum())
    difference = (text / tokens - _prefix_norms(prefixes)).tolist()
    return Convergence(tuple(difference[: len(layers)]), tuple(difference[len(layers) :]))


def _own(output: Tensor, real: Tensor) -> Tensor:
    """The vectors of real tokens, (tokens, H), in what a layer gave for padded or unpadded rows.

    real: (rows, length).
    """
    if output.shape[:2] == real.shape:
        return output[real]
    return output.flatten(0, 1)[: int(real.sum())]  # behind them is the tail


def _prefix_norms(prefixes: PrefixModules) -> Tensor:
    """Mean norm of the rows of both modules: keys of every layer, then values, (2 * layers,)."""
    modules = torch.arange(VIEW_MODULES, device=prefixes.table.device)
    with torch.no_grad():
        made = prefixes.reach(VIEW_MODULES, modules)["prefix"]
    assert made is not None
    # (2 * layers, modules, heads, length, head size) -> (2 * layers, modules, length, H)
    rows = torch.stack([*made.keys, *made.values]).transpose(2, 3).flatten(3)
    norms: Tensor = rows.double().norm(dim=3)
    return norms.mean(dim=(1, 2)).cpu()


def _sample(method: "Method", kit: Kit, corpus: str) -> list[TextBatch]:
    tokens = kit.tokens(corpus, method.template)
    first = np.arange(min(SAMPLE, len(tokens)))
    options = StreamOptions(limit=method.training_pieces, batch_size=64, seed=0, items=first)
    stream = Stream(tokens, method.template, options)
    return [batch.to(kit.device) for batch in islice(stream, len(stream))]


def _pair(batch: TextBatch) -> tuple[TextBatch, TextBatch]:
    """The two texts of every item that count as a positive pair."""
    return (batch, batch) if batch.views == 1 else (batch.view(0), batch.view(1))


def _seen(view: View, batch: TextBatch, module: int) -> Tensor:
    """The vectors of all rows, each read with the same module."""
    return view(batch, torch.full((len(batch.input_ids),), module, device=batch.input_ids.device))


@contextmanager
def _outputs(modules: list[nn.Module]) -> Iterator[list[Tensor]]:
    """The last output of each module, in a list that changes with every forward pass."""
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
