"""The flow against frozen_maps.md, section 1: its inverse, determinant, likelihood and start."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from methods.flow.flow import ActNorm, Flow, FlowStep

PERMUTATIONS = ["reverse", "invertible"]


def random_flow(width: int, permutation: Any, levels: int = 3, steps: int = 2) -> Flow:
    """A flow in float64 whose parameters have all left their start."""
    torch.manual_seed(width)
    flow = (
        Flow(width, levels=levels, steps=steps, coupling_width=5, permutation=permutation)
        .double()
        .eval()
    )
    for parameter in flow.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return flow


def jacobian(flow: Flow, vector: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = torch.autograd.functional.jacobian(lambda x: flow(x[None])[0][0], vector)
    return found


@pytest.mark.parametrize("width", [16, 13])
@pytest.mark.parametrize("permutation", PERMUTATIONS)
def test_log_determinant_is_the_jacobians(width: int, permutation: str) -> None:
    flow = random_flow(width, permutation)
    vectors = torch.randn(3, width, dtype=torch.float64)
    for vector in vectors:
        assert flow(vectors)[1].item() == pytest.approx(
            jacobian(flow, vector).slogdet().logabsdet.item(), abs=1e-9
        )


def undone(step: Any, output: torch.Tensor) -> torch.Tensor:
    """The inverse of a step."""
    first, second = output[:, : step.middle], output[:, step.middle :]
    mixed = torch.cat([first, second - step.network(first)], dim=1)
    if step.mixing is None:
        mixed = mixed[:, torch.arange(mixed.shape[1] - 1, -1, -1)]
    else:
        mixed = torch.linalg.solve(step.mixing(torch.eye(mixed.shape[1]).double()).T, mixed.T).T
    return mixed / (3 * step.norm.log_scale).exp() - step.norm.bias


@torch.no_grad()
@pytest.mark.parametrize("width", [16, 13])
@pytest.mark.parametrize("permutation", PERMUTATIONS)
def test_it_can_be_undone(width: int, permutation: str) -> None:
    """The output of the last level comes first, then what left after the first and the second."""
    flow = random_flow(width, permutation)
    vectors = torch.randn(7, width, dtype=torch.float64)
    widths = [width, width // 2, width // 4]
    left = flow(vectors)[0].split([widths[2], widths[0] - widths[1], widths[1] - widths[2]], dim=1)
    recovered = left[0]
    for level, leaving in ((2, None), (1, left[2]), (0, left[1])):
        recovered = recovered if leaving is None else torch.cat([recovered, leaving], dim=1)
        for number in (2 * level + 1, 2 * level):
            recovered = undone(flow.steps[number], recovered)
    assert (recovered - vectors).abs().max() < 1e-9
    assert (flow(vectors)[0] - vectors).abs().max() > 0.1


@pytest.mark.parametrize("permutation", PERMUTATIONS)
def test_bits_per_dimension(permutation: str) -> None:
    """-(log N(z) + log |det|) / (d ln 2), with the determinant from autograd."""
    flow = random_flow(16, permutation)
    vectors = torch.randn(5, 16, dtype=torch.float64)
    total = 0.0
    for vector in vectors:
        latent = flow(vector[None])[0][0].detach().numpy()
        normal = float(-0.5 * (latent**2).sum() - 8 * math.log(2 * math.pi))
        total -= (normal + jacobian(flow, vector).slogdet().logabsdet.item()) / (16 * math.log(2))
    assert flow.bits_per_dimension(vectors).item() == pytest.approx(total / 5, rel=1e-9)


def test_bits_of_the_first_training_batch() -> None:
    """The scales that the batch itself sets are in its likelihood."""
    torch.manual_seed(0)
    flow = Flow(16, levels=3, steps=2, coupling_width=5, permutation="reverse").double().train()
    vectors = 0.1 * torch.randn(50, 16, dtype=torch.float64)
    first = flow.bits_per_dimension(vectors).item()
    assert first == pytest.approx(flow.bits_per_dimension(vectors).item(), rel=1e-12)


def test_a_step_written_out() -> None:
    """ActNorm, a reversal, an additive coupling of three layers with ReLU, ActNorm and a scale."""
    torch.manual_seed(0)
    step = FlowStep(6, 4, "reverse").double().eval()
    for parameter in step.parameters():
        parameter.data = 0.3 * torch.randn_like(parameter)
    state = {name: value.numpy() for name, value in step.state_dict().items()}
    vectors = np.random.default_rng(1).standard_normal((5, 6))

    def normed(values: np.ndarray, name: str) -> np.ndarray:
        return np.asarray((values + state[f"{name}.bias"]) * np.exp(3 * state[f"{name}.log_scale"]))

    turned = normed(vectors, "norm")[:, ::-1]
    hidden = np.maximum(0, normed(turned[:, :3] @ state["network.0.weight"].T, "network.1"))
    hidden = np.maximum(0, normed(hidden @ state["network.3.weight"].T, "network.4"))
    shift = (hidden @ state["network.6.weight"].T + state["network.6.bias"]) * np.exp(
        3 * state["network.6.log_scale"]
    )
    expected = np.concatenate([turned[:, :3], turned[:, 3:] + shift], axis=1)
    np.testing.assert_allclose(step(torch.tensor(vectors))[0].detach().numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("permutation", PERMUTATIONS)
def test_the_first_training_batch_sets_every_actnorm(permutation: Any) -> None:
    """Mean 0 and variance 1, also inside the couplings; later batches set nothing."""
    torch.manual_seed(0)
    flow = Flow(16, levels=3, steps=2, coupling_width=5, permutation=permutation)
    norms = [module for module in flow.modules() if isinstance(module, ActNorm)]
    assert len(norms) == 3 * 2 * 3
    outputs: dict[ActNorm, torch.Tensor] = {}
    for norm in norms:
        norm.register_forward_hook(
            lambda module, _, output: outputs.__setitem__(module, output.detach())
        )  # type: ignore[arg-type]
    vectors = 4 + 3 * torch.randn(50, 16) @ torch.randn(16, 16)
    flow.eval()(vectors)
    assert all(norm.bias.eq(0).all() and norm.log_scale.eq(0).all() for norm in norms)
    flow.train()(vectors)
    for norm in norms:
        assert outputs[norm].mean(dim=0).abs().max() < 1e-4
        varying = outputs[norm].std(dim=0, correction=0)
        assert (varying - 1).abs().max() < 1e-3
    fitted = [norm.bias.detach().clone() for norm in norms]
    flow(torch.randn(50, 16))
    assert all(torch.equal(norm.bias, bias) for norm, bias in zip(norms, fitted, strict=True))


def test_the_coupling_starts_at_zero_and_the_permutation_is_a_reversal() -> None:
    flow = Flow(8, levels=1, steps=1, coupling_width=5, permutation="reverse").eval()
    vectors = torch.randn(3, 8)
    assert flow(vectors)[0].equal(vectors.flip(1))
    assert flow(vectors)[1].item() == 0


def test_the_learned_map_starts_as_a_rotation() -> None:
    torch.manual_seed(0)
    flow = Flow(8, levels=1, steps=1, coupling_width=5, permutation="invertible").eval()
    matrix = flow(torch.eye(8))[0]
    assert (matrix @ matrix.T - torch.eye(8)).abs().max() < 1e-5
    assert flow(torch.eye(8))[1].item() == pytest.approx(0, abs=1e-5)


def test_parameters_of_the_default_on_base_vectors() -> None:
    """768 channels have three levels of the widths 768, 384 and 192."""
    flow = Flow(768, levels=3, steps=3, coupling_width=32, permutation="reverse")
    expected = 0
    for width in (768, 384, 192):
        half = width // 2
        expected += 3 * (2 * width + half * 32 + 64 + 32 * 32 + 64 + 32 * half + 2 * half)
    assert sum(parameter.numel() for parameter in flow.parameters()) == expected == 151_488
