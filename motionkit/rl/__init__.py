"""The mathematics of reinforcement learning: advantages, surrogates, KL; schedules and samplers of diffusion policies.

Functions of tensors only: policies, prompts and rewards belong to other rooms.
"""

from __future__ import annotations

from motionkit.rl._advantages import ADVANTAGES, Advantages, global_std, group_mean, group_std, leave_one_out, shuffled
from motionkit.rl._audit import Precision, audit_ratio, require_eval
from motionkit.rl._categorical import categorical
from motionkit.rl._credit import length_mask, mix_credit, segment_frames
from motionkit.rl._density import (
    kl_frames,
    log_prob_frames,
    log_ratio_frames,
    valid_dims,
)
from motionkit.rl._excess import excess_noise, sampled_std
from motionkit.rl._flow import CPS, DanceSDE, FlowSDE, flow_scale, flow_time
from motionkit.rl._graph import Chain, graph_rollout
from motionkit.rl._low_pass import LowPass
from motionkit.rl._noise import NoiseSource, gaussian, noise_key, stable_hash
from motionkit.rl._objective import Objective, Terms
from motionkit.rl._plan import DDIM, DDPM, Coefficients, Sampler, StepPlan
from motionkit.rl._rollout import Predict, Rollout, StepNoise, Trajectory, Transitions, Visited, rollout
from motionkit.rl._row_noise import RowNoise
from motionkit.rl._schedule import Schedule
from motionkit.rl._surrogate import Surrogate, clipped_surrogate, kl_k3, linear_surrogate, weighted_mean

__all__ = [
    "ADVANTAGES",
    "CPS",
    "DDIM",
    "DDPM",
    "Advantages",
    "Chain",
    "Coefficients",
    "DanceSDE",
    "FlowSDE",
    "LowPass",
    "NoiseSource",
    "Objective",
    "Precision",
    "Predict",
    "Rollout",
    "RowNoise",
    "Sampler",
    "Schedule",
    "StepNoise",
    "StepPlan",
    "Surrogate",
    "Terms",
    "Trajectory",
    "Transitions",
    "Visited",
    "audit_ratio",
    "categorical",
    "clipped_surrogate",
    "excess_noise",
    "flow_scale",
    "flow_time",
    "gaussian",
    "global_std",
    "graph_rollout",
    "group_mean",
    "group_std",
    "kl_frames",
    "kl_k3",
    "leave_one_out",
    "length_mask",
    "linear_surrogate",
    "log_prob_frames",
    "log_ratio_frames",
    "mix_credit",
    "noise_key",
    "require_eval",
    "rollout",
    "sampled_std",
    "segment_frames",
    "shuffled",
    "stable_hash",
    "valid_dims",
    "weighted_mean",
]
