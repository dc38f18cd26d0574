"""The reward of a success classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from motionkit.encoders.success import COMMAND, load_classifier, newest_classifier_run
from motionkit.errors import MotionkitError
from motionkit.rewards.base import FrameBatch, RewardScores
from motionkit.rewards.success import SuccessOptions
from motionkit.text import Prompt


class SuccessReward:
    """Scores frames with a classifier; source: Luo et al. 2024 (arXiv 2410.21845), section on reward classifiers.

    Args:
        options: Which classifier, and what it gives.
        dataset: Not used.
        device: Where it computes.

    Attributes:
        classifier: The classifier.
        origin: Where it is from, in words.
        inputs: A fingerprint of the classifier, by the option that names it.

    Raises:
        MotionkitError: There is no classifier, or it is damaged.
    """

    name = "success-classifier"
    bounds = (0.0, 1.0)

    def __init__(self, options: SuccessOptions, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        place = options.checkpoint or newest_classifier_run()
        if place is None:
            raise MotionkitError(
                "there is no classifier to reward with.",
                why=f"no --reward.checkpoint is given, and ./runs has no finished run of {COMMAND}.",
                fix=f"motionkit {COMMAND}",
            )
        self.options = options
        self.classifier = load_classifier(place, device=device)
        self.origin = str(place) if options.checkpoint else f"{place}, the newest finished run of {COMMAND}"
        self.inputs = {"checkpoint": _mark(self.classifier.tensors())}

    @property
    def threshold(self) -> float:
        """Probability from which a frame is a success."""
        return self.options.threshold or self.classifier.threshold

    @property
    def camera(self) -> str:
        """Camera of a sequence of one camera's frames; the first one."""
        return next(iter(self.classifier.card.cameras))

    def score(self, samples: FrameBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N sequences of frames of the classifier's camera; ``parts["success"]`` is 1 where it sees success.

        Raises:
            MotionkitError: The classifier reads several cameras, or frames of another size.
        """
        count, frames = samples.frames.shape[:2]
        flat = self.classifier.probabilities({self.camera: samples.frames.flatten(0, 1)})
        values = flat.view(count, frames).to(samples.device)
        if self.options.over == "any":
            found = values.masked_fill(~samples.mask, 0.0).amax(dim=1)
        else:
            found = values.gather(1, (samples.lengths - 1).clamp_min(0)[:, None])[:, 0]
        return self._scores(found)

    def score_cameras(self, frames: Mapping[str, Tensor]) -> RewardScores:
        """Score single frames of all cameras, ``[N, H, W, 3]`` uint8 each."""
        return self._scores(self.classifier.probabilities(frames))

    def _scores(self, probabilities: Tensor) -> RewardScores:
        seen = (probabilities >= self.threshold).float()
        total = probabilities if self.options.output == "continuous" else seen
        return RewardScores(total=total, parts={"success": seen, "probability": probabilities})


def _mark(tensors: Mapping[str, Tensor]) -> str:
    """Return a fingerprint of weights and calibration."""
    from hashlib import sha256

    mark = sha256()
    for name, values in sorted(tensors.items()):
        mark.update(name.encode())
        mark.update(values.detach().cpu().contiguous().numpy().tobytes())
    return mark.hexdigest()[:16]
