"""Actors: a Stable-Baselines3 policy network with the observations that it reads, and its folder.

The folder holds ``actor.json`` and ``model.safetensors``, and is complete in itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray
from pydantic import BaseModel
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from motionkit import weights
from motionkit.documents import read_model
from motionkit.errors import MotionkitError
from motionkit.runs import find_model, write_model
from motionkit_success.actor_settings import ActorSpec

ARTIFACT, DOCUMENT, KIND = "actor", "actor.json", "actor"


class SpatialSoftmax(nn.Module):
    """The mean position of each channel, weighted by a softmax over its pixels (Levine et al. 2016, section 4.2).

    Returns ``[N, 2 C]``: x of every channel, then y, in [-1, 1].
    """

    def forward(self, maps: Tensor) -> Tensor:
        """Read maps ``[N, C, H, W]``."""
        height, width = maps.shape[-2:]
        weights = maps.flatten(-2).softmax(-1).unflatten(-1, (height, width))
        across = torch.linspace(-1, 1, width, device=maps.device)
        down = torch.linspace(-1, 1, height, device=maps.device)
        return torch.cat([(weights.sum(-2) * across).sum(-1), (weights.sum(-1) * down).sum(-1)], dim=-1)


def shifted(pictures: Tensor, most: int) -> Tensor:
    """Shift pictures ``[N, C, H, W]`` by up to `most` pixels along each axis, with replicate padding.

    Padding and a random crop (Kostrikov et al. 2020, "Image augmentation is all you need"); torch's global generator.
    """
    count, _, height, width = pictures.shape
    moves = torch.randint(-most, most + 1, (2, count, 1), device=pictures.device)
    rows = (torch.arange(height, device=pictures.device) + moves[0]).clamp(0, height - 1)
    columns = (torch.arange(width, device=pictures.device) + moves[1]).clamp(0, width - 1)
    place = torch.arange(count, device=pictures.device)[:, None, None]
    # Indexing takes the channels last: [N, H, W, C].
    return pictures.permute(0, 2, 3, 1)[place, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


class PixelFeatures(BaseFeaturesExtractor):
    """Three convolutions and a spatial softmax over ``[C, H, W]`` pictures; about 30,000 parameters."""

    shift = 0  # most pixels that pictures are moved by while it is trained, never while it acts

    def __init__(self, space: Box, width: int = 64) -> None:
        super().__init__(space, width)
        channels = space.shape[0]
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 16, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(32, 16, 3, padding=1), SpatialSoftmax(),
            nn.Linear(32, width), nn.ReLU(),
        )  # fmt: skip

    def forward(self, pictures: Tensor) -> Tensor:
        """Read pictures ``[N, C, H, W]`` in [0, 1]."""
        if self.shift and self.training:
            pictures = shifted(pictures, self.shift)
        features: Tensor = self.layers(pictures)
        return features


class Actor:
    """Chooses actions from states or frames."""

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

        If deterministic, the mean or the most probable choice; otherwise torch's global generator draws.
        """
        self.network.set_training_mode(False)
        with torch.no_grad():
            read = torch.as_tensor(observed, device=self.network.device)
            actions = self.network._predict(read, deterministic=deterministic).cpu().numpy()
        return actions if self.spec.choices else actions.clip(self.spec.low, self.spec.high)

    def tensors(self) -> dict[str, Tensor]:
        """Return its weights; layers that actor and critic share have one name."""
        return {name: parameter.detach() for name, parameter in self.network.named_parameters()}

    def load_tensors(self, tensors: Mapping[str, Tensor], origin: str = "the checkpoint") -> None:
        """Put weights back; strict."""
        first = {id(parameter): name for name, parameter in self.network.named_parameters()}
        names = {name: first[id(value)] for name, value in self.network.state_dict(keep_vars=True).items()}
        known = {name: tensors[first_name] for name, first_name in names.items() if first_name in tensors}
        odd = {name: value for name, value in tensors.items() if name not in names}
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


class _Document(BaseModel):
    """Content of actor.json."""

    kind: Literal["actor"]
    spec: ActorSpec


def save_actor(folder: Path, actor: Actor, *, extra: Mapping[str, object] | None = None, tensors: bool = True) -> None:
    """Write an actor, with additions to its document; a run writes the weights when it ends."""
    document = {"schema": 1, "kind": KIND, "spec": actor.spec.model_dump(mode="json"), **dict(extra or {})}
    write_model(folder, DOCUMENT, document, actor.tensors() if tensors else None)


def require_same_state(resume: Path | None, environment: Any) -> None:
    """Refuse to resume a run whose actor reads another state than the environment shows now."""
    if resume is None:
        return
    folder = resume.parent.parent if resume.parent.name == "checkpoints" else resume
    if (document := folder / ARTIFACT / DOCUMENT).is_file():
        read_model(document, _Document, KIND, ", no actor").spec.require_fit(environment, str(resume))


def is_actor(place: Path) -> bool:
    """Return whether a place is an actor's folder, or a run or a checkpoint with an actor."""
    return find_model(place.expanduser(), ARTIFACT, DOCUMENT) is not None


def load_actor(place: Path, *, device: torch.device | str = "cpu") -> Actor:
    """Load an actor from its folder, from a run, or from one of a run's checkpoints."""
    folder = place.expanduser()
    if (model := find_model(folder, ARTIFACT, DOCUMENT)) is None:
        fault = "is not a folder of an actor" if folder.exists() else "does not exist"
        raise MotionkitError(
            f"{folder} {fault}.", fix="give a run of motionkit ppo or reward-collect --policy ppo, or RUN/actor."
        )
    spec = read_model(model.document, _Document, KIND, ", no actor").spec
    tensors = weights.read(model.tensors)
    numbers = sum(tensor.numel() for tensor in tensors.values() if isinstance(tensor, torch.Tensor))
    if spec.weights > numbers:  # before a network of that size is made
        raise MotionkitError(
            f"{model.document} does not describe the weights in its folder.",
            why=f"it is of {spec.weights:,} weights or more, and there are {numbers:,}.",
            fix="copy the folder again.",
        )
    actor = Actor(spec, device=device)
    actor.load_tensors(tensors, str(model.tensors))
    odd = [name for name, values in actor.tensors().items() if not bool(values.isfinite().all())]
    if odd:
        raise MotionkitError(f"{model.tensors} is damaged.", why=f"{odd[0]} is not finite.")
    return actor
