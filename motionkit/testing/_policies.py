"""The contract of a policy: of a diffusion policy here, of others in the modules beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.plugins import Component
from motionkit.policies.base import DiffusionPolicy, RegionPolicy
from motionkit.testing._component import check_component
from motionkit.testing._region_policies import check_region_policy, check_saved
from motionkit.testing._report import Findings, component_of, options_of
from motionkit.testing._samples import TEXTS
from motionkit.text import Prompt

TOLERANCE = 1e-4


def check_policy(
    policy: str | Component | DiffusionPolicy | RegionPolicy,
    *,
    options: dict[str, Any] | None = None,
    images: Sequence[NDArray[np.uint8]] | None = None,
    captions: Sequence[str] = (),
) -> None:
    """Check what samplers and GRPO rely on in every diffusion policy, and `sa2va-rl` in every region policy.

    Diffusion: it predicts ``[N, T, D]`` float32, finite where motions are valid; padding, NaN included, and the other
    samples of the batch change nothing; guidance 1 is the conditional prediction; the network is in eval mode, and
    training it is possible (a gradient reaches its parameters).

    Regions: captions follow from the noise alone, whatever is beside them; the log-probabilities of sampled words are
    finite, 0 behind the end, and the same alone and in a batch; so are masks; a gradient reaches each of its groups;
    its weights are put back as they were, and a saved folder opens with them.

    Args:
        policy: Its name, its component, or a policy that is loaded already.
        options: Options to build it with.
        images: Of a region policy: at least two images ``[H, W, 3]`` uint8 that it sees; the built-in shapes, 48 x 48
            pixels, by default.
        captions: Of a region policy: a text for each image in words that it knows.

    Raises:
        AssertionError: Lists all violations, a sentence each.

    Example:
        >>> from motionkit import load_policy
        >>> check_policy(load_policy("starter"))
    """
    if isinstance(policy, str):
        check_component("policies", policy)
    component: Component | None
    if isinstance(policy, (str, Component)):
        component = component_of("policies", policy)
        built = component.build(options_of(component, options), device="cpu")
    else:
        component, built = None, policy
    found = Findings(f"policy {type(built).__name__!r}")
    if hasattr(built, "sample_captions"):
        check_region_policy(found, cast("RegionPolicy", built), images, captions)
        if component is not None:
            check_saved(found, cast("RegionPolicy", built), component, options or {})
    else:
        _check_diffusion(found, cast("DiffusionPolicy", built))
    found.close()


def _check_diffusion(found: Findings, policy: DiffusionPolicy) -> None:
    found.expect(not policy.network.training, "Its network must be in eval mode: dropout would break the ratio audit.")
    lengths = torch.tensor([40, 32])
    found.expect(policy.max_length >= 40, f"max_length {policy.max_length} is too short to be of use.")
    prompts = [Prompt((text,), (int(n),), key=text) for text, n in zip(TEXTS, lengths.tolist(), strict=False)]
    noise = torch.randn(2, 40, policy.normalizer.width, generator=torch.Generator().manual_seed(0))
    predicted = _predict(policy, noise, prompts, lengths)
    if found.expect(
        predicted.shape == noise.shape,
        f"predict must return [N, T, D] = {list(noise.shape)}, returned {list(predicted.shape)}.",
    ):
        _check_values(found, policy, noise, prompts, lengths, predicted)
    _check_gradient(found, policy, noise, prompts, lengths)


def _check_values(
    found: Findings, policy: DiffusionPolicy, noise: Tensor, prompts: list[Prompt], lengths: Tensor, predicted: Tensor
) -> None:
    valid = torch.arange(40) < lengths[:, None]
    found.expect(predicted.dtype == torch.float32, f"predict must return float32, returned {predicted.dtype}.")
    found.expect(bool(predicted[valid].isfinite().all()), "predict is not finite on valid frames.")
    dirty = noise.clone()
    dirty[~valid] = torch.nan
    padded = _predict(policy, dirty, prompts, lengths)
    found.expect(_near(padded[valid], predicted[valid]), "What stands in the padding changes the prediction.")
    alone = _predict(policy, noise[1:, :32], prompts[1:], lengths[1:])
    found.expect(
        _near(alone[0], predicted[1, :32]), "A sample predicted alone differs from the same sample in a batch."
    )
    guided = _predict(policy, noise, prompts, lengths, guidance=2.5)
    found.expect(bool(guided[valid].isfinite().all()), "predict with guidance is not finite.")


def _check_gradient(
    found: Findings, policy: DiffusionPolicy, noise: Tensor, prompts: list[Prompt], lengths: Tensor
) -> None:
    parameters = [p for p in policy.network.parameters() if p.requires_grad]
    if not found.expect(bool(parameters), "No parameter of its network can be trained."):
        return
    with torch.enable_grad():
        out = policy.predict(noise, torch.zeros(2, dtype=torch.int64), policy.condition(prompts), lengths)
        gradients = torch.autograd.grad(out[:, :32].square().mean(), parameters, allow_unused=True)
    reached = any(gradient is not None and bool(gradient.abs().sum() > 0) for gradient in gradients)
    found.expect(reached, "No gradient reaches its network's parameters.")


def _predict(
    policy: DiffusionPolicy, x: Tensor, prompts: list[Prompt], lengths: Tensor, guidance: float = 1.0
) -> Tensor:
    timestep = torch.full((x.shape[0],), 3, dtype=torch.int64)
    with torch.no_grad():
        return policy.predict(x, timestep, policy.condition(prompts), lengths, guidance=guidance)


def _near(first: Tensor, second: Tensor) -> bool:
    return bool(torch.allclose(first, second, rtol=TOLERANCE, atol=TOLERANCE))
