"""References that several methods share: plain loops in float64, slopes, and batches."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer, DynamicCache

from harness.data.batching import Stream, StreamOptions, TextBatch
from harness.data.tokens import Template
from harness.plugin.kit import Kit
from harness.plugin.stage import Stage
from harness.training.feeding import StepBatches, made, stage_streams
from harness.training.loop import Trainer
from harness.training.parameters import trainable
from tests.kits import Calls

KitFor = Callable[..., Kit]
Vectors = list[list[float]]


def build(kit: Kit, enlarged: str = "", std: float = 0.5) -> Any:
    """The method as it begins its first stage.

    enlarged: modules that start small or at zero, where a mistake would not show; their
    parameters are drawn anew with this deviation.
    """
    torch.manual_seed(0)
    method = kit.build()
    trainable(method, kit.declared.stages[0])
    for name in enlarged.split():
        for parameter in getattr(method, name, nn.Module()).parameters():
            nn.init.normal_(parameter, std=std)
    return method.train()


def losses(kit: Kit, method: Any, batch: TextBatch | dict[str, TextBatch]) -> dict[str, Tensor]:
    """The losses of a batch in the first stage; texts alone are those of the contrastive stream."""
    given = {"contrastive": batch} if isinstance(batch, TextBatch) else batch
    found: dict[str, Tensor] = method.losses(given, method.stages(kit.config)[0])
    return found


def cosine(left: list[float], right: list[float]) -> float:
    """The cosine of two vectors."""
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / math.sqrt(sum(a * a for a in left) * sum(b * b for b in right))


def info_nce(
    first: ArrayLike, second: ArrayLike, temperature: float, own_weight: float = 0.0
) -> float:
    """The mean of -log softmax(cosines / temperature) at the own one of at least as many others.

    first: (N, H); second: (M, H), of which those of the own ones come first. own_weight: added to
    the logit of the own hard negative, N places further (simcse.md, section 2.2).
    """
    total, candidates = 0.0, np.asarray(second, np.float64).tolist()
    anchors = np.asarray(first, np.float64).tolist()
    for row, one in enumerate(anchors):
        logits = [cosine(one, other) / temperature for other in candidates]
        if own_weight:
            logits[len(anchors) + row] += own_weight
        total += math.log(sum(map(math.exp, logits))) - logits[row]
    return total / len(anchors)


def nli_loss(classifier: Any, pairs: Sequence[tuple[np.ndarray, np.ndarray, int]]) -> float:
    """The mean cross entropy of labelled pairs on [u, v, |u - v|] and, if wider, max(u, v)^2."""
    weight, bias = array(classifier.linear.weight), array(classifier.linear.bias)
    total = 0.0
    for one, other, label in pairs:
        features = [one, other, np.abs(one - other), np.maximum(one, other) ** 2]
        logits = weight @ np.concatenate(features)[: weight.shape[1]] + bias
        total += math.log(np.exp(logits).sum()) - float(logits[label])
    return total / len(pairs)


def labelled(vectors: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """The pairs of triplets: entailment is 1, contradiction 0, and nothing is neutral."""
    return [
        (premise, other, label)
        for side, label in ((1, 1), (2, 0))
        for premise, other in zip(vectors[0::3], vectors[side::3], strict=True)
    ]


def headed(method: Any, vectors: np.ndarray) -> np.ndarray:
    """Outputs of the tanh head of a method for vectors, (rows, H), in float64."""
    linear = method.head.linear
    return np.tanh(vectors @ array(linear.weight).T + array(linear.bias))


def plain_model(kit: Kit, kind: Any = AutoModel) -> Any:
    """The encoder of a kit by transformers alone, in float64 and without dropout."""
    return kind.from_pretrained(kit.config.encoder, attn_implementation="eager").double().eval()


def behind_prompts(model: Any, prompts: Tensor, ids: Tensor) -> Tensor:
    """All last states of a row, (length, H), by transformers with prompts as cached keys.

    prompts: (prompts, layers or 1, 2, heads, H / heads), keys before values. The length of the
    cache shifts the positions.
    """
    cache = DynamicCache()
    for layer in range(model.config.num_hidden_layers):
        own = prompts[:, min(layer, prompts.shape[1] - 1)]
        cache.update(*(own[:, slot].permute(1, 0, 2)[None] for slot in range(2)), layer)
    mask = torch.ones(1, len(prompts) + len(ids), dtype=torch.long)
    found = model(input_ids=ids[None], attention_mask=mask, past_key_values=cache)
    states: Tensor = found.last_hidden_state[0]
    return states


class Templates:
    """States at the last mask by plain calls of transformers in float64, one row at a time.

    The positions are written out.
    """

    def __init__(self, kit: Kit, method: Any) -> None:
        self.model, self.method = plain_model(kit), method
        self.first = 2 if "roberta" in kit.config.encoder else 0

    def sentences(self, batch: TextBatch) -> list[list[int]]:
        """The pieces of each row without its template."""
        begin, end = len(self.method.template.begin), len(self.method.template.end)
        return [ids[begin : len(ids) - end].tolist() for ids in alone(batch)]

    def state(
        self, pieces: list[int], places: Sequence[int] | None = None, first: int | None = None
    ) -> Tensor:
        """places: from 0, and None as the model numbers them itself; first: of the model."""
        start = self.first if first is None else first
        numbers = None if places is None else torch.tensor([[*places]]) + start
        ids = torch.tensor([pieces])
        output = self.model(ids, attention_mask=torch.ones_like(ids), position_ids=numbers)
        mask = max(
            at for at, each in enumerate(pieces) if each == self.method.tokenizer.mask_token_id
        )
        state: Tensor = output.last_hidden_state[0, mask]
        return state

    def wrapped(self, batch: TextBatch, template: Template) -> Tensor:
        """The states of sentences in a template, (rows, H)."""
        rows = [[*template.begin, *each, *template.end] for each in self.sentences(batch)]
        return torch.stack([self.state(row, range(len(row))) for row in rows])

    def bare(
        self, batch: TextBatch, template: Template, first: int | None = None, shift: bool = True
    ) -> Tensor:
        """The states of the template alone at each row's length, (rows, H)."""
        begin, end = [*template.begin], [*template.end]
        states = []
        for sentence in self.sentences(batch):
            behind = len(begin) + (len(sentence) if shift else 0)
            places = [*range(len(begin)), *range(behind, behind + len(end))]
            states.append(self.state([*begin, *end], places, first))
        return torch.stack(states)

    def tanh_head(self, vectors: Tensor) -> Tensor:
        """Outputs of the tanh head of the method for vectors, with gradients."""
        linear = self.method.head.linear
        return torch.tanh(vectors @ linear.weight.double().T + linear.bias.double())


