"""Text to motion files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from motionkit.policies.base import DiffusionPolicy
from motionkit.policies.generating import BATCH, generate_motions
from motionkit.rl import StepPlan
from motionkit.runs import OutputFolder
from motionkit.text import Prompt

RECORD = "motions.json"
PAGE = "motions.html"
"""The page that plays the motions; `export_motions` makes it, and it belongs to the folder like the rest."""


def generate(
    policy: DiffusionPolicy,
    prompts: Sequence[Prompt],
    out: Path,
    plan: StepPlan,
    *,
    samples: int = 1,
    guidance: float = 2.5,
    seed: int = 0,
    batch: int = BATCH,
    facts: dict[str, Any] | None = None,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Sample motions and write them.

    ``OUT/new_joints/<id>.npy`` holds ``[T, J, 3]`` float32 joints (metres, Y up), ``OUT/new_joint_vecs/<id>.npy``
    ``[T, D]`` features (not normalised), ``OUT/motions.json`` what each of them is. A motion depends on its text,
    lengths, sample number and the seed, not on what else is generated with it. The folder is made beside its place and
    moved there when it is whole.

    Args:
        policy: What is sampled.
        prompts: What is asked for.
        out: Folder to make.
        plan: Reverse steps.
        samples: Motions per prompt.
        guidance: Classifier-free guidance scale.
        seed: Seed of the noise.
        batch: Motions that are sampled at once.
        facts: Further entries of motions.json.
        overwrite: Replace what an earlier call wrote into `out`; nothing else in it is ever touched.
        progress: Called with 1 after each motion.

    Returns:
        One entry per motion, as in motions.json.

    Raises:
        MotionkitError: `out` is in use, or cannot be written.
    """
    place = OutputFolder(out, RECORD, "motionkit-motions", overwrite=overwrite)
    place.claim()
    names = [_name(number, sample) for number in range(len(prompts)) for sample in range(samples)]
    place.require_free([*_files(names), RECORD, PAGE])
    policy.condition(prompts)  # refuses a prompt before a folder is made
    made = generate_motions(policy, prompts, plan, samples=samples, guidance=guidance, seed=seed, batch=batch)
    entries: list[dict[str, Any]] = []
    with place.beside() as part:
        for folder in ("new_joints", "new_joint_vecs"):
            (part / folder).mkdir()
        for number, clip in enumerate(made):
            entry = _entry(names[number], prompts[number // samples], number % samples, policy.fps)
            assert clip.features is not None
            np.save(part / entry["joints"], clip.positions().float().numpy())
            np.save(part / entry["features"], clip.features.numpy())
            entries.append(entry)
            if progress is not None:
                progress(1)
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
    place.settle(part, document, also=(PAGE,))
    return entries


def _name(prompt: int, sample: int) -> str:
    return f"{prompt:04d}_{sample:02d}"


def _files(names: Sequence[str]) -> list[str]:
    """Return the files of motions: joints, then features, of each."""
    return [f"{folder}/{name}.npy" for name in names for folder in ("new_joints", "new_joint_vecs")]


def _entry(name: str, prompt: Prompt, sample: int, fps: float) -> dict[str, Any]:
    """Return what a motion is; one that a dataset asked for says which of its prompts it answers."""
    asked: dict[str, Any] = {"prompt": prompt.key, "source_ids": list(prompt.source_ids)} if prompt.key else {}
    return {
        "id": name,
        "text": " | ".join(prompt.segments),
        **asked,
        "sample": sample,
        "frames": prompt.length,
        "seconds": prompt.length / fps,
        "segments": [
            {"text": text, "start": start, "end": end}
            for text, (start, end) in zip(prompt.segments, prompt.bounds, strict=True)
        ],
        **dict(zip(("joints", "features"), _files([name]), strict=True)),
    }
