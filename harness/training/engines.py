"""Engines of a training: where its weights are, who computes its gradients and its steps.

In data parallelism every process has the whole model, and their gradients are averaged. DeepSpeed's
ZeRO shards the optimiser's state, gradients and weights over the ranks; so does torch's FSDP2
(harness.training.fully_sharded).
"""

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeGuard, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from harness.data.batching import TextBatch
from harness.device import ROUNDED, in_precision, resolve_precision
from harness.errors import TrialFailure, UserError, extra
from harness.plugin.config import MethodConfig, TrainingConfig
from harness.plugin.engine_config import EngineName, merge
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.ranks import LOCAL_RANK, has_ranks
from harness.training import fully_sharded
from harness.training.capture import CapturedOptimiser
from harness.training.fully_sharded import FullyShardedOptimiser
from harness.training.optimisers import StageOptimiser
from harness.training.parameters import rounded_in_products, without_changes
from harness.training.saved_state import is_rounded, readable, set_whole, whole


class Losses(nn.Module):
    """The losses of a method as a module, whose passes a library can follow."""

    def __init__(self, method: Method[Any], config: TrainingConfig, *, shares: bool = True) -> None:
        """`shares`: whether ranks have shares of the parameters, or of copies of them."""
        super().__init__()
        self.method, self.precision = method, config.precision
        self._losses = without_changes(method) if shares else method.losses

    def forward(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        """The terms that `Method.losses` gives, in the precision of the configuration."""
        device = next(iter(batch.values())).input_ids.device
        # The caller asks for it, too, but on a GPU DeepSpeed computes in float32 what a block
        # around its own forward pass asks to round.
        with in_precision(resolve_precision(self.precision, device), device):
            return self._losses(batch, stage)


class DataParallelOptimiser(StageOptimiser):
    """The optimiser of a stage whose gradients are means over the ranks (harness.ranks)."""

    def __init__(
        self, stage: Stage, method: Method[Any], config: TrainingConfig, *arguments: Any
    ) -> None:
        """The arguments are those of `StageOptimiser`."""
        super().__init__(stage, method, config, *arguments)
        self._follow(Losses(method, config, shares=False), searches=True)

    def _follow(self, losses: nn.Module, *, searches: bool) -> None:
        """Let torch average the gradients of the losses.

        searches: whether it looks in every pass for parameters that have no gradient. What a step
        leaves out, as a loss over nothing does, would else be waited for.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # older torch has no other name for it
            self._parallel = DistributedDataParallel(
                losses,
                find_unused_parameters=searches,
                gradient_as_bucket_view=True,  # no second copy of them
                broadcast_buffers=False,  # all ranks compute the same ones
                init_sync=searches,  # the second one finds the weights of the first
            )
        self.losses = self._parallel

    def accumulating(self, *, last: bool) -> AbstractContextManager[object]:
        return nullcontext() if last else self._parallel.no_sync()

    def step(self, step: int) -> Tensor | None:
        reached = all(parameter.grad is not None for parameter in self.parameters)
        norm = super().step(step)
        # All steps of such a stage reach what its first one reaches.
        if self._parallel.find_unused_parameters and self.stage.capturable and reached:
            self._follow(self._parallel.module, searches=False)
        return norm


ADAM_MOMENTS, RMSPROP_MOMENTS = ("exp_avg", "exp_avg_sq"), ("square_avg",)
"""Names that optimisers of the AdamW kind, and RMSprop, give to what they keep of a parameter"""


class ZeroOptimiser(StageOptimiser):
    """The optimiser of a stage whose state DeepSpeed shards over the ranks."""

    def __init__(
        self, stage: Stage, method: Method[Any], config: TrainingConfig, *arguments: Any
    ) -> None:
        """The arguments are those of `StageOptimiser`. Raises UserError in fp16."""
        if arguments[-1] is not None:
            raise UserError("engine: deepspeed does not scale losses here; set precision=fp32")
        deepspeed = library()
        super().__init__(stage, method, config, *arguments)
        rmsprop = stage.optimisation.optimiser == "rmsprop"
        self._moments = RMSPROP_MOMENTS if rmsprop else ADAM_MOMENTS
        self._numbered = [each for group in self.torch.param_groups for each in group["params"]]
        """The parameters in the order in which `tensors` numbers them"""
        self._kind = sent_as(config, next(method.parameters()).device)
        """The numbers in which weights of linear layers are read in a step; None: float32"""
        exact = self._round(method, config)
        self._engine, _, _, _ = deepspeed.initialize(
            model=Losses(method, config),
            optimizer=self.torch,
            config=settings(config),
            dist_init_required=False,
        )
        self.losses = self._engine
        for parameter, value in exact.items():
            set_whole(parameter, value)
        # What it keeps gathered between two steps, an evaluation in float32 reads, too.
        self._rounded = [
            each
            for each in rounded_in_products(method)
            if self._kind and not getattr(each, "ds_persist", True)
        ]
        self._names = {id(value): name for name, value in method.named_parameters()}
        self._usual: set[int] | None = None
        """The parameters that a batch of the stage reaches; None: it has had none"""
        self._reached: set[int] = set()
        """Parameters that the last batch has reached"""
        self._hooks = [
            each.register_post_accumulate_grad_hook(self._note)  # type: ignore[no-untyped-call]
            for each in self.parameters
        ]

    def _round(self, method: nn.Module, config: TrainingConfig) -> dict[nn.Parameter, Tensor]:
        """Round the weights that only products read; their float32 values, in the CPU's memory.

        Each rank steps on float32 values of its share of them, and products are those of float32
        weights. They stay float32 where the engine says so, and where nothing else trains.
        """
        trained = [each for each in rounded_in_products(method) if each.requires_grad]
        rounded = cast("set[nn.Parameter]", {*trained})
        may_round = self._kind is not None and config.keeps_rounded(self.stage)
        if not may_round or rounded == {*self.parameters}:
            return {}
        # DeepSpeed lays out a group as numbers of one type, and adds up all gradients in float32 if
        # the first group is rounded (ZeRO 1) or is not (ZeRO 2).
        first = config.zero == 1
        self.torch.param_groups[:] = [
            {**group, "params": members}
            for wanted in (first, not first)
            for group in self.torch.param_groups
            if (members := [each for each in group["params"] if (each in rounded) == wanted])
        ]
        self.peaks = [group["lr"] for group in self.torch.param_groups]
        exact = {each: each.data.cpu() for each in self.parameters if each in rounded}
        for each in exact:
            each.data = each.data.to(self._kind)
        return exact

    @contextmanager
    def accumulating(self, *, last: bool) -> Iterator[None]:
        # It takes every backward pass for the last one of a step, and forgets those before it.
        self._engine.set_gradient_accumulation_boundary(last)
        for layer in self._rounded:
            layer.comm_dtype = self._kind  # type: ignore[attr-defined]
        yield
        for layer in self._rounded:
            del layer.comm_dtype  # type: ignore[attr-defined]

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss. Raises TrialFailure when it reaches other parameters.

        DeepSpeed would count a gradient that another batch of the step gave once more, or never.
        """
        self._reached.clear()
        self._engine.backward(loss, scale_wrt_gas=False)
        self._usual = self._usual or {*self._reached}
        if different := self._usual ^ self._reached:
            name = min(self._names[each] for each in different)
            raise TrialFailure(
                f"engine: deepspeed needs batches that all give the same parameters a gradient, "
                f"and only some give {name} one; set engine=ddp"
            )

    def _note(self, parameter: Tensor) -> None:
        self._reached.add(id(parameter))

    def step(self, step: int) -> Tensor | None:
        self.set_rates(step)
        self._engine.step()
        norm = self._engine.get_global_grad_norm()  # of all ranks; a number where it has overflowed
        return None if norm is None else torch.as_tensor(norm)

    def tensors(self) -> dict[str, Tensor]:
        from deepspeed.utils import safe_get_full_optimizer_state

        steps = [values["step"] for values in self.torch.state.values()]
        if steps:
            self._link_states()
        tensors = {}
        for number, parameter in enumerate(self._numbered if steps else ()):
            tensors[f"{number}/step"] = steps[0]
            for name in self._moments:
                tensors[f"{number}/{name}"] = safe_get_full_optimizer_state(parameter, name)
        return tensors

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        from deepspeed.utils import safe_set_full_optimizer_state

        zero = self._engine.optimizer
        shards = getattr(zero, "fp32_partitioned_groups_flat", None)
        for shard in shards or zero.single_partition_of_fp32_groups:
            moments = {name: torch.zeros_like(shard) for name in self._moments}
            self.torch.state[shard] = {"step": tensors["0/step"].clone(), **moments}
        self._link_states()
        for number, parameter in enumerate(self._numbered):
            for name in self._moments:
                value = tensors[f"{number}/{name}"].to(parameter.device)
                safe_set_full_optimizer_state(parameter, value, name)

    def _link_states(self) -> None:
        """Let DeepSpeed find the state of every parameter.

        ZeRO 1 and 2 look for it once, after the step of the first group, when no other has any.
        """
        zero = self._engine.optimizer
        if hasattr(zero, "_hp_optimizer_states_linked"):
            zero._hp_optimizer_states_linked = False
            zero._lazy_init_hp_params_optimizer_state()

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        exact = {each: whole(each) for each in self.parameters if is_rounded(each)}
        self._engine.destroy()
        for parameter, value in exact.items():
            parameter.data = value.to(parameter.device)


def sent_as(config: TrainingConfig, device: torch.device) -> torch.dtype | None:
    """The numbers to which products round in the precision of a configuration; None: to none.

    Weights that only products read may be sent as these numbers, which changes no result. They are
    not where something is computed in float32, as an evaluation is.
    """
    return ROUNDED.get(resolve_precision(config.precision, device))


def shard(method: nn.Module, config: TrainingConfig, device: torch.device) -> None:
    """Leave each rank its part of every parameter of `method`, which is in the CPU's memory.

    The parameters go to the device one at a time (fsdp: a layer at a time), so that it never has
    more than its part and one of them. All ranks call this together. Raises UserError when
    DeepSpeed is not installed.
    """
    if config.engine == "fsdp":
        fully_sharded.shard(method, device, sent_as(config, device))
        return
    # From here on, linear layers of this process are DeepSpeed's, until it leaves the other ranks.
    library().zero.Init(module=method, config_dict_or_path=settings(config))
    for module in method.modules():
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, buffer.to(device))


