"""The reward on the frames of an episode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from motionkit.encoders.success import SuccessClassifier, load_classifier, newest_classifier_run
from motionkit.errors import MotionkitError
from motionkit.rewards.base import FrameBatch, RewardScores
from motionkit.rewards.success import SuccessOptions
from motionkit.text import Prompt


class SuccessReward:
    """Scores episodes by the frames that count, see `SuccessOptions.mode`.

    An episode's value is the k-th highest probability of its last n frames: k = n = 1 for ``last``, the highest of all
    frames for ``any``. With the output ``binary`` the score is whether that reaches the classifier's threshold.

    Args:
        options: Which classifier, and how it is used.
        dataset: Not needed; every reward factory is given it.
        device: Where the classifier runs.

    Attributes:
        classifier: The classifier; its card says what it was trained on and which checks it failed.

    Raises:
        MotionkitError: There is no classifier there, or it looks through several cameras.
    """

    name = "success-classifier"
    bounds = (0.0, 1.0)

    def __init__(self, options: SuccessOptions, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        self.options = options
        self.classifier = _load(options.checkpoint, device)
        cameras = self.classifier.card.cameras
        if len(cameras) > 1:
            raise MotionkitError(
                f"the classifier looks through {len(cameras)} cameras: {self.classifier.card.seen()}.",
                why="a batch of frames is what one camera saw.",
                fix="motionkit ppo takes such a classifier; here train one with --data.cameras NAME.",
            )
        self.camera = next(iter(cameras))
        self.inputs = {"checkpoint": self.classifier.fingerprint()}

    def score(self, samples: FrameBatch, prompts: Sequence[Prompt], /) -> RewardScores:
        """Return a score in 0 to 1 for each episode; NaN for one without a frame."""
        frames, lengths = samples.frames, samples.lengths
        reach = _reach(self.options, frames.shape[1])
        # Places of the last frames, [N, R]; those before an episode's beginning do not count.
        back = torch.arange(reach, device=lengths.device)
        places = lengths[:, None] - 1 - back
        inside = places >= 0
        rows, columns = inside.nonzero(as_tuple=True)
        chosen = frames[rows, places[rows, columns]]
        said = self.classifier.probabilities({self.camera: chosen}).to(samples.device)
        values = torch.full((len(samples), reach), -torch.inf, device=samples.device)
        values[rows, columns] = said
        k = self.options.k if self.options.mode == "k-of-n" else 1
        best = values.topk(min(k, reach), dim=1).values[:, -1] if reach >= k else values.new_zeros(len(samples))
        best = best.clamp_min(0.0)  # fewer than k frames: they cannot agree
        total = (best >= self.classifier.threshold).float() if self.options.output == "binary" else best
        return RewardScores(torch.where(lengths > 0, total, torch.nan), parts={"probability": best})


def _reach(options: SuccessOptions, frames: int) -> int:
    if options.mode == "last":
        return min(1, frames)
    return frames if options.mode == "any" else min(options.n, frames)


def _load(checkpoint: str, device: torch.device | str) -> SuccessClassifier:
    place = Path(checkpoint) if checkpoint else newest_classifier_run()
    if place is None:
        raise MotionkitError(
            "success-classifier has no classifier.",
            why="--reward.checkpoint was not given, and ./runs holds no finished run of reward-train.",
            fix="motionkit reward-train, or --reward.checkpoint RUN",
        )
    return load_classifier(place, device=device)
