"""The mathematics of reinforcement learning: advantages, surrogates, KL; schedules and samplers of diffusion policies.

Functions of tensors only: policies, prompts and rewards belong to other rooms.
"""

from __future__ import annotations

from motionkit.rl._advantages import ADVANTAGES, Advantages, global_std, group_std, leave_one_out, mix_credit, shuffled
from motionkit.rl._noise import LowPass, NoiseSource, RowNoise, categorical, gaussian, noise_key, stable_hash
from motionkit.rl._objective import (
    Objective,
    Precision,
    Surrogate,
    audit_ratio,
    clipped_surrogate,
    kl_frames,
    kl_k3,
    length_mask,
    linear_surrogate,
    log_ratio_frames,
    require_eval,
    roughness,
    segment_bounds,
    segment_frames,
    step_products,
    valid_dims,
    weighted_mean,
)
from motionkit.rl._plan import (
    CPS,
    DDIM,
    DDPM,
    DanceSDE,
    FlowSDE,
    Sampler,
    Schedule,
    StepPlan,
    draw_timesteps,
    excess_noise,
    flow_scale,
    flow_time,
    sampled_std,
)
from motionkit.rl._rollout import (
    Chain,
    Denoiser,
    Predict,
    Rollout,
    StepNoise,
    Trajectory,
    Transitions,
    Visited,
    graph_rollout,
    rollout,
)

__all__ = [
    "ADVANTAGES", "CPS", "DDIM", "DDPM", "Advantages", "Chain", "DanceSDE", "Denoiser", "FlowSDE", "LowPass",
    "NoiseSource", "Objective", "Precision", "Predict", "Rollout", "RowNoise", "Sampler", "Schedule", "StepNoise",
    "StepPlan", "Surrogate", "Trajectory", "Transitions", "Visited", "audit_ratio", "categorical", "clipped_surrogate",
    "draw_timesteps", "excess_noise", "flow_scale", "flow_time", "gaussian", "global_std", "graph_rollout", "group_std",
    "kl_frames", "kl_k3", "leave_one_out", "length_mask", "linear_surrogate", "log_ratio_frames", "mix_credit",
    "noise_key", "require_eval", "rollout", "roughness", "sampled_std", "segment_bounds", "segment_frames", "shuffled",
    "stable_hash", "step_products", "valid_dims", "weighted_mean",
]  # fmt: skip
