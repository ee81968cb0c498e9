"""The optimisers and learning-rate schedules of the papers, by the names that a stage uses."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from harness.method import OptimiserName, ScheduleName

Groups = list[dict[str, Any]]


class ReleasedAdamW(torch.optim.Optimizer):
    """AdamW as the transformers library had it until version 4: epsilon is added before the bias correction, and the
    correction can be left out. torch's own adds it afterwards and always corrects. Betas 0.9 and 0.999."""

    def __init__(self, groups: Groups, *, epsilon: float, correct_bias: bool, weight_decay: float = 0.0) -> None:
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
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        state["step"] += 1
        step = int(state["step"])
        state["exp_avg"].lerp_(gradient, 0.1)
        state["exp_avg_sq"].mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        rate = group["lr"]
        if self.correct_bias:
            rate *= math.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        parameter.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(self.epsilon), value=-rate)
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


def parameter_groups(named: dict[str, list[nn.Parameter]], config: Any) -> Groups:
    """Learning-rate field -> parameters, as optimiser groups; biases and LayerNorm weights have no weight decay."""
    groups = []
    for field, parameters in named.items():
        rate = getattr(config, field)
        decaying = [parameter for parameter in parameters if parameter.dim() > 1]
        plain = [parameter for parameter in parameters if parameter.dim() <= 1]
        if config.weight_decay == 0:
            groups.append({"params": parameters, "lr": rate})
            continue
        for members, decay in ((decaying, config.weight_decay), (plain, 0.0)):
            if members:
                groups.append({"params": members, "lr": rate, "weight_decay": decay})
    return groups


def optimiser(name: OptimiserName, groups: Groups, weight_decay: float) -> torch.optim.Optimizer:
    """The optimiser called `name`.

    adamw: torch's, epsilon 1e-8. adamw-uncorrected: epsilon 1e-6, no bias correction (ConSERT, SBERT, BERT-flow).
    adamw-released: the old library's with correction, epsilon 1e-8 (DiffAug's released rule). lars: CLSR.
    """
    if name == "adamw":
        return torch.optim.AdamW(groups, weight_decay=weight_decay, fused=True)
    if name == "lars":
        return Lars(groups, weight_decay=weight_decay)
    corrected = name == "adamw-released"
    return ReleasedAdamW(groups, epsilon=1e-8 if corrected else 1e-6, correct_bias=corrected, weight_decay=weight_decay)


def rate_factor(name: ScheduleName, update: int, warmup: int, total: int) -> float:
    """What the peak rate is multiplied by at an update: linear warm-up from 0 over `warmup` updates, then linear or
    cosine decay to 0 at update `total`, or no decay."""
    if update < warmup:
        return update / warmup
    if name == "constant":
        return 1.0
    done = min(1.0, (update - warmup) / max(1, total - warmup))
    return 1.0 - done if name == "linear" else 0.5 * (1 + math.cos(math.pi * done))
