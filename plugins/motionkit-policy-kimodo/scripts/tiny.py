"""What a small Kimodo of the starter's clips is worth, and prompts to tune it with; see the README.

- ``python tiny.py prompts FILE``: captions of clips that ``pretrain kimodo`` has not seen.
- ``python tiny.py targets FOLDER [SETS [SEED]]``: the same, each with one to three points to pass, or SETS times with
  others.
- ``python tiny.py quality RUN [STEPS [GUIDANCE [ETA]]]``: jerk and TMR score of samples, beside those of clips. STEPS
  and GUIDANCE are the policy's own if they are 0; ETA is the noise of DDIM, 0 to 1.
- ``python tiny.py points RUN FOLDER``: how near held-out samples pass to the points of FOLDER, told of them and not.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit import load_dataset, load_policy, load_reward
from motionkit.kernels import physics_sums
from motionkit.motion import MotionBatch, features_to_joints
from motionkit.rl import NoiseSource
from motionkit.text import Prompt
from motionkit.text_to_motion.generating import plan_steps, sample
from motionkit.text_to_motion.rewards.ask import ask
from motionkit_policy_kimodo.clips import encode_clips
from motionkit_policy_kimodo.representation import KimodoRepresentation

FPS, COUNT = 30, 64


def main(task: str, place: str, *more: str) -> None:
    """Do what the words say."""
    tasks: dict[str, Any] = {"prompts": prompts, "targets": targets, "quality": quality, "points": points}
    tasks[task](Path(place), *more)


def prompts(path: Path) -> None:
    """Write captions and seconds of the starter's test clips."""
    rows = {clip.captions[0]: len(clip.features) / 20 for clip in load_dataset("starter").clips("test")}
    _write(path, [{"text": text, "seconds": f"{seconds:.2f}"} for text, seconds in rows.items()])


def targets(folder: Path, sets: str = "1", seed: str = "0") -> None:
    """Write them with constraints: one to three points near the path of the clip, at random frames."""
    folder.mkdir(parents=True)
    draw, table = torch.Generator().manual_seed(int(seed)), []
    dataset = load_dataset("starter")
    rows = {clip.captions[0]: clip for clip in dataset.clips("test")}
    for number, (text, clip) in enumerate(int(sets) * [*rows.items()]):
        frames = int(len(clip.features) / 20 * FPS)
        path = features_to_joints(clip.features, dataset.skeleton)[:, 0, [0, 2]]
        points = 1 + int(torch.randint(3, (), generator=draw))
        at = 1 + torch.randperm(frames - 1, generator=draw)[:points].sort().values
        # A point is off the clip's path by up to half a metre to each side, less at the start.
        off = (torch.rand(points, 2, generator=draw) - 0.5) * (at / frames)[:, None]
        places = path[(at * 20 // FPS).clamp(max=len(path) - 1)] - path[0] + off
        written = [{"type": "root2d", "frame_indices": at.tolist(), "smooth_root_2d": places.tolist()}]
        (folder / f"{number}.json").write_text(json.dumps(written))
        table.append({"text": text, "seconds": f"{(frames + 0.5) / FPS:.4f}", "constraints": f"{number}.json"})
    _write(folder / "prompts.csv", table)


def _write(path: Path, rows: Sequence[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


@torch.no_grad()
def quality(run: Path, steps: str = "0", guidance: str = "0", eta: str = "0") -> None:
    """Print the jerk of samples over that of clips, and their TMR score on the way from shuffled captions to clips."""
    policy, dataset, reward = load_policy(run, name="kimodo"), load_dataset("starter"), load_reward("tmr-dense")
    judge = load_reward("tmr-dense", weights="starter:judge")
    clips = dataset.clips("test")[::4][:COUNT]
    assert isinstance(policy.skeleton, KimodoRepresentation)
    features = encode_clips(clips, dataset.skeleton, dataset.fps, policy.skeleton)
    lengths = torch.tensor([len(one) for one in features])
    real = MotionBatch(pad_sequence(features, batch_first=True), lengths, skeleton=policy.skeleton, fps=policy.fps)
    asked = [Prompt((clip.captions[0],), (int(n),), clip.key) for clip, n in zip(clips, lengths, strict=True)]
    other = [
        Prompt(clips[(row + COUNT // 2) % COUNT].captions[:1], one.frames, one.key) for row, one in enumerate(asked)
    ]
    plan, scale = plan_steps(policy, steps=int(steps), eta=float(eta)), float(guidance) or policy.guidance or 1.0
    made = [
        sample(policy, asked[at : at + 32], plan, NoiseSource(0), guidance=scale).motions for at in range(0, COUNT, 32)
    ]
    jerks = [_jerk(real), sum(_jerk(part) * len(part.lengths) for part in made) / COUNT]
    print(f"jerk of clips {jerks[0]:.1f}, of samples {jerks[1]:.1f} m/s^3: {jerks[1] / jerks[0]:.2f} times")
    for name, one in (("reward", reward), ("judge", judge)):
        clip, shuffled = (float(ask(one, real, texts).total.mean()) for texts in (asked, other))
        rows = [ask(one, part, asked[32 * k : 32 * k + 32]).total for k, part in enumerate(made)]
        got = float(torch.cat(rows).mean())
        way = (got - shuffled) / (clip - shuffled)
        print(f"{name}: shuffled captions {shuffled:.3f}, samples {got:.3f}, clips {clip:.3f}: {way:.2f} of the way")


@torch.no_grad()
def points(run: Path, folder: str) -> None:
    """Print the error of samples of held-out prompts with points to pass, told of them and not, and what else changes.

    Samples are those of `grpo`'s tables: five steps, densest at the noisy end, without guidance.
    """
    policy, reward = load_policy(run, name="kimodo", cfg_type="regular"), load_reward("tmr-dense")
    dataset = load_dataset("kimodo-prompts", path=Path(folder, "prompts.csv"))
    asked = [*dataset.prompts("val"), *dataset.prompts("test")]
    every = [one for one in asked for _ in range(4)]
    plan = plan_steps(policy, "ddim", 5, spacing="early")
    assert policy.measures is not None
    for words, prompts in (("told", asked), ("not told", [replace(one, extras={}) for one in asked])):
        motions = sample(policy, prompts, plan, NoiseSource(0), samples=4).motions
        parts, score = policy.measures.parts(motions, every), ask(reward, motions, every).total
        print(
            f"{words}: {100 * parts['path_error'].mean():.1f} cm off, tmr-dense {score.mean():.3f}, foot skate by "
            f"height {parts['skate_height'].mean():.3f} m/s, jerk {_jerk(motions):.0f} m/s^3 ({len(asked)} prompts)"
        )


def _jerk(motions: MotionBatch) -> float:
    joints: Tensor = motions.joints
    return float(physics_sums(joints, motions.lengths, fps=motions.fps, feet=motions.skeleton.feet)[1].mean())


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