def has_slopes(
    gradient: Tensor,
    loss: Callable[[Tensor], float],
    at: Tensor,
    places: Iterable[tuple[int, ...]] = ((0, 0), (2, 3), (4, 1)),
    **tolerances: float,
) -> None:
    """Check a gradient at some places against differences of a loss that is a plain loop."""
    for index in places:
        step = at.new_zeros(at.shape)
        step[index] = 1e-6
        slope = (loss(at + step) - loss(at - step)) / 2e-6
        expected = pytest.approx(slope, **{"rel": 1e-4, "abs": 1e-8, **tolerances})
        assert float(gradient[index]) == expected, index


def batches_of(kit: Kit, method: Any, stage: int = 0) -> tuple[Stage, Iterator[StepBatches]]:
    """The stage of a method with this number, and its prepared batches."""
    found = kit.declared.stages[stage]
    return found, made(method, found, stage_streams(method, kit, found, seed=0), 0)


def watched(method: nn.Module, modules: str) -> list[Calls]:
    """The calls of these modules of a method from now on."""
    return [Calls(method.get_submodule(name)) for name in modules.split()]


def array(tensor: Tensor) -> np.ndarray:
    """The numbers of a tensor in float64, without its gradient."""
    return tensor.detach().double().numpy()


def alone(batch: TextBatch) -> list[Tensor]:
    """The ids of each row without its padding."""
    lengths = batch.attention_mask.sum(dim=1)
    return [ids[:length] for ids, length in zip(batch.input_ids, lengths, strict=True)]


def cross_entropies(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Logits (..., classes) and labels (...) -> cross entropies (...)."""
    own = np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return np.asarray(np.log(np.exp(logits).sum(axis=-1)) - own)


def by_transformers(folder: Path, texts: list[str]) -> Vectors:
    """The state at [CLS] of each text alone, by a plain call of transformers."""
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        rows = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state for text in texts]
    return [list(row[0, 0].double().tolist()) for row in rows]


def first_texts(kit: Kit, method: Any, corpus: str, size: int = 6) -> TextBatch:
    """The first batch of so many items of a corpus."""
    options = StreamOptions(limit=30, batch_size=size, seed=0)
    return next(iter(Stream(kit.tokens(corpus), method.template, options)))


def first_batch(kit: Kit, method: Any, stream: str = "contrastive", size: int = 6) -> TextBatch:
    """The first batch of so many items of a stream, with padding."""
    options = StreamOptions(limit=method.training_pieces, batch_size=size, seed=0)
    tokens = kit.tokens(kit.declared.corpora[stream], method.template)
    endless = Stream(tokens, method.template, options)
    return next(
        batch for batch in endless if len(batch.items) == size and not batch.attention_mask.all()
    )


def first_batches(kit: Kit, method: Any, size: int = 6) -> dict[str, TextBatch]:
    """The first batch of every stream, as `first_batch` gives it."""
    return {stream: first_batch(kit, method, stream, size) for stream in kit.declared.corpora}


def first_losses(kit: Kit, method: Any, stage: int = 0) -> dict[str, Tensor]:
    """The losses of the first batches in the stage with this number."""
    given = first_batches(kit, method)
    found: dict[str, Tensor] = method.losses(given, method.stages(kit.config)[stage])
    return found


def moved(kit: Kit, method: Any) -> set[str]:
    """Train a method; the names of the parameters that have changed then."""
    before = {name: value.detach().clone() for name, value in method.named_parameters()}
    scores = itertools.count()  # so that the last step is the best one
    Trainer(method, kit, 0, lambda: float(next(scores)), lambda _: None).run()
    return {name for name, value in method.named_parameters() if not value.equal(before[name])}
