"""The keys of the training guide's ``exp_phase_mpl.json``, and what becomes of each. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping

LOSSES = (
    "rot_geo", "rot_delta", "rot_ortho", "fk_pos", "rot_local", "attn_reg", "rot_delta_root", "rot_log", "limb_geo",
    "latent_consistency",
)  # fmt: skip
"""Losses of the guide, each a weight ``w_`` and its name."""

KEYS: Mapping[str, str] = {
    "data": "data",
    "fps": "fps",
    "bundle_json": "bundle",
    "out": "run.out",
    "epochs": "run.epochs",
    "encoder": "encoder",
    "encoder_path": "encoder",
    "device": "device",
    "seed": "seed",
    "batch": "train.batch_size",
    "seq_len": "train.seq_len",
    "accumulation_steps": "train.accumulation_steps",
    "accum_steps": "train.accumulation_steps",
    "lr": "optim.learning_rate",
    "weight_decay": "optim.weight_decay",
    "grad_clip": "optim.grad_clip",
    "dropout": "model.dropout",
    "hidden_dim": "model.width",
    "width": "model.width",
    "num_layers": "model.layers",
    "depth": "model.layers",
    "num_heads": "model.heads",
    "heads": "model.heads",
    "tf_mode": "teacher.mode",
    "tf_start_epoch": "teacher.start_epoch",
    "tf_end_epoch": "teacher.end_epoch",
    "tf_max": "teacher.max",
    "tf_min": "teacher.min",
    "freerun_weight": "freerun.weight",
    "freerun_horizon": "freerun.horizon",
    "freerun_horizon_init": "freerun.first_horizon",
    "freerun_horizon_min": "freerun.first_horizon",
    "freerun_horizon_ramp_epochs": "freerun.ramp_epochs",
    "freerun_weight_ramp_epochs": "freerun.ramp_epochs",
    "freerun_ramp_epochs": "freerun.ramp_epochs",
    "freerun_weight_init": "freerun.first_weight",
    "freerun_stage_schedule": "stages",
    "lookahead_stage_schedule": "stages",
    "adaptive_loss_method": "adaptive.method",
    "adaptive_loss_terms": "adaptive.terms",
    "adaptive_loss_alpha": "adaptive.alpha",
    "adaptive_loss_temperature": "adaptive.temperature",
    **{f"w_{loss}": f"loss.{loss}" for loss in LOSSES},
    "w_attn": "loss.attn_reg",
    "w_latent": "loss.latent_consistency",
    "w_freerun": "freerun.weight",
}
"""Key of the guide, key here."""

ADAPTIVE: Mapping[str, tuple[str, ...]] = {
    "gradnorm": ("adaptive.terms", "adaptive.alpha"),
    "uncertainty": ("adaptive.terms",),
    "dwa": ("adaptive.terms", "adaptive.temperature"),
}
"""What acts with each method."""

_PROFILE = "statistics that profile wrote; training reads the clips themselves"
_DEBUG = "motionkit logs its own metrics"
_EVAL = "eval mpl has --warmup and --horizon"

LEFT_OUT: Mapping[str, str] = {
    "w_cond_yaw": "the guide switched this loss off; the heading is predicted here, and its error is in loss.root",
    "dataset_profile": _PROFILE,
    "foot_contact_threshold": "FootContact is the F1 of predicted contacts here",
    "eval_horizon": _EVAL,
    "eval_warmup": _EVAL,
    "monitor_batches": "free runs are measured on all validation windows",
    "yaw_forward_offset": "the heading is read from each clip",
    "num_workers": "windows are cut in memory",
    "amp": "--precision is the switch here",
}
"""Keys that do nothing here, each with the reason."""

LEFT_OUT_PREFIXES: Mapping[str, str] = {
    "lookahead_": "the guide removed this loss; free runs took its place",
    "diag_": _DEBUG,
    "freerun_debug_": _DEBUG,
    "freerun_grad_log": _DEBUG,
    "history_debug_": _DEBUG,
}
"""Beginnings of such keys."""

FOOT = (
    "the guide forbids explicit constraints of the feet: they take weight from the losses that teach the motion, and a "
    "model leans on them instead of learning when a foot stands"
)
"""Why ``w_foot_`` is refused."""

FOOT_FIX = "leave it out; loss.skate is the one such loss here, off by default"

GUIDE_DEFAULTS: Mapping[str, float] = {
    "loss.rot_geo": 0.01,
    "loss.rot_delta": 1.0,
    "loss.rot_ortho": 0.001,
    "loss.attn_reg": 0.01,
}
"""Weights that the guide's file leaves to its script."""


def reason_left_out(key: str) -> str:
    """Return why a key does nothing here; empty when it is no such key."""
    if key in LEFT_OUT:
        return LEFT_OUT[key]
    return next((reason for prefix, reason in LEFT_OUT_PREFIXES.items() if key.startswith(prefix)), "")
