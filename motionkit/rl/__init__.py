"""The mathematics of reinforcement learning on diffusion policies; knows tensors only, no policy and no text."""

from __future__ import annotations

from motionkit.rl._noise import NoiseSource, gaussian, noise_key, stable_hash
from motionkit.rl._plan import DDIM, DDPM, Sampler, StepPlan
from motionkit.rl._rollout import Predict, Rollout, StepNoise, Trajectory, Transitions, rollout
from motionkit.rl._schedule import Schedule

__all__ = [
    "DDIM",
    "DDPM",
    "NoiseSource",
    "Predict",
    "Rollout",
    "Sampler",
    "Schedule",
    "StepNoise",
    "StepPlan",
    "Trajectory",
    "Transitions",
    "gaussian",
    "noise_key",
    "rollout",
    "stable_hash",
]
