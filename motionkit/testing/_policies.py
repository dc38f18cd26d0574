"""The contract of diffusion policies."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from motionkit.contracts.policy import DiffusionPolicy
from motionkit.plugins import Component
from motionkit.testing._component import Findings, check_component, check_of_others, component_of, options_of
from motionkit.testing._rewards import TEXTS, is_near
from motionkit.text import Prompt


def check_policy(policy: str | Component | DiffusionPolicy, *, options: dict[str, Any] | None = None) -> None:
    """Check what samplers and GRPO rely on in every diffusion policy; by name, a policy of another type by its check.

    It predicts ``[N, T, D]`` float32, finite where motions are valid; padding, NaN included, and the other samples of
    the batch change nothing; guidance 1 is the conditional prediction; the network is in eval mode, and training it is
    possible (a gradient reaches its parameters).

    Args:
        policy: Its name, its component, or a loaded policy.
        options: Options to build it with.

    Raises:
        AssertionError: Lists all violations, a sentence each.

    Example:
        >>> from motionkit import load_policy
        >>> check_policy(load_policy("starter"))
    """
    if isinstance(policy, str):
        check_component("policies", policy)
    if isinstance(policy, (str, Component)):
        component = component_of("policies", policy)
        if (other := check_of_others("policies", component)) is not None:
            return other(policy, options=options)
        policy = cast("DiffusionPolicy", component.build(options_of(component, options), device="cpu"))
    findings = Findings(f"policy {type(policy).__name__!r}")
    _check_diffusion(findings, policy)
    findings.close()


def _check_diffusion(findings: Findings, policy: DiffusionPolicy) -> None:
    findings.expect(
        not policy.network.training, "Its network must be in eval mode: dropout would break the ratio audit."
    )
    lengths = torch.tensor([40, 32])
    findings.expect(policy.max_length >= 40, f"max_length {policy.max_length} is too short to be of use.")
    prompts = [Prompt((text,), (int(n),), key=text) for text, n in zip(TEXTS, lengths.tolist(), strict=False)]
    noise = torch.randn(2, 40, policy.normalizer.width, generator=torch.Generator().manual_seed(0))
    predicted = _predict(policy, noise, prompts, lengths)
    if findings.expect(
        predicted.shape == noise.shape,
        f"predict must return [N, T, D] = {list(noise.shape)}, returned {list(predicted.shape)}.",
    ):
        _check_values(findings, policy, noise, prompts, lengths, predicted)
    _check_gradient(findings, policy, noise, prompts, lengths)


def _check_values(
    findings: Findings,
    policy: DiffusionPolicy,
    noise: Tensor,
    prompts: list[Prompt],
    lengths: Tensor,
    predicted: Tensor,
) -> None:
    valid = torch.arange(40) < lengths[:, None]
    findings.expect(predicted.dtype == torch.float32, f"predict must return float32, returned {predicted.dtype}.")
    findings.expect(bool(predicted[valid].isfinite().all()), "predict is not finite on valid frames.")
    dirty = noise.clone()
    dirty[~valid] = torch.nan
    padded = _predict(policy, dirty, prompts, lengths)
    findings.expect(is_near(padded[valid], predicted[valid]), "What stands in the padding changes the prediction.")
    alone = _predict(policy, noise[1:, :32], prompts[1:], lengths[1:])
    findings.expect(
        is_near(alone[0], predicted[1, :32]), "A sample predicted alone differs from the same sample in a batch."
    )
    guided = _predict(policy, noise, prompts, lengths, guidance=2.5)
    findings.expect(bool(guided[valid].isfinite().all()), "predict with guidance is not finite.")


def _check_gradient(
    findings: Findings, policy: DiffusionPolicy, noise: Tensor, prompts: list[Prompt], lengths: Tensor
) -> None:
    parameters = [p for p in policy.network.parameters() if p.requires_grad]
    if not findings.expect(bool(parameters), "No parameter of its network can be trained."):
        return
    with torch.enable_grad():
        out = policy.predict(noise, torch.zeros(2, dtype=torch.int64), policy.condition(prompts), lengths)
        gradients = torch.autograd.grad(out[:, :32].square().mean(), parameters, allow_unused=True)
    reached = any(gradient is not None and bool(gradient.abs().sum() > 0) for gradient in gradients)
    findings.expect(reached, "No gradient reaches its network's parameters.")


def _predict(
    policy: DiffusionPolicy, x: Tensor, prompts: list[Prompt], lengths: Tensor, guidance: float = 1.0
) -> Tensor:
    timestep = torch.full((x.shape[0],), 3, dtype=torch.int64)
    with torch.no_grad():
        return policy.predict(x, timestep, policy.condition(prompts), lengths, guidance=guidance)
