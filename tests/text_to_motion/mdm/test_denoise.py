"""All steps of a plan at once, the state in tokens: what one prediction after another gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from motionkit.nn import adapter_parameters, add_adapters
from motionkit.rl import DDIM, DDPM, NoiseSource, StepPlan, length_mask
from motionkit.text import Prompt
from motionkit.text_to_motion.generating import sample, sample_by_length
from motionkit.text_to_motion.mdm.policy import MDMPolicy
from motionkit.text_to_motion.policy import DiffusionPolicy

Make = Callable[..., MDMPolicy]

# Lengths that end inside a token and at its end, one shorter than a token.
PROMPTS = [
    Prompt(("a person walks", "a person waves"), (14, 11), "a"),
    Prompt(("a person kicks",), (32,), "b"),
    Prompt(("a person jumps",), (3,), "c"),
]
SHAPES = {
    "starter": {"patch_size": 4, "patch_overlap": True, "clause_frames": True, "mask_frames": True},
    "patches": {"patch_size": 3, "mask_frames": True},
    "released": {"mask_frames": True},
    "decoder": {"arch": "trans_dec", "patch_size": 2, "mask_frames": True},
    "full": {"patch_size": 5, "patch_overlap": False, "padding": "full"},
}


def both(policy: MDMPolicy, plan: StepPlan, guidance: float) -> list[tuple[Tensor, list[Tensor]]]:
    """Return motions inside their lengths, and gradients of the adapters, by steps one after another and at once."""
    lengths = torch.tensor([prompt.length for prompt in PROMPTS])
    keys = torch.arange(len(PROMPTS))
    shape, source = (policy.frames(lengths), 263), NoiseSource(0)
    start, noise = source.start(0, keys, keys, shape), source.steps(0, keys, keys, shape, lengths)
    mask = length_mask(lengths, shape[0])[..., None]
    condition, result = policy.condition(PROMPTS), []
    for kind in (DiffusionPolicy, MDMPolicy):
        x0 = kind.denoise(policy, start, plan, condition, lengths, guidance=guidance, noise=noise)
        assert x0.shape == start.shape
        inside = x0.masked_fill(~mask, 0.0)
        gradients = torch.autograd.grad((inside * torch.cos(start)).sum(), adapter_parameters(policy.network))
        result.append((inside.detach(), list(gradients)))
    return result


@pytest.mark.parametrize("guidance", [1.0, 2.5])
@pytest.mark.parametrize("noisy", [False, True], ids=["ode", "sde"])
@pytest.mark.parametrize("shape", SHAPES)
def test_steps_at_once_are_steps_one_after_another(shape: str, noisy: bool, guidance: float, make_policy: Make) -> None:
    policy = make_policy(diffusion_steps=20, **SHAPES[shape])
    add_adapters(policy.network, r=2, seed=1)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in policy.network.parameters():  # biases are 0 in a new network
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=draw))
    plan = StepPlan.build(policy.schedule, DDPM() if noisy else DDIM(0.0), steps=5)
    (plain, gradients), (found, others) = both(policy, plan, guidance)
    assert float(plain.std()) > 0.05
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-4 * float(plain.abs().max()))
    one, two = (torch.cat([part.flatten() for part in parts]) for parts in (others, gradients))
    assert float((one - two).norm()) < 1e-4 * float(two.norm())


def test_the_frames_past_a_motion_change_nothing(make_policy: Make) -> None:
    policy = make_policy(diffusion_steps=20, **SHAPES["starter"])
    lengths = torch.tensor([prompt.length for prompt in PROMPTS])
    plan = StepPlan.build(policy.schedule, DDIM(0.0), steps=5)
    start = torch.randn(3, 32, 263, generator=torch.Generator().manual_seed(0))
    mask = length_mask(lengths, 32)[..., None]
    condition = policy.condition(PROMPTS)
    with torch.no_grad():
        one, two = (
            policy.denoise(start.masked_fill(~mask, value), plan, condition, lengths).masked_fill(~mask, 0.0)
            for value in (0.0, torch.nan)
        )
    assert torch.equal(one, two)


def test_motions_sampled_by_length_are_those_sampled_together(make_policy: Make) -> None:
    policy = make_policy(diffusion_steps=20, **SHAPES["starter"])
    prompts = [
        Prompt((f"text {number}",), (length,), str(number)) for number, length in enumerate((21, 9, 30, 9, 14, 40, 3))
    ]
    plan = StepPlan.build(policy.schedule, DDPM(), steps=4)
    with torch.no_grad():
        together, apart = (
            function(policy, prompts, plan, NoiseSource(0), samples=3, guidance=2.0, step=-1)
            for function in (sample, sample_by_length)
        )
    assert apart.prompts == together.prompts
    for name in ("lengths", "groups", "mask"):
        assert torch.equal(getattr(apart, name), getattr(together, name)), name
    assert torch.equal(apart.condition.text, together.condition.text)
    inside = together.mask[..., None]
    for one, two in ((apart.rollout.x0, together.rollout.x0), (apart.motions.features, together.motions.features)):
        torch.testing.assert_close(one * inside, two * inside, rtol=1e-4, atol=1e-4)
    assert float((apart.rollout.x0 * inside)[0].std()) > 0.1


def test_mixed_precision_takes_one_step_after_another(make_policy: Make) -> None:
    policy = make_policy(diffusion_steps=20, **SHAPES["starter"])
    policy.autocast = torch.bfloat16
    lengths = torch.tensor([prompt.length for prompt in PROMPTS])
    plan = StepPlan.build(policy.schedule, DDIM(0.0), steps=3)
    start, condition = torch.randn(3, 32, 263), policy.condition(PROMPTS)
    with torch.no_grad():
        found = policy.denoise(start, plan, condition, lengths)
        plain = DiffusionPolicy.denoise(policy, start, plan, condition, lengths)
    assert torch.equal(found, plain)
