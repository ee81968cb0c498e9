"""The optimiser of a stage: learning-rate schedules, clipping and optimisers of the papers.

A stage names them (harness.plugin.stage.Optimisation).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from harness.data.batching import TextBatch
from harness.plugin.config import TrainingConfig
from harness.plugin.method import Method
from harness.plugin.stage import Optimisation, OptimiserName, ScheduleName, Stage
from harness.training.feeding import StepBatches
from harness.training.parameters import count, trainable, whole_shape

Groups = list[dict[str, Any]]


class ReleasedAdamW(torch.optim.Optimizer):
    """AdamW as the transformers library had it until version 4, with betas 0.9 and 0.999.

    It differs from torch's in two points: epsilon is added before the bias correction, not after
    it, and the correction can be left out (simcse.md, section 1.3; diffaug.md, section 3.1).
    """

    def __init__(
        self, groups: Groups, *, epsilon: float, correct_bias: bool, weight_decay: float = 0.0
    ) -> None:
        """Optimise `groups`; a group without a decay of its own has `weight_decay`."""
        super().__init__(groups, {"lr": 1e-3, "weight_decay": weight_decay})
        self.epsilon, self.correct_bias = epsilon, correct_bias

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Do one step on every parameter that has a gradient. `closure` is not called."""
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if parameters:
                self._step_group(parameters, group["lr"], group["weight_decay"])

    def _step_group(self, parameters: list[Tensor], rate: float, decay: float) -> None:
        states = [self._state_of(parameter) for parameter in parameters]
        gradients = gradients_of(parameters)
        means, squares = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq"))
        # A GPU would wait for the CPU at every parameter, so each line does all of them at once.
        torch._foreach_lerp_(means, gradients, 0.1)
        torch._foreach_mul_(squares, 0.999)
        torch._foreach_addcmul_(squares, gradients, gradients, 0.001)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, self.epsilon)
        rates = [-rate * self._correction(int(state["step"])) for state in states]
        torch._foreach_addcdiv_(parameters, means, roots, rates)
        # The old library decays after the step, and by the rate without the correction.
        torch._foreach_mul_(parameters, 1 - rate * decay)

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        """The state of a parameter, one step on."""
        state: dict[str, Tensor] = self.state[parameter]
        # The step is a tensor too, because the states of a shared stage are files of tensors.
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        return state

    def _correction(self, step: int) -> float:
        """The factor of the bias correction at a step, from 1."""
        return math.sqrt(1 - 0.999**step) / (1 - 0.9**step) if self.correct_bias else 1.0


