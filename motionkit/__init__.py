"""motionkit: teach human-motion models with rewards.

The whole of `motionkit grpo`, from Python::

    from motionkit import GRPO, load_dataset, load_policy, load_reward

    dataset = load_dataset("starter")
    policy = load_policy("starter", dataset=dataset)
    reward = load_reward("tmr-dense", alpha=0.5)
    grpo = GRPO(policy, reward, algorithm="reward-gradient", seed=0, dataset=dataset)
    prompts = dataset.prompts("train")
    for step in range(20):
        metrics = grpo.step(prompts[16 * step : 16 * step + 16])
        print(step, metrics["reward/mean"])
    policy.save(Path("tuned"))
    motions = load_policy("tuned").generate("a person walks | a person waves")
    motions[0].save("wave.html")  # or .bvh, .glb, .mp4, .gif, .npz, .npy

A reward may be a plain function, and a dataset a list::

    def low(motions, prompts):  # motions.joints: [N, T, J, 3], metres, Y up
        return -(motions.joints[..., 0, 1] * motions.mask).sum(1) / motions.lengths

    grpo = GRPO(policy, low)
    dataset = load_dataset([(motion, "a person crouches") for motion in motions])

In a notebook a motion, a list of motions and a run (`load_run`) show themselves.

Motions of files, from any format to any other::

    motion = motionkit.read("walk.bvh")
    motion.fps, motion.positions()  # [T, J, 3], metres, Y up
    motion.cut(10, 50).save("part.glb")
    motionkit.convert("recordings", "data/mocap")  # a folder of files as a HumanML3D dataset

Episodes of a loop of your own, for `motionkit reward-train --data episodes`::

    with Collector("episodes", cameras={"camera": (64, 64)}) as collector:
        collector.add({"camera": image}, success=succeeded, done=over)  # after each step, before any reset

Settings of the algorithm are in `motionkit.text_to_motion.grpo.api`. Nothing here imports torch before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from motionkit.errors import MotionkitError
from motionkit.version import __version__

if TYPE_CHECKING:
    from motionkit._api import (
        convert,
        load_dataset,
        load_environment,
        load_policy,
        load_reward,
        load_run,
        read,
        read_all,
    )
    from motionkit.clips.motion_clip import MotionClip
    from motionkit.text_to_motion.grpo.api import GRPO
    from motionkit_success.episodes import Collector

_HOMES = {
    "Collector": "motionkit_success.episodes",
    "GRPO": "motionkit.text_to_motion.grpo.api",
    "MotionClip": "motionkit.clips.motion_clip",
    "convert": "motionkit._api",
    "load_dataset": "motionkit._api",
    "load_environment": "motionkit._api",
    "load_policy": "motionkit._api",
    "load_reward": "motionkit._api",
    "load_run": "motionkit._api",
    "read": "motionkit._api",
    "read_all": "motionkit._api",
}

__all__ = [
    "GRPO",
    "Collector",
    "MotionClip",
    "MotionkitError",
    "__version__",
    "convert",
    "load_dataset",
    "load_environment",
    "load_policy",
    "load_reward",
    "load_run",
    "read",
    "read_all",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'motionkit' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
