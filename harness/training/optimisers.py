"""The optimisers and learning-rate schedules of the papers, by the names that a stage uses."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from harness.plugin.config import TrainingConfig
from harness.plugin.stage import OptimiserName, ScheduleName, Stage
from harness.training.parameters import count, trainable

Groups = list[dict[str, Any]]


class ReleasedAdamW(torch.optim.Optimizer):
    """AdamW as the transformers library had it until version 4: epsilon is added before the bias correction, and the
    correction can be left out. torch's own adds it afterwards and always corrects. Betas 0.9 and 0.999."""

    def __init__(
        self, groups: Groups, *, epsilon: float, correct_bias: bool, weight_decay: float = 0.0
    ) -> None:
        super().__init__(groups, {"lr": 1e-3, "weight_decay": weight_decay})
        self.epsilon, self.correct_bias = epsilon, correct_bias

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = (
                torch.zeros_like(parameter),
                torch.zeros_like(parameter),
            )
        state["step"] += 1
        step = int(state["step"])
        state["exp_avg"].lerp_(gradient, 0.1)
        state["exp_avg_sq"].mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        rate = group["lr"]
        if self.correct_bias:
            rate *= math.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        parameter.addcdiv_(
            state["exp_avg"], state["exp_avg_sq"].sqrt().add_(self.epsilon), value=-rate
        )
        parameter.mul_(1 - group["lr"] * group["weight_decay"])


class Lars(torch.optim.Optimizer):
    """SGD with momentum 0.9 whose step is scaled, per weight matrix, to 0.001 of the matrix's norm times the learning
    rate (You et al. 2017, as SimCLR uses it: the momentum holds steps, so an old one keeps the rate that it was made
    with). Biases have neither the scaling nor the decay."""

    def __init__(self, groups: Groups, *, weight_decay: float = 0.0) -> None:
        super().__init__(groups, {"lr": 0.1, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        if parameter.dim() > 1:
            gradient = gradient + group["weight_decay"] * parameter
            norm, size = gradient.norm(), parameter.norm()
            gradient = gradient * torch.where((norm > 0) & (size > 0), 0.001 * size / norm, 1.0)
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].mul_(0.9).add_(gradient, alpha=group["lr"])
        parameter.sub_(state["momentum"])


def parameter_groups(named: dict[str, list[nn.Parameter]], config: TrainingConfig) -> Groups:
    """Learning-rate field -> parameters, as optimiser groups.

    Biases and LayerNorm weights have no weight decay.
    """
    groups: Groups = []
    for field, parameters in named.items():
        rate = getattr(config, field)
        if config.weight_decay == 0:
            groups.append({"params": parameters, "lr": rate})
            continue
        decaying = [parameter for parameter in parameters if parameter.dim() > 1]
        plain = [parameter for parameter in parameters if parameter.dim() <= 1]
        for members, decay in ((decaying, config.weight_decay), (plain, 0.0)):
            if members:
                groups.append({"params": members, "lr": rate, "weight_decay": decay})
    return groups


def optimiser(name: OptimiserName, groups: Groups, weight_decay: float) -> torch.optim.Optimizer:
    """The optimiser called `name`.

    adamw: torch's, epsilon 1e-8. adamw-uncorrected: epsilon 1e-6, no bias correction (ConSERT,
    SBERT, BERT-flow). adamw-released: that of the old transformers library with correction, epsilon
    1e-8 (DiffAug's released rule). lars: CLSR.
    """
    if name == "adamw":
        return torch.optim.AdamW(groups, weight_decay=weight_decay, fused=True)
    if name == "lars":
        return Lars(groups, weight_decay=weight_decay)
    corrected = name == "adamw-released"
    return ReleasedAdamW(
        groups,
        epsilon=1e-8 if corrected else 1e-6,
        correct_bias=corrected,
        weight_decay=weight_decay,
    )


def rate_factor(name: ScheduleName, step: int, warmup: int, total: int) -> float:
    """What the peak rate is multiplied by at a step (from 0).

    Linear warm-up from 0 over `warmup` steps, then linear or cosine decay to 0 at step `total`, or
    no decay.
    """
    if step < warmup:
        return step / warmup
    if name == "constant":
        return 1.0
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    return 1.0 - done if name == "linear" else 0.5 * (1 + math.cos(math.pi * done))


LOSS_SCALE = 65536.0
"""The scale with which torch's fp16 loss scaling starts"""


def clip(parameters: list[nn.Parameter], largest: float) -> None:
    """Scale the gradients so that their joint norm is at most `largest`."""
    nn.utils.clip_grad_norm_(parameters, largest)


def clip_released(
    parameters: list[nn.Parameter], frozen: list[nn.Parameter], largest: float
) -> None:
    """DiffAug's released stage 1 (diffaug.md, section 3.1), emulated in float32: the norm that is clipped includes the
    gradients of all other parameters, still multiplied by fp16's loss scale, so the trainable ones become tiny."""
    norm = (_square(parameters) + LOSS_SCALE**2 * _square(frozen)).sqrt()
    factor = (largest / (norm + 1e-6)).clamp(max=1.0)
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.mul_(factor)


def _square(parameters: list[nn.Parameter]) -> Tensor:
    squares = [
        parameter.grad.float().square().sum()
        for parameter in parameters
        if parameter.grad is not None
    ]
    return torch.stack(squares).sum() if squares else torch.zeros(())


class StageOptimiser:
    """The optimiser of a stage, its schedule, its clipping rule, and what it works on."""

    def __init__(self, stage: Stage, method: nn.Module, config: TrainingConfig, steps: int) -> None:
        """`steps`: of the stage. Freezes every parameter that the stage does not train."""
        groups = trainable(method, stage)
        self.stage, self.largest_norm = stage, config.gradient_clipping
        self.parameters = [parameter for group in groups.values() for parameter in group]
        self.trainable_count = count(method, trained=True)
        self.frozen: list[nn.Parameter] = []
        how = stage.optimisation
        if how.clipping == "released":  # its rule needs the gradients of what it does not train
            self.frozen = [each for each in method.parameters() if not each.requires_grad]
            for parameter in self.frozen:
                parameter.requires_grad_(True)
        self.torch = optimiser(how.optimiser, parameter_groups(groups, config), config.weight_decay)
        self.peaks = [group["lr"] for group in self.torch.param_groups]
        self.warmup = math.ceil(config.warmup_ratio * steps)
        self.decay_steps = how.decay_steps or steps

    def step(self, step: int) -> None:
        """Clip, change the parameters at the schedule's rate, and forget the gradients."""
        if self.stage.optimisation.clipping == "released":
            clip_released(self.parameters, self.frozen, self.largest_norm)
        else:
            clip(self.parameters, self.largest_norm)
        schedule = self.stage.optimisation.schedule
        factor = rate_factor(schedule, step, self.warmup, self.decay_steps)
        for group, peak in zip(self.torch.param_groups, self.peaks, strict=True):
            group["lr"] = peak * factor
        self.torch.step()
        for parameter in (*self.parameters, *self.frozen):
            parameter.grad = None
