"""The processes (ranks) that train one trial together, and what passes between them.

Every rank has the same batch, draws the same random numbers and computes the same losses. What
takes the time, the passes of encoders, each rank computes for its share of the rows; then all get
the vectors of all rows. So a method is written as for one process, and a loss is that of the whole
batch, whether it compares items with one another or not.

What the ranks average are gradients. A parameter behind the gathered vectors has the same gradient
everywhere. One before them has a part of it everywhere, which `gathered` multiplies by the number
of ranks, so that the mean is the sum of the parts. Where vectors that were gathered enter a further
pass, `entering` adds the parts up at once.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import HashStore, TCPStore
from torch.nn import functional

Given = TypeVar("Given")
LOCAL_RANK = "LOCAL_RANK"
"""A variable of the environment that DeepSpeed reads (harness.training.engines.library)"""
FILE_ADDRESS = "file://"
"""Beginning of an address that is the path of a file"""
RANK_SECONDS = 3600
"""Seconds that a rank waits for the others; one that has died is noticed long before.

They compute the same steps and evaluations. What one alone may have to make before it joins in,
such as the vectors of a frozen encoder for a whole corpus, takes minutes."""

_LOST = ("closed by peer", "connection reset", "broken pipe", "pair closure", "gloo", "nccl")
"""Parts of the texts of torch, of gloo (most name its file, others do not) and of NCCL"""
_left: list[Any] = []
"""The groups that this process has left because of an error"""
_alone = False
"""Whether this process computes something without the others"""
_own: list[Tensor] | None = None
"""The state of the random numbers that this rank alone draws; None: not drawn from yet"""


class NotMet(RuntimeError):
    """The ranks of a trial have not found one another."""


def has_ranks() -> bool:
    """Whether this process computes as a rank now; it may be the only one."""
    return dist.is_initialized() and not _alone


def rank_count() -> int:
    """The number of processes that compute together; 1: this one alone."""
    return dist.get_world_size() if has_ranks() else 1


def rank_number() -> int:
    """The number of this process among them, from 0. Rank 0 reports and writes files."""
    return dist.get_rank() if dist.is_initialized() else 0


@contextmanager
def joined(number: int, count: int, address: str) -> Iterator[None]:
    """In the block, this process is rank `number` of `count`.

    `address`: where the ranks find one another, as `tcp://host:port`, where a `TCPStore` listens,
    or `file:///path`, whose path is taken literally. Tensors on GPUs go through NCCL, and all
    others through gloo. Raises NotMet when the others do not come. Afterwards the process computes
    as before, whatever an engine has changed in torch.
    """
    linear, local_rank = functional.linear, os.environ.get(LOCAL_RANK)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    wait = timedelta(seconds=RANK_SECONDS)
    try:
        store = _meeting(address, count, wait)
        dist.init_process_group(backend, store=store, rank=number, world_size=count, timeout=wait)
    except RuntimeError as error:
        _number_groups_anew()
        raise NotMet(f"the workers did not find one another: {error}") from error
    try:
        yield
    except BaseException:
        # Operations of the group may still wait for a lost rank. If the `Reducer` of torch's DDP,
        # which the error keeps, were its last owner, its end would stop this process for good: it
        # waits for the threads of the group and holds the lock of Python, for which they wait.
        _left.append(dist.group.WORLD)
        raise
    finally:
        # ZeRO 3 puts a function in its place that rounds differently, and leaves it there.
        functional.linear = linear
        _forget_group()
        # What else asks for it, such as accelerate, would look for the other ranks.
        os.environ.pop(LOCAL_RANK, None)
        if local_rank is not None:
            os.environ[LOCAL_RANK] = local_rank


def _meeting(address: str, count: int, wait: timedelta) -> Any:
    """The store of torch through which `count` ranks find one another."""
    if not address.startswith(FILE_ADDRESS):  # whoever starts the ranks listens there already
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        return TCPStore(host, int(port), is_master=False, timeout=wait)
    # torch would read the path as a part of a URL, in which it ends at "#" and "?".
    path = address.removeprefix(FILE_ADDRESS)
    store = dist.FileStore(path, count)  # type: ignore[attr-defined]
    store.set_timeout(wait)
    return store


def _number_groups_anew() -> None:
    """Let torch forget a group that was not complete.

    torch counts it, though, and ranks meet under a number that counts the groups before. Only the
    end of a complete group, such as that of this process alone, begins the count anew.
    """
    store = HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    dist.destroy_process_group()


def _forget_group() -> None:
    """Leave the other ranks, so that this process may join others for its next trial."""
    global _own
    _own = None
    # DeepSpeed keeps groups of its own, which belong to the one that ends.
    deepspeed: Any = sys.modules.get("deepspeed.comm.comm")
    if deepspeed and deepspeed.cdb is not None:
        deepspeed.destroy_process_group()
        deepspeed.cdb = None
    if dist.is_initialized():
        dist.destroy_process_group()


def is_lost(error: BaseException) -> bool:
    """Whether another rank is lost, which torch says in the text of a RuntimeError alone."""
    said = str(error).lower()
    torch_says_so = isinstance(error, RuntimeError) and any(word in said for word in _LOST)
    return torch_says_so or isinstance(error, NotMet | dist.DistError)


@contextmanager
def alone() -> Iterator[None]:
    """In the block, this process computes something by itself, such as an artefact."""
    global _alone
    before, _alone = _alone, True
    try:
        yield
    finally:
        _alone = before


def own_share(rows: int) -> slice:
    """The rows of a batch that this rank computes: at least one, also where others have it too.

    Modules that are sharded over the ranks must run in all of them.
    """
    each = _share_size(rows)
    start = min(rank_number() * each, rows - 1)
    return slice(start, min(start + each, rows))


def _share_size(rows: int) -> int:
    """Rows of a share; those at the end may have fewer."""
    return -(-rows // rank_count())


# Its first name is deprecated where the second one exists.
gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class _Gathered(torch.autograd.Function):
    """All ranks compute the same behind it, so nothing has to be sent on the way back."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, rows: int) -> Tensor:
        ctx.rows = rows
        share = _share_size(rows)
        sent = own.new_zeros(share, *own.shape[1:])
        # A rank behind the last row has a row of another one; its place among all is cut off.
        sent[: len(own)] = own
        everything = own.new_empty(rank_count() * share, *own.shape[1:])
        gather(everything, sent)
        return everything[:rows]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        [gradient] = gradients
        own = gradient[own_share(ctx.rows)] * rank_count()
        # The rank whose row this one has as well gives it its gradient.
        has_rows = rank_number() * _share_size(ctx.rows) < ctx.rows
        return (own if has_rows else torch.zeros_like(own)), None


