"""Draw a prompt of a finished run before training, after it, and real clips of the same actions, side by side.

    python docs/media/before_after.py RUN OUT.gif

The prompt with the median gain in reward among those that the run kept, or number N with ``--prompt N``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from motionkit.evaluation import Shown
from motionkit.motion import HUMANML, features_to_joints
from motionkit.player import PlayerTrack
from motionkit.player.video import write_video


def main() -> None:
    """Read both files of the run and write the film."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path, help=".gif or .mp4")
    parser.add_argument("--prompt", type=int)
    asked = parser.parse_args()
    before, after, real = (Shown.load(asked.run / "heldout" / f"{name}.npz") for name in ("before", "after", "real"))
    gain = np.subtract(after.rewards, before.rewards)
    order = np.argsort(-gain)
    number = int(order[(len(order) - 1) // 2]) if asked.prompt is None else asked.prompt
    for rank in order:
        print(f"{rank:3d} {before.rewards[rank]:.2f} -> {after.rewards[rank]:.2f}  {after.texts[rank]}")
    places = {"before training": (before, number), "after training": (after, number)}
    if after.texts[number] in real.texts:
        places["real clips"] = (real, real.texts.index(after.texts[number]))
    tracks = [track(name, *place) for name, place in places.items()]
    write_video(asked.out, tracks, size=(360 * len(tracks), 380), fps=10)


def track(name: str, shown: Shown, number: int) -> PlayerTrack:
    """Return one motion with its texts and its score."""
    features = torch.from_numpy(shown.features[number])
    texts = shown.texts[number].split(" | ")
    return PlayerTrack(
        title=f"{name}: score {shown.rewards[number]:.2f}",
        positions=features_to_joints(features, HUMANML),
        parents=HUMANML.parents,
        fps=shown.fps,
        segments=[
            (text, first / shown.fps, end / shown.fps)
            for text, (first, end) in zip(texts, shown.bounds[number], strict=True)
        ],
        scores=shown.segments[number],
    )


if __name__ == "__main__":
    main()
