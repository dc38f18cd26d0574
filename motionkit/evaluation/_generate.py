"""Text to motion files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from motionkit.errors import MotionkitError
from motionkit.evaluation._sample import sample_motions
from motionkit.policies.base import DiffusionPolicy
from motionkit.rl import NoiseSource, StepPlan
from motionkit.text import Prompt

BATCH = 64


def generate(
    policy: DiffusionPolicy,
    prompts: Sequence[Prompt],
    out: Path,
    plan: StepPlan,
    *,
    samples: int = 1,
    guidance: float = 2.5,
    seed: int = 0,
    facts: dict[str, Any] | None = None,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Sample motions and write them.

    ``OUT/new_joints/<id>.npy`` holds ``[T, J, 3]`` float32 joints (metres, Y up), ``OUT/new_joint_vecs/<id>.npy``
    ``[T, D]`` features (not normalised), ``OUT/motions.json`` what each of them is. A motion depends on its text,
    lengths, sample number and the seed, not on what else is generated with it.

    Args:
        policy: What is sampled.
        prompts: What is asked for.
        out: Folder to make.
        plan: Reverse steps.
        samples: Motions per prompt.
        guidance: Classifier-free guidance scale.
        seed: Seed of the noise.
        facts: Further entries of motions.json.
        overwrite: Write into a folder that has something in it.
        progress: Called with the number of motions made, batch after batch.

    Returns:
        One entry per motion, as in motions.json.

    Raises:
        MotionkitError: `out` is in use.
    """
    if out.exists() and not overwrite and (not out.is_dir() or any(out.iterdir())):
        raise MotionkitError(f"{out} already exists.", fix="choose another OUT, or add --overwrite.")
    policy.condition(prompts)  # refuses a prompt before anything is made; what it encodes stays cached
    for folder in ("new_joints", "new_joint_vecs"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    per_batch = max(1, BATCH // samples)
    for first in range(0, len(prompts), per_batch):
        batch = prompts[first : first + per_batch]
        motions, asked = sample_motions(policy, batch, plan, NoiseSource(seed), samples=samples, guidance=guidance)
        joints, features = motions.joints.float().cpu().numpy(), motions.features.float().cpu().numpy()
        for row, prompt in enumerate(asked):
            name = f"{first + row // samples:04d}_{row % samples:02d}"
            np.save(out / "new_joints" / f"{name}.npy", joints[row, : prompt.length])
            np.save(out / "new_joint_vecs" / f"{name}.npy", features[row, : prompt.length])
            entries.append(_entry(name, prompt, row % samples, policy.fps))
        if progress is not None:
            progress(len(asked))
    document = {
        "schema": 1,
        "skeleton": policy.skeleton.name,
        "fps": policy.fps,
        "seed": seed,
        "guidance_scale": guidance,
        "timesteps": plan.timesteps.tolist(),
        **(facts or {}),
        "motions": entries,
    }
    (out / "motions.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return entries


def _entry(name: str, prompt: Prompt, sample: int, fps: float) -> dict[str, Any]:
    return {
        "id": name,
        "text": " | ".join(prompt.segments),
        "sample": sample,
        "frames": prompt.length,
        "seconds": prompt.length / fps,
        "segments": [
            {"text": text, "start": start, "end": end}
            for text, (start, end) in zip(prompt.segments, prompt.bounds, strict=True)
        ],
        "joints": f"new_joints/{name}.npy",
        "features": f"new_joint_vecs/{name}.npy",
    }