@contextmanager
def passes(method: Method[Any], config: TrainingConfig) -> Iterator[None]:
    """In the block, modules with ZeRO's weights can run; a stage does the same for its steps."""
    engine, _, _, _ = library().initialize(
        model=Losses(method, config), config=settings(config), dist_init_required=False
    )
    try:
        yield
    finally:
        engine.destroy()


def library() -> Any:
    """DeepSpeed. Raises UserError when it is not installed."""
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # else it says that it looked for others
    # Its autotuner, which nobody calls here, would import mlflow for a second of a processor.
    hidden = sys.modules.setdefault("mlflow", None) is None  # type: ignore[arg-type]
    try:
        with extra("deepspeed", "the engine"):
            import deepspeed
    finally:
        if hidden:
            del sys.modules["mlflow"]
    # It calls torch by names that torch will change; a user can do nothing about it.
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    # It asks the environment which GPU of the machine is this process's.
    gpu = torch.cuda.current_device() if torch.cuda.is_available() else 0
    os.environ[LOCAL_RANK] = str(gpu)
    # On a CPU it would compile a kernel for minutes, which serves processes of one machine alone.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed


def settings(config: TrainingConfig) -> dict[str, Any]:
    """Configuration of DeepSpeed, with the user's own entries."""
    zero: dict[str, Any] = {"stage": config.zero}
    if config.offload_optimiser:
        zero["offload_optimizer"] = {"device": "cpu"}
    if config.offload_parameters:
        zero["offload_param"] = {"device": "cpu"}
    ours = {
        "train_micro_batch_size_per_gpu": 1,  # it is needed and only counted
        "gradient_accumulation_steps": 1,
        "gradient_clipping": config.gradient_clipping,  # without it, DeepSpeed clips at 1
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 2**62,
    }
    merge(ours, config.deepspeed or {})
    return ours


