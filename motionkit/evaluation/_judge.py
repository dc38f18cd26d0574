"""The judge: a reward of its own, best trained apart from the others, that scores but is never trained on."""

from __future__ import annotations

import torch

from motionkit.config import Chosen, choose_one
from motionkit.datasets.base import TextMotionDataset
from motionkit.rewards.base import Reward


def open_judge(chosen: Chosen | None, dataset: TextMotionDataset, *, device: torch.device) -> tuple[Reward | None, str]:
    """Open the judge.

    Args:
        chosen: Any reward with its options; None takes the starter's judge on starter data.
        dataset: Training data.
        device: Where to score.

    Returns:
        The judge, or None with the reason why there is none.

    Raises:
        MotionkitError: The weights are refused.
    """
    if chosen is None:
        # Prompts composed of the starter's clips are the starter's captions.
        source = getattr(dataset, "source_name", dataset.name)
        if source != "starter":
            return None, f"none is known for {source} data; --judge tmr-dense --judge.weights DIR gives a second TMR"
        chosen = choose_one("rewards", "tmr-dense", {"weights": "starter:judge"})
    judge: Reward = chosen.build(dataset=dataset, device=device)
    return judge, ""
