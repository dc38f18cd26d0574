"""What a folder of a Kimodo model has, and whether its network computes."""

from __future__ import annotations

import math

import torch

from motionkit_policy_kimodo.files import Checkpoint
from motionkit_policy_kimodo.guidance import Conditions, Guidance
from motionkit_policy_kimodo.network import STEPS
from motionkit_policy_kimodo.representation import ROOT

_FRAMES = 150


def check(opened: Checkpoint) -> tuple[dict[str, str], bool]:
    """Return what was found in a model, by topic, and whether a prediction and its gradients are finite.

    The prediction is of noise at the last timestep, without a text. The gradients are those of the mean square of the
    body's features by that noise: with the way through the root that the body is given, and with it cut.
    """
    network, types, scales = opened.network, opened.record.types.values(), opened.normalizer.std
    shape = network.shape
    x = torch.randn(1, _FRAMES, shape.features, generator=torch.Generator().manual_seed(0), requires_grad=True)
    last, lengths = torch.tensor([STEPS - 1]), torch.tensor([_FRAMES])
    text = Conditions(torch.zeros(1, 1, shape.text_width), torch.zeros(1, 1, dtype=torch.bool), torch.zeros(1))
    norms, deviation = {}, math.nan
    for through in (False, True):
        network.root_gradient = through
        made = Guidance(text=1.0).predict(network, x, last, lengths, text)
        (gradient,) = torch.autograd.grad(made[..., ROOT:].square().mean(), x)
        norms[through], deviation = float(gradient.norm()), float(made.detach().std())
    finite = all(map(math.isfinite, (*norms.values(), deviation)))
    count = sum(parameter.numel() for parameter in network.parameters())
    return {
        "policy": f"of {opened.representation.name}, {len(types)} tensors with their names, {count:,} values, "
        f"{', '.join(sorted(set(types)))}",
        "network": f"two stages of {shape.layers} layers, {shape.latent} wide, {shape.heads} heads; "
        f"{shape.text_slots} text slots of {shape.text_width}",
        "statistics": f"{shape.features} features at {opened.representation.fps:g} frames per second, scales "
        f"{float(scales.min()):.2g} to {float(scales.max()):.2g}",
        "prediction": f"{_FRAMES} frames from noise, {'finite' if finite else 'not finite'}, standard deviation "
        f"{deviation:.2f}; that of motions is 1",
        "gradient": f"of the body by the noise {norms[False]:.3g} with the way through the root cut, as in training; "
        f"{norms[True]:.3g} with it",
    }, finite
