"""Motions of a few held-out prompts at every point of a run: kept in its folder, shown by its trackers and its page."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from motionkit.contracts.reward import Reward
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, KIT, JointMotion
from motionkit.player import PlayerTrack, track_of
from motionkit.rl import NoiseSource
from motionkit.runs import Run, disk_errors
from motionkit.text import SEPARATOR, Prompt
from motionkit.text_to_motion.evaluation.heldout import Shown
from motionkit.text_to_motion.generating import plan_steps, sample
from motionkit.text_to_motion.policy import DiffusionPolicy, guidance_of
from motionkit.text_to_motion.rewards.mix import RewardMix, unscored

MEDIA = "heldout/motions"
"""What trackers call the animation of a point."""

FEW_POINTS = 12
"""Points that are kept of a run that is measured more often."""

_FILE = re.compile(r"step-(\d{8,12})\.npz")
_SIZE, _FPS = (480, 400), 10.0  # of an animation for trackers: pixels, and pictures per second


def keep_point(
    run: Run,
    step: int,  # updates before it; 0 is the policy as it started
    shown: Shown,  # motions of the same prompts and noise at every point
    count: int,  # how many of them are kept, spread over all
) -> None:
    """Write ``RUN/heldout/step-NNNNNNNN.npz``, and give trackers an animation of it."""
    every = len(shown.texts)
    count = min(count, every)
    rows = [place * every // count for place in range(count)]
    lists = ("features", "texts", "bounds", "rewards", "segments")
    some: dict[str, Any] = {name: [getattr(shown, name)[row] for row in rows] for name in lists}
    chosen = replace(shown, **some)
    chosen.keep(run, f"step-{step:08d}")
    run.show(step, MEDIA, lambda path: _draw(path, chosen, f"step {step}"))


def is_point(
    step: int,  # a step that is measured
    every: int,  # steps between two of them; 0 is the end only
    total: int,  # steps of the run
) -> bool:
    """Return whether a run that is measured often keeps motions of a step: at most twelve times, evenly spread."""
    return step == total or step * FEW_POINTS // total > max(0, step - every) * FEW_POINTS // total


@torch.no_grad()
def sample_point(policy: DiffusionPolicy, prompts: Sequence[Prompt], judge: Reward | None) -> Shown:
    """Sample prompts as ``motionkit generate`` does, with the same noise at each call; their rewards are the judge's.

    The network must be in evaluation mode. Global random generators are left alone.
    """
    plan, guidance = plan_steps(policy), guidance_of(policy)
    done = sample(policy, prompts, plan, NoiseSource(0), guidance=guidance, step=-1)
    if judge is None:
        scored = unscored(done.prompts)
    else:
        scored = RewardMix([(judge, 1.0)]).score(done.motions, done.prompts)
    return Shown.first(done.motions, done.prompts, scored, 1, len(prompts))


def kept_points(folder: Path) -> dict[int, Path]:
    """Return the files of a run's points by their step, in order."""
    matches = ((_FILE.fullmatch(path.name), path) for path in (folder / "heldout").glob("step-*.npz"))
    return dict(sorted((int(match[1]), path) for match, path in matches if match is not None))


def drop_points(folder: Path, after: int) -> None:
    """Delete the points of a run after a step: it goes on from there and makes them again."""
    for step, path in kept_points(folder).items():
        if step > after:
            with disk_errors("delete the motions of a later step", path):
                path.unlink()


def track(name: str, shown: Shown, row: int) -> PlayerTrack:
    """Return one of the motions as the player takes it.

    Raises:
        MotionkitError: Its body is not known, or it has no finite frame.
    """
    features = torch.from_numpy(shown.features[row])
    body = {skeleton.name: skeleton for skeleton in (HUMANML, KIT)}.get(shown.skeleton)
    if shown.names:
        names, parents, joints = shown.names, shown.parents, features.unflatten(-1, (-1, 3))
    elif body is not None:
        names, parents, joints = body.joint_names, body.parents, body.positions(features)
    else:
        raise MotionkitError(f"no body is called {shown.skeleton!r}.")
    parts = zip(shown.texts[row].split(SEPARATOR), shown.bounds[row], strict=False)
    segments = [(text, start / shown.fps, end / shown.fps) for text, (start, end) in parts]
    scores = shown.segments[row] if all(map(math.isfinite, shown.segments[row])) else ()
    if len(scores) != len(segments):
        scores = ()
    motion = JointMotion(names, parents, joints.double(), shown.fps, radii=shown.radii)
    return track_of(motion, name, segments=segments, scores=scores)


def _draw(path: Path, shown: Shown, title: str) -> None:
    """Write the motions side by side as a GIF."""
    from motionkit.player.video import write_video

    scores = [f"score {reward:.2f}" if math.isfinite(reward) else "" for reward in shown.rewards]
    tracks = [track(score or shown.texts[row], shown, row) for row, score in enumerate(scores)]
    write_video(path, tracks, size=_SIZE, fps=min(_FPS, shown.fps), title=title)
