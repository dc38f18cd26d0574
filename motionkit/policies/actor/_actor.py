"""An actor: a Stable-Baselines3 policy network with the observations that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from motionkit import weights
from motionkit.policies.actor._pixels import PixelFeatures
from motionkit.policies.actor._settings import ActorSpec


class Actor:
    """Chooses actions from states or frames.

    Args:
        spec: Its shape.
        device: Where it computes.

    Attributes:
        spec: Its shape.
        network: The policy network; see `motionkit.trainers._state.Learnable`.
    """

    def __init__(self, spec: ActorSpec, *, device: torch.device | str = "cpu") -> None:
        self.spec = spec
        self.network = ActorCriticPolicy(
            observation_space(spec), action_space(spec), lambda _: 0.0, **network_options(spec)
        ).to(device)

    def observe(self, states: NDArray[np.float32], frames: Mapping[str, NDArray[np.uint8]]) -> NDArray[Any]:
        """Return what the network reads: ``[N, S]``, or the cameras' channels ``[N, 3 K, H, W]`` for pixels."""
        return observation(self.spec, states, frames)

    def act(self, observed: NDArray[Any], *, deterministic: bool = False) -> NDArray[Any]:
        """Return actions ``[N, A]`` inside their limits, or ``[N]`` choices.

        Args:
            observed: Of `observe`.
            deterministic: Take the mean, or the most probable choice; otherwise torch's global generator draws.
        """
        self.network.set_training_mode(False)
        with torch.no_grad():
            read = torch.as_tensor(observed, device=self.network.device)
            actions = self.network._predict(read, deterministic=deterministic).cpu().numpy()
        return actions if self.spec.choices else actions.clip(self.spec.low, self.spec.high)

    def tensors(self) -> dict[str, Tensor]:
        """Return its weights; actor and critic share the layers that read pictures, which have one name here."""
        return {name: parameter.detach() for name, parameter in self.network.named_parameters()}

    def load_tensors(self, tensors: Mapping[str, Tensor], origin: str = "the checkpoint") -> None:
        """Put weights back; strict.

        Args:
            tensors: Of `tensors`.
            origin: Where they are from, for messages.
        """
        first = {id(parameter): name for name, parameter in self.network.named_parameters()}
        every = {name: first[id(value)] for name, value in self.network.state_dict(keep_vars=True).items()}
        known = {name: tensors[own] for name, own in every.items() if own in tensors}
        odd = {name: value for name, value in tensors.items() if name not in every}
        weights.load_strict(self.network, {**known, **odd}, origin)


def network_options(spec: ActorSpec) -> dict[str, Any]:
    """Return the keyword arguments of the network."""
    options: dict[str, Any] = {"net_arch": [spec.width, spec.width]}
    if spec.kind == "pixels":
        options |= {"features_extractor_class": PixelFeatures, "features_extractor_kwargs": {"width": spec.width}}
    return options


def observation_space(spec: ActorSpec) -> Box:
    """Return the space of one observation."""
    if spec.kind == "mlp":
        return Box(-np.inf, np.inf, (spec.state_size,), np.float32)
    height, width = next(iter(spec.cameras.values()))
    return Box(0, 255, (3 * len(spec.cameras), height, width), np.uint8)


def action_space(spec: ActorSpec) -> Space[Any]:
    """Return the space of one action."""
    if spec.choices:
        return Discrete(spec.choices)
    return Box(np.array(spec.low, np.float32), np.array(spec.high, np.float32))


def observation(spec: ActorSpec, states: NDArray[np.float32], frames: Mapping[str, NDArray[np.uint8]]) -> NDArray[Any]:
    """Return what an actor of a spec reads; see `Actor.observe`."""
    if spec.kind == "mlp":
        return states
    # [N, H, W, 3] of each camera -> channels first, one camera after the other.
    return np.concatenate([frames[name].transpose(0, 3, 1, 2) for name in spec.cameras], axis=1)
