"""The judge: a second TMR, trained apart from the reward's, that scores but is never trained on."""

from __future__ import annotations

from pathlib import Path

import torch

from motionkit import plugins
from motionkit.datasets.base import TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.rewards.base import Reward

_REWARD = "tmr-dense"


def open_judge(choice: str, dataset: TextMotionDataset, *, device: torch.device) -> tuple[Reward | None, str]:
    """Open the judge.

    Args:
        choice: ``auto`` (the starter's judge on starter data, none elsewhere), ``none``, or a TMR folder or file.
        dataset: Training data.
        device: Where to score.

    Returns:
        The judge, or None with the reason why there is none.

    Raises:
        MotionkitError: The weights are refused.
    """
    if choice == "none":
        return None, "heldout.judge is none"
    if choice == "auto":
        # Prompts composed of the starter's clips are the starter's captions.
        source = getattr(dataset, "source_name", dataset.name)
        if source != "starter":
            return None, f"no judge is known for {source} data; --set heldout.judge=DIR gives a second TMR"
        choice = "starter:judge"
    elif not Path(choice).expanduser().exists():
        raise MotionkitError(f"heldout.judge: {choice} does not exist.", fix="give a TMR folder, auto or none.")
    component = plugins.get("rewards", _REWARD)
    options = component.options.model_validate({"weights": choice})
    judge: Reward = component.build(options, dataset=dataset, device=device)
    return judge, ""
