"""Writes checkpoints in the layout of the original MDM code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from motionkit.motion import Skeleton
from motionkit.nn import merged_state, sinusoidal_table, stock_keys
from motionkit.policies.mdm._network import MDMNetwork
from motionkit.policies.mdm._settings import MDMSettings


def export_stock(
    settings: MDMSettings,
    network: MDMNetwork,
    folder: Path,
    *,
    skeleton: Skeleton,
    step: int = 0,
    extra: Mapping[str, Any] | None = None,
) -> Path:
    """Write ``model%09d.pt`` and args.json as the original training code would have; adapters are merged.

    The file loads in the original code unless ``settings.stock_obstacles()`` names an extension; motionkit reads both.

    Args:
        settings: Shape of the network.
        network: What to write.
        folder: Made when it is missing.
        skeleton: Body of its features.
        step: Number in the file's name.
        extra: Further args.json entries; they never override the shape.

    Returns:
        The checkpoint.
    """
    table = sinusoidal_table(settings.pos_embed_max_len, settings.latent_dim)[:, None]
    merged = stock_keys(merged_state(network))
    tensors = {name: value.detach().cpu().clone() for name, value in merged.items()}
    tensors["sequence_pos_encoder.pe"] = table
    tensors["embed_timestep.sequence_pos_encoder.pe"] = table.clone()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"model{step:09d}.pt"
    aside = folder / f".tmp-{path.name}"
    torch.save(tensors, aside)
    document = {**(extra or {}), **stock_args(settings, skeleton.name)}
    (folder / "args.json").write_text(json.dumps(document, indent=4, sort_keys=True) + "\n", encoding="utf-8")
    aside.replace(path)
    return path


def stock_args(settings: MDMSettings, dataset: str) -> dict[str, Any]:
    """Return the entries of args.json that the original code reads back, and motionkit's own where they differ."""
    args: dict[str, Any] = {
        "dataset": dataset,
        "data_dir": "",
        "arch": settings.arch,
        "text_encoder_type": {"distilbert": "bert"}.get(settings.text_encoder, settings.text_encoder),
        "emb_trans_dec": settings.emb_trans_dec,
        "layers": settings.layers,
        "latent_dim": settings.latent_dim,
        "cond_mask_prob": settings.cond_mask_prob,
        "mask_frames": settings.mask_frames,
        "lambda_rcxyz": 0.0,
        "lambda_vel": 0.0,
        "lambda_fc": 0.0,
        "lambda_target_loc": 0.0,
        "unconstrained": False,
        "pos_embed_max_len": settings.pos_embed_max_len,
        "use_ema": False,
        "multi_target_cond": False,
        "multi_encoder_type": "single",
        "target_enc_layers": 1,
        "context_len": settings.context_len,
        "pred_len": settings.pred_len,
        "noise_schedule": settings.noise_schedule,
        "diffusion_steps": settings.diffusion_steps,
        "sigma_small": True,
    }
    stock = MDMSettings()
    for name in ("num_heads", "ff_size", "patch_size", "patch_overlap", "clause_frames", "noise_shift", "dropout"):
        if getattr(settings, name) != getattr(stock, name):
            args[name] = getattr(settings, name)
    if settings.text_encoder not in ("clip", "distilbert"):
        args["text_width"] = settings.text_width
    return args
