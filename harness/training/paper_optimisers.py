"""The optimisers of the papers that torch does not have."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

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
            parameters = [each for each in group["params"] if each.grad is not None]
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
            members = [each for each in group["params"] if each.grad is not None]
            matrices = [each for each in members if each.dim() > 1]
            if matrices:
                gradients = self._scaled_gradients(matrices, group["weight_decay"])
                self._move(matrices, gradients, group["lr"])
            if biases := [each for each in members if each.dim() <= 1]:
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
