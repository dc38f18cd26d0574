"""The reward of a success classifier on the frames of an episode, and the environment's own reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from motionkit.contracts.reward import FrameBatch, Reward, RewardScores, StepBatch
from motionkit.errors import MotionkitError
from motionkit.text import Prompt
from motionkit_success.classifier import COMMAND, Card, load_classifier, newest_classifier_run
from motionkit_success.reward import EnvOptions, SuccessOptions


class Env(Reward):
    """Returns the environment's own reward."""

    name = "env"

    def __init__(self, options: EnvOptions, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        self.options = options

    def score(self, steps: StepBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Return the reward of each step as its score."""
        return RewardScores(total=steps.rewards.float())


class SuccessReward(Reward):
    """Scores episodes by the frames that count, see `SuccessOptions.mode`.

    An episode's value is the k-th highest probability of its last n frames: k = n = 1 for ``last``, the highest of all
    frames for ``any``. With the output ``binary`` the score is whether that reaches the classifier's threshold.
    """

    name = "success-classifier"
    bounds = (0.0, 1.0)

    def __init__(self, options: SuccessOptions, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        self.options = options
        self.place = place = _place(options.checkpoint)  # where it is from
        self.classifier = load_classifier(place, device=device)
        self._mark = self.classifier.fingerprint()  # as it is opened: `ppo` may train it on
        _refuse_other(options, self.classifier.card, place)
        # `place` in words
        self.origin = str(place) if options.checkpoint else f"{place}, the newest finished run of {COMMAND}"

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprint of the classifier."""
        return {"checkpoint": self._mark}

    def score(self, samples: FrameBatch, prompts: Sequence[Prompt], /) -> RewardScores:
        """Return a score in 0 to 1 for each episode; NaN for one without a frame."""
        cameras = tuple(self.classifier.card.cameras)
        if len(cameras) > 1:
            raise MotionkitError(
                f"the classifier looks through {len(cameras)} cameras: {self.classifier.card.seen()}.",
                why="a batch of frames is what one camera saw.",
                fix="motionkit ppo takes such a classifier; here train one with --data.cameras NAME.",
            )
        frames, lengths = samples.frames, samples.lengths
        reach = min({"last": 1, "any": frames.shape[1], "k-of-n": self.options.n}[self.options.mode], frames.shape[1])
        # Places of the last frames, [N, R]; those before an episode's beginning do not count.
        back = torch.arange(reach, device=lengths.device)
        places = lengths[:, None] - 1 - back
        inside = places >= 0
        rows, columns = inside.nonzero(as_tuple=True)
        chosen = frames[rows, places[rows, columns]]
        probabilities = self.classifier.probabilities({cameras[0]: chosen}).to(samples.device)
        values = torch.full((len(samples), reach), -torch.inf, device=samples.device)
        values[rows, columns] = probabilities
        k = self.options.k if self.options.mode == "k-of-n" else 1
        best = values.topk(min(k, reach), dim=1).values[:, -1] if reach >= k else values.new_zeros(len(samples))
        best = best.clamp_min(0.0)  # fewer than k frames: they cannot agree
        scores = self._scores(best)
        return replace(scores, total=torch.where(lengths > 0, scores.total, torch.nan))

    def score_cameras(self, frames: Mapping[str, Tensor]) -> RewardScores:
        """Score single frames of all cameras, ``[N, H, W, 3]`` uint8 each."""
        return self._scores(self.classifier.probabilities(frames))

    def _scores(self, probabilities: Tensor) -> RewardScores:
        threshold = self.options.threshold or self.classifier.threshold
        seen = (probabilities >= threshold).float()
        total = seen if self.options.output == "binary" else probabilities
        return RewardScores(total=total, parts={"success": seen, "probability": probabilities})


def _refuse_other(options: SuccessOptions, card: Card, place: Path) -> None:
    """Refuse a classifier that does not fit the options that describe one."""
    size = tuple(options.image_size[-2:])
    has: dict[str, tuple[object, object]] = {}
    if options.cameras and set(options.cameras) != set(card.cameras):
        has["cameras"] = ", ".join(card.cameras), ", ".join(options.cameras)
    if size and any(tuple(seen) != size for seen in card.cameras.values()):
        has["image_size"] = card.seen(), "x".join(map(str, size))
    if card.architecture == "resnet10":
        sizes = {"hidden": (card.hidden, options.hidden), "blocks": (card.blocks, options.blocks)}
        has |= {name: pair for name, pair in sizes.items() if pair[1] and pair[0] != pair[1]}
    for name, (mine, asked) in has.items():
        raise MotionkitError(
            f"the classifier of {place} has {name} {mine}, and the settings say {asked}.",
            why="a classifier works with what it was trained with, which its checkpoint says.",
            fix=f"leave {name} out, or give another checkpoint.",
        )


def _place(checkpoint: str) -> Path:
    place = Path(checkpoint) if checkpoint else newest_classifier_run()
    if place is None:
        raise MotionkitError(
            "success-classifier has no classifier.",
            why="--reward.checkpoint was not given, and ./runs holds no finished run of reward-train.",
            fix=f"motionkit {COMMAND}, or --reward.checkpoint RUN",
        )
    return place
