"""The contracts of diffusion policies and of algorithms of `grpo`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from motionkit import plugins
from motionkit.config import choose_one
from motionkit.contracts.reward import Reward, RewardScores
from motionkit.motion import MotionBatch
from motionkit.plugins import Component
from motionkit.testing import TEXTS, Findings, check_component, component_of, is_near, options_of
from motionkit.text import Prompt
from motionkit.text_to_motion.grpo.api import GRPO
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.tracking import definition

_PROMPTS = [Prompt((text,), (40,), key=text) for text in TEXTS[:2]]


def check_diffusion_policy(policy: str | Component | DiffusionPolicy, *, options: dict[str, Any] | None = None) -> None:
    """Check what samplers and GRPO rely on in every diffusion policy.

    It predicts ``[N, T, D]`` float32, finite where motions are valid; padding, NaN included, and the other samples of
    the batch change nothing; guidance 1 is the conditional prediction; the network is in eval mode, and training it is
    possible (a gradient reaches its parameters).

    Args:
        policy: Its name, its component, or a loaded policy.
        options: Options to build it with.

    Raises:
        AssertionError: Lists all violations, a sentence each.
    """
    if isinstance(policy, (str, Component)):
        component = component_of("policies", policy)
        policy = cast(
            "DiffusionPolicy", plugins.build("policies", component, options_of(component, options), device="cpu")
        )
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


class _Height(Reward):
    """Mean height of the root: a reward with a gradient."""

    name = "height"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        height = torch.where(motions.mask, motions.joints[..., 0, 1], 0.0)  # [N, T]
        return RewardScores(total=height.sum(1) / motions.lengths)


def check_algorithm(name: str, *, options: Mapping[str, Any] | None = None) -> None:
    """Check what `grpo` relies on in every algorithm, by two updates of the starter policy.

    Each update changes the trained parameters and returns finite losses under metrics that `motionkit.tracking`
    defines; the same seed gives a bitwise equal update.

    Args:
        name: Name of the algorithm.
        options: Its options, by group: ``{"objective": {"inner_epochs": 2}}``.

    Raises:
        AssertionError: Lists all violations, a sentence each.
    """
    check_component("algorithms", name)
    findings = Findings(f"algorithm {name!r}")
    engine = _engine(name, options or {})
    rule = engine.algorithm
    findings.expect(rule.passes >= 1, f"passes must be at least 1, is {rule.passes}.")
    findings.expect(rule.samples >= 1, f"samples must be at least 1, is {rule.samples}.")
    findings.close()
    before = _weights(engine)
    metrics = engine.step(_PROMPTS) | engine.step(_PROMPTS)
    for metric, value in metrics.items():
        findings.expect(_is_defined(metric), f"The metric {metric!r} is not defined in motionkit.tracking.")
        loss = metric.startswith("loss/")
        findings.expect(not loss or math.isfinite(value), f"{metric} is {value} after two updates.")
    after = _weights(engine)
    findings.expect(not torch.equal(before, after), "Two updates leave all trained parameters as they were.")
    again = _engine(name, options or {})
    for _ in range(2):
        again.step(_PROMPTS)
    findings.expect(torch.equal(_weights(again), after), "The same seed gives other parameters after two updates.")
    findings.close()


def _engine(name: str, options: Mapping[str, Any]) -> GRPO:
    policy = choose_one("policies", "mdm", {"checkpoint": "starter"}).build()
    return GRPO(policy, _Height(), algorithm=choose_one("algorithms", name, options), seed=0)


def _weights(engine: GRPO) -> Tensor:
    """Return all trained parameters as one vector."""
    return torch.cat([parameter.detach().flatten() for _, parameter in engine.learner.trained])


def _is_defined(metric: str) -> bool:
    try:
        definition(metric)
    except KeyError:
        return False
    return True
