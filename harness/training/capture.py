"""Steps that are launched at once: a CUDA graph repeats what an earlier step has done.

On a fast GPU, a step of a small model takes less time than the CPU needs to launch its kernels. A
graph holds all of them, from the losses to the update, and one call launches it. It repeats the
same operations on the same memory, so the numbers of a batch are copied to where those of the first
one were, and shapes must be those of the first one. So that few shapes occur, rows are padded to a
multiple of WIDTH_MULTIPLE, and the row of their tokens has room for one of a few numbers of them
(harness.encoders.unpadding.room_for).

A shape that occurs for the first time is computed without a graph, which also makes what later
steps find, such as the optimiser's state. When it occurs again, its graph is captured, which
computes nothing, and launched. Random numbers come from torch's generator in both cases: a graph
draws what the same operations would have drawn, from the state that the generator has at its
launch. So what a trial draws does not depend on when a shape was captured, nor on a checkpoint.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from harness.data.batching import TextBatch
from harness.encoders.unpadding import room_for
from harness.errors import UserError
from harness.training.feeding import StepBatches
from harness.training.optimisers import Compute, Done, StageOptimiser

WIDTH_MULTIPLE = 16
"""Rows of a captured step are padded to a multiple of so many tokens"""
TENSORS = ("input_ids", "attention_mask", "items", "labels")
"""Parts of a batch that a graph reads"""


class Graphs:
    """The recorder of a GPU: CUDA graphs, whose intermediate results share their memory."""

    def __init__(self, device: torch.device) -> None:
        """Raises UserError where there is no GPU of CUDA."""
        if not torch.cuda.device_count():
            raise UserError(
                "cuda_graphs needs a GPU of CUDA, and there is none; set cuda_graphs=false"
            )
        self._device = device
        # The default stream cannot be captured, and a gradient must come on the stream on which the
        # first one came, so all steps have this one.
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """A block in which what is to be captured may be computed, and captured."""
        usual = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(usual)
        with torch.cuda.stream(self._stream):
            yield
        usual.wait_stream(self._stream)

    def record(self, compute: Callable[[], Done]) -> Callable[[], Done]:
        """Capture `compute`, without doing it; a function that does it on the same memory."""
        graph = torch.cuda.CUDAGraph()
        # The thread that makes batches may ask for memory meanwhile, so only this one is watched.
        with torch.cuda.graph(
            graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
        ):
            done = compute()

        def launch() -> Done:
            graph.replay()
            return done

        return launch


_Captured = tuple[Sequence[StepBatches], Callable[[], Done]]
"""Memory of the numbers of batches, and a step that reads them there"""


class CapturedOptimiser(StageOptimiser):
    """The optimiser of a stage whose steps a graph repeats, the update included.

    A learning rate is a number of the device in float32.
    """

    def __init__(self, *arguments: Any) -> None:
        """The arguments are those of `StageOptimiser`.

        Raises UserError without a GPU of CUDA, and where losses are scaled, as in fp16.
        """
        super().__init__(*arguments)
        if arguments[-1] is not None:
            raise UserError(
                "cuda_graphs does not work with scaled losses, and this GPU has no bf16; set "
                "cuda_graphs=false"
            )
        _, method, *_ = arguments
        self._pad_id = int(method.tokenizer.pad_token_id or 0)
        self._longest = method.training_pieces + len(method.template)
        device = self.parameters[0].device
        self._recorder = Graphs(device)
        for group in self.torch.param_groups:
            group["lr"], group["capturable"] = torch.zeros((), device=device), True
        self._launched: dict[tuple[Any, ...], _Captured | None] = {}
        """Form of batches -> the captured step; None: a step with such ones was not"""

    def set_rate(self, group: dict[str, Any], rate: float) -> None:
        group["lr"].fill_(rate)

    def step(self, step: int) -> Tensor | None:
        return self.update()  # the rates are set already: a graph would repeat those of its step

    def computed(self, step: int, batches: Sequence[StepBatches], compute: Compute) -> Done:
        batches = bucketed(batches, self._pad_id, self._longest)
        key = tuple(_look(batch) for batch in batches)
        with self._recorder.computing():
            self.set_rates(step)
            if key not in self._launched:
                self._launched[key] = None
                return compute(batches)
            captured = self._launched[key]
            if captured is None:
                memory = [_copied(batch) for batch in batches]
                captured = memory, self._recorder.record(partial(compute, memory))
                self._launched[key] = captured
            else:
                _overwrite(captured[0], batches)
            done = captured[1]()
            # The next launch overwrites the results.
            norm = None if done.norm is None else done.norm.clone()
            return Done(done.loss.clone(), [each.clone() for each in done.terms], norm)

    def close(self) -> None:
        self._launched.clear()


def bucketed(batches: Sequence[StepBatches], pad_id: int, longest: int) -> list[StepBatches]:
    """The batches of a step in one of few shapes, of which no other facts are known.

    longest: the most tokens to which rows are padded; wider ones stay as they are.
    """
    alike: list[dict[str, TextBatch]] = [{} for _ in batches]
    for name in batches[0]:
        several = [batch[name] for batch in batches]
        width = max(batch.input_ids.shape[1] for batch in several)
        width = max(width, min(-(-width // WIDTH_MULTIPLE) * WIDTH_MULTIPLE, longest))
        tokens = max(int(batch.mask_on_host.sum()) for batch in several)
        for found, batch in zip(alike, several, strict=True):
            missing = width - batch.input_ids.shape[1]
            found[name] = replace(
                batch,
                input_ids=functional.pad(batch.input_ids, (0, missing), value=pad_id),
                attention_mask=functional.pad(batch.attention_mask, (0, missing)),
                host_mask=None,
                room=room_for(tokens, len(batch.input_ids) * width),
            )
    return [*alike]


def _look(batch: StepBatches) -> tuple[Any, ...]:
    """All that must agree for a graph to take the numbers of another batch."""
    facts: list[Any] = []
    for name, each in sorted(batch.items()):
        facts += [name, each.views, each.copies, each.room]
        facts += [(key, value.shape, value.dtype) for key, value in _tensors(each)]
    return tuple(facts)


def _copied(batch: StepBatches) -> StepBatches:
    """The batch with memory of its own."""
    copies: dict[str, TextBatch] = {}
    for name, each in batch.items():
        parts: dict[str, Any] = {key: value.clone() for key, value in _tensors(each)}
        copies[name] = replace(each, **parts)
    return copies


def _overwrite(memory: Sequence[StepBatches], batches: Sequence[StepBatches]) -> None:
    """Put the numbers of batches into the memory of others that look the same."""
    for old, new in zip(memory, batches, strict=True):
        for name, each in new.items():
            parts = zip(_tensors(old[name]), _tensors(each), strict=True)
            for (_, mine), (_, value) in parts:
                mine.copy_(value)


def _tensors(batch: TextBatch) -> Iterator[tuple[str, Tensor]]:
    """Names and values of the parts of a batch that it has."""
    for key in TENSORS:
        value: Tensor | None = getattr(batch, key)
        if value is not None:
            yield key, value