# As typed functions, because torch's `apply` has no types.
gathered: Callable[[Tensor, int], Tensor] = _Gathered.apply
"""(own, rows): the values of all rows, (rows, ...), from those of this rank's share of them.

The gradient goes back into the own share, multiplied by the number of ranks.
"""


def entering(values: Tensor) -> Tensor:
    """The same values, where those of other rows may have come from other ranks.

    The gradient that comes back has the rank's own rows alone. Behind `gathered`, every rank needs
    that of all rows; elsewhere, what the ranks average in the end is enough.
    """
    return _summed_back(values) if _is_behind_gathered(values) else values


class _Entering(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, values: Tensor) -> Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(_ctx: Any, *gradients: Tensor) -> Tensor:
        # Each part is multiplied by the number of ranks, so the sum of the parts is the mean.
        whole = gradients[0].contiguous() / rank_count()
        dist.all_reduce(whole)
        return whole


_summed_back: Callable[[Tensor], Tensor] = _Entering.apply


def _is_behind_gathered(values: Tensor) -> bool:
    """Whether values were computed from vectors that ranks have sent to one another."""
    seen, waiting = set(), [values.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if isinstance(node, _Gathered._backward_cls):
            return True
        seen.add(node)
        waiting += [before for before, _ in node.next_functions]
    return False


def seed_own(seed: int, stage: int, step: int) -> None:
    """Seed what this rank alone draws in a step.

    The numbers depend on nothing before the step, so a training that was saved goes on with them.
    """
    if rank_count() == 1:
        return
    with own_random():
        words = np.random.SeedSequence((seed, stage, step, rank_number()))
        torch.manual_seed(int(words.generate_state(1, np.uint64)[0] >> 1))


@contextmanager
def own_random() -> Iterator[None]:
    """In the block, random numbers are this rank's own, as those of dropout in its rows.

    Afterwards all ranks go on with the numbers that they share.
    """
    global _own
    if rank_count() == 1:
        yield
        return
    shared = _random_state()
    if _own is not None:
        _set_random_state(_own)
    try:
        yield
    finally:
        _own = _random_state()
        _set_random_state(shared)


def _random_state() -> list[Tensor]:
    on_gpu = [torch.cuda.get_rng_state()] if torch.cuda.is_available() else []
    return [torch.get_rng_state(), *on_gpu]


def _set_random_state(state: list[Tensor]) -> None:
    torch.set_rng_state(state[0])
    if state[1:]:
        torch.cuda.set_rng_state(state[1])


def agreed(value: Given) -> Given:
    """The `value` of rank 0, in every rank."""
    if rank_count() == 1:
        return value
    found = [value]
    dist.broadcast_object_list(found, src=0, device=torch.device("cpu"))
    return found[0]