ENGINES: dict[EngineName, type[StageOptimiser]] = {
    "single": StageOptimiser,
    "ddp": DataParallelOptimiser,
    "deepspeed": ZeroOptimiser,
    "fsdp": FullyShardedOptimiser,
}


def placed(kit: Kit) -> Method[Any]:
    """The method of a kit, on the kit's device; of sharded weights, each rank has its part."""
    method: Method[Any] = kit.build()
    if _shards(kit.config):
        shard(method, kit.config, kit.device)
    return method


@contextmanager
def before_training(method: Method[Any], kit: Kit) -> Iterator[None]:
    """In the block, a method that no stage has trained yet can embed sentences."""
    if not _shards(kit.config):
        yield
        return
    ready = nullcontext() if kit.config.engine == "fsdp" else passes(method, kit.config)
    with ready, readable(method):
        yield


def _shards(config: MethodConfig) -> TypeGuard[TrainingConfig]:
    return isinstance(config, TrainingConfig) and config.shards_weights and has_ranks()


def stage_optimiser(
    stage: Stage, method: Method[Any], config: TrainingConfig, steps: int, scaling: str | None
) -> StageOptimiser:
    """The optimiser of a stage under the engine of the configuration.

    The arguments are those of `StageOptimiser`. A process that has joined no others trains alone.
    """
    if config.cuda_graphs:
        return CapturedOptimiser(stage, method, config, steps, scaling)
    kind = ENGINES[config.engine] if has_ranks() else StageOptimiser
    return kind(stage, method, config, steps, scaling)
