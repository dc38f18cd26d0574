"""The heavy half of actors: imports torch and Stable-Baselines3."""

from motionkit.policies.actor._actor import Actor, action_space, network_options, observation, observation_space
from motionkit.policies.actor._pixels import PixelFeatures
from motionkit.policies.actor._store import ARTIFACT, is_actor, load_actor, save_actor

__all__ = [
    "ARTIFACT",
    "Actor",
    "PixelFeatures",
    "action_space",
    "is_actor",
    "load_actor",
    "network_options",
    "observation",
    "observation_space",
    "save_actor",
]