class Lars(torch.optim.Optimizer):
    """SGD with momentum 0.9 and a rate of its own for each weight matrix (clsr.md, section 4).

    The gradient of a matrix is scaled to 0.001 of the norm of the matrix before the learning rate
    multiplies it. Biases have neither this scaling nor weight decay. The algorithm is LARS (You et
    al. 2017) in the form that SimCLR uses.
    """

    def __init__(self, groups: Groups, *, weight_decay: float = 0.0) -> None:
        """Optimise `groups`; a group without a decay of its own has `weight_decay`."""
        super().__init__(groups, {"lr": 0.1, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Do one step on every parameter that has a gradient. `closure` is not called."""
        for group in self.param_groups:
            members = [parameter for parameter in group["params"] if parameter.grad is not None]
            matrices = [parameter for parameter in members if parameter.dim() > 1]
            if matrices:
                gradients = self._scaled_gradients(matrices, group["weight_decay"])
                self._move(matrices, gradients, group["lr"])
            if biases := [parameter for parameter in members if parameter.dim() <= 1]:
                self._move(biases, gradients_of(biases), group["lr"])

    def _scaled_gradients(self, matrices: list[Tensor], decay: float) -> list[Tensor]:
        gradients = torch._foreach_add(gradients_of(matrices), matrices, alpha=decay)
        norms = torch.stack(torch._foreach_norm(gradients))
        sizes = torch.stack(torch._foreach_norm(matrices))
        # A matrix of zeros would never move, and a gradient of zeros would divide by 0.
        factors = torch.where((norms > 0) & (sizes > 0), 0.001 * sizes / norms, 1.0)
        return list(torch._foreach_mul(gradients, list(factors.unbind())))

    def _move(self, parameters: list[Tensor], gradients: list[Tensor], rate: float) -> None:
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        # SimCLR's momentum holds steps, not gradients: an old step keeps the rate it was made with.
        momenta = [self.state[parameter]["momentum"] for parameter in parameters]
        torch._foreach_mul_(momenta, 0.9)
        torch._foreach_add_(momenta, gradients, alpha=rate)
        torch._foreach_sub_(parameters, momenta)


def gradients_of(parameters: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of those parameters that have one."""
    return [each.grad for each in parameters if each.grad is not None]


def parameter_groups(
    named: dict[str, list[nn.Parameter]], config: TrainingConfig, how: Optimisation
) -> Groups:
    """Make optimiser groups of `named`: field with the learning rate -> parameters.

    Biases and the weights of layer norms have no weight decay, unless `how` lets all decay.
    """
    groups: Groups = []
    for field, parameters in named.items():
        rate = getattr(config, field)
        if config.weight_decay == 0 or how.decays == "all":
            groups.append({"params": parameters, "lr": rate})
            continue
        # Biases and the weights of norms are the parameters with one dimension.
        decaying = [parameter for parameter in parameters if len(whole_shape(parameter)) > 1]
        plain = [parameter for parameter in parameters if len(whole_shape(parameter)) <= 1]
        for members, decay in ((decaying, config.weight_decay), (plain, 0.0)):
            if members:
                groups.append({"params": members, "lr": rate, "weight_decay": decay})
    return groups


def optimiser(name: OptimiserName, groups: Groups, weight_decay: float) -> torch.optim.Optimizer:
    """The optimiser called `name`.

    - adamw: torch's, with epsilon 1e-8.
    - adamw-uncorrected: `ReleasedAdamW` without bias correction, with epsilon 1e-6 (ConSERT, SBERT,
      BERT-flow).
    - adamw-released: `ReleasedAdamW` with bias correction, with epsilon 1e-8 (diffaug.md, section
      3.1).
    - lars: `Lars` (clsr.md, section 4).
    - rmsprop: torch's, with a decay of 0.9 and epsilon 1e-7, as TensorFlow has them
      (contrastive_tension.md, section 2).
    """
    if name == "adamw":
        return torch.optim.AdamW(groups, weight_decay=weight_decay, fused=True)
    if name == "lars":
        return Lars(groups, weight_decay=weight_decay)
    if name == "rmsprop":
        return torch.optim.RMSprop(groups, weight_decay=weight_decay, alpha=0.9, eps=1e-7)
    corrected = name == "adamw-released"
    return ReleasedAdamW(
        groups,
        epsilon=1e-8 if corrected else 1e-6,
        correct_bias=corrected,
        weight_decay=weight_decay,
    )


def rate_factor(name: ScheduleName, step: int, warmup: int, total: int) -> float:
    """The factor of the peak rate at a step, from 0 to 1.

    `step` counts from 0. The factor rises linearly from 0 over `warmup` steps. Then it falls to 0
    at step `total`, linearly or as a cosine, or it stays at 1 (`constant`), or it
    falls by a fifth after every 500 steps until a fifth is left (`stepped`; contrastive_tension.md,
    section 2).
    """
    if step < warmup:
        return step / warmup
    if name == "constant":
        return 1.0
    if name == "stepped":
        return max(1, 5 - (step - warmup) // 500) / 5
    # A stage may be longer than `total`, since it may name its own `decay_steps`.
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    return 1.0 - done if name == "linear" else 0.5 * (1 + math.cos(math.pi * done))


LossFunction = Callable[[Mapping[str, TextBatch], Stage], dict[str, Tensor]]


class Done(NamedTuple):
    """Results of a step."""

    loss: Tensor
    """The mean loss of its batches, a scalar"""
    terms: list[Tensor]
    """Losses of the stage in its order, (losses,), for each batch"""
    norm: Tensor | None
    """The joint norm of the gradients before clipping, a scalar; None: it is not known"""


Compute = Callable[[Sequence[StepBatches]], Done]
"""The passes, the gradients and the update of a step on its batches"""
LOSS_SCALE = 65536.0
"""The factor with which torch's fp16 loss scaling (GradScaler) starts"""


def clip(parameters: list[nn.Parameter], largest: float) -> Tensor:
    """Scale the gradients so that their joint norm is at most `largest`; the norm before."""
    return nn.utils.clip_grad_norm_(parameters, largest)


def clip_released(
    parameters: list[nn.Parameter],
    frozen: list[nn.Parameter],
    largest: float,
    scale: float = LOSS_SCALE,
) -> Tensor:
    """Clip as DiffAug's released stage 1 does by accident.

    The norm includes the gradients of the frozen parameters, which fp16's loss scale still
    multiplies, so the gradients of the trainable ones become tiny (diffaug.md, section 3.1).
    `scale`: by how much those of the frozen ones are too small here. Returns the norm of the
    trainable ones before clipping.
    """
    own = _square(parameters)
    # The scaler watches the trained gradients alone: a frozen NaN stops the step, as inf does.
    norm = (own + scale**2 * _square(frozen)).sqrt().nan_to_num(nan=torch.inf, posinf=torch.inf)
    factor = (largest / (norm + 1e-6)).clamp(max=1.0)  # 1e-6 as in torch's clip_grad_norm_
    if gradients := gradients_of(parameters):
        torch._foreach_mul_(gradients, factor)
    return own.sqrt()


def _square(parameters: list[nn.Parameter]) -> Tensor:
    """The squared norm of all gradients together, in float32."""
    gradients = gradients_of(parameters)
    if not gradients:
        return torch.zeros(())
    return torch.stack(torch._foreach_norm(gradients)).float().square().sum()


class StageOptimiser:
    """The optimiser of a stage with its schedule, its clipping rule and its parameters."""

    def __init__(
        self,
        stage: Stage,
        method: Method[Any],
        config: TrainingConfig,
        steps: int,
        scaling: str | None = None,
    ) -> None:
        """Prepare `method` for a stage of `steps` steps.

        `scaling`: the kind of device on which losses are scaled, as fp16 needs it; None: they are
        not. Parameters that the stage does not train are frozen. Raises UserError when it trains
        none.
        """
        groups = trainable(method, stage)
        self.stage, self.largest_norm = stage, config.gradient_clipping
        self.parameters = [parameter for group in groups.values() for parameter in group]
        self.trainable_count = count(method, trained=True)
        self.frozen: list[nn.Parameter] = []
        how = stage.optimisation
        if how.clipping == "released":
            # The rule needs the gradients of parameters that do not train, so they are computed.
            self.frozen = [each for each in method.parameters() if not each.requires_grad]
            for parameter in self.frozen:
                parameter.requires_grad_(True)
        self.torch = optimiser(
            how.optimiser, parameter_groups(groups, config, how), config.weight_decay
        )
        # A scaled loss keeps small gradients from becoming 0 in fp16. A step whose gradients
        # overflow is left out, and halves the scale.
        self.scaler = torch.amp.GradScaler(scaling or "cpu", LOSS_SCALE, enabled=bool(scaling))
        self.peaks = [group["lr"] for group in self.torch.param_groups]
        self.peak_of: dict[str, float] = {field: getattr(config, field) for field in groups}
        self.rates: dict[str, float] = {}
        """Configuration field with the peak -> learning rate of the last step"""
        self.warmup = math.ceil(config.warmup_ratio * steps)
        self.decay_steps = how.decay_steps or steps
        self.losses: LossFunction = method.losses
        """A batch of each stream, stage -> loss -> scalar"""

    def computed(self, step: int, batches: Sequence[StepBatches], compute: Compute) -> Done:
        """Results of step number `step` of the stage, from 0: those of `compute` on its batches."""
        return compute(batches)

    def accumulating(self, *, last: bool) -> AbstractContextManager[object]:
        """A block with the losses and the gradients of one batch of a step; `last`: of its last."""
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss to those of the batches before it."""
        torch.autograd.backward(self.scaler.scale(loss))

    def step(self, step: int) -> Tensor | None:
        """Do step number `step` of the stage, from 0, and forget the gradients.

        Returns the joint norm of the gradients before clipping, a scalar of the device; None where
        the engine does not compute it.
        """
        self.set_rates(step)
        return self.update()

    def update(self) -> Tensor:
        """Do a step at the rates that are set, as `step` does."""
        self.scaler.unscale_(self.torch)
        norm = self.clip_gradients()
        self.scaler.step(self.torch)
        self.scaler.update()
        # The optimiser's own zero_grad would leave the gradients of the frozen parameters.
        for parameter in (*self.parameters, *self.frozen):
            parameter.grad = None
        return norm

    def clip_gradients(self) -> Tensor:
        """Clip the gradients by the rule of the stage; their joint norm before, a scalar."""
        if self.stage.optimisation.clipping == "released":
            scale = 1.0 if self.scaler.is_enabled() else LOSS_SCALE
            return clip_released(self.parameters, self.frozen, self.largest_norm, scale)
        return clip(self.parameters, self.largest_norm)

    def set_rates(self, step: int) -> None:
        """Set the learning rates of step number `step`."""
        schedule = self.stage.optimisation.schedule
        factor = rate_factor(schedule, step, self.warmup, self.decay_steps)
        for group, peak in zip(self.torch.param_groups, self.peaks, strict=True):
            self.set_rate(group, peak * factor)
        self.rates = {field: peak * factor for field, peak in self.peak_of.items()}

    def set_rate(self, group: dict[str, Any], rate: float) -> None:
        """Set the learning rate of a group of torch's optimiser."""
        group["lr"] = rate

    def tensors(self) -> dict[str, Tensor]:
        """NUMBER/NAME -> a tensor of the optimiser's state; parameters are numbered from 0."""
        return {
            f"{number}/{name}": value
            for number, values in self.torch.state_dict()["state"].items()
            for name, value in values.items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` gave, perhaps under another engine."""
        parameters = [each for group in self.torch.param_groups for each in group["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for place, value in tensors.items():
            number, _, name = place.partition("/")
            parameter = parameters[int(number)]
            # A fused optimiser needs its tensors laid out in memory as the parameter is.
            like = parameter if value.shape == parameter.shape else value
            state.setdefault(int(number), {})[name] = torch.empty_like(like).copy_(value)
        self.torch.load_state_dict({**self.torch.state_dict(), "state": state})

    def close(self) -> None:
        """Let go of the parameters, which another stage trains from now on."""
