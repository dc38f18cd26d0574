"""The judge: a reward of its own, best trained apart from the others, that scores but is never trained on."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from motionkit.config import Chosen, choose_one
from motionkit.datasets.base import TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.policies.device import resolve_device
from motionkit.rewards.base import Reward
from motionkit.rewards.elsewhere import Elsewhere

Trained = Sequence[tuple[Chosen, Reward]]
"""The rewards that a run is trained with, as they were chosen and built."""


def open_reward(chosen: Chosen, dataset: TextMotionDataset, *, device: torch.device) -> Reward:
    """Open a reward on the device that its option ``device`` names, else on that of the samples.

    Args:
        chosen: A reward with its options.
        dataset: Training data.
        device: Where the samples are.

    Raises:
        MotionkitError: An option or the device is refused.
    """
    named = getattr(chosen.options, "device", "")
    place = resolve_device(named, flag=f"--reward.{chosen.label}.device") if named else device
    reward: Reward = chosen.build(dataset=dataset, device=place)
    return reward if place == device else Elsewhere(reward, place)


def open_judge(
    chosen: Chosen | None, dataset: TextMotionDataset, *, device: torch.device, trained: Trained = ()
) -> tuple[Reward | None, str]:
    """Open the judge.

    Args:
        chosen: Any reward with its options. None takes the starter's judge on starter data, elsewhere the twin that one
            of the rewards names (`motionkit.plugins.Component.twin`).
        dataset: Training data.
        device: Where the samples are.
        trained: The rewards of the run. A judge that is one of them is not opened twice.

    Returns:
        The judge, or None with the reason why there is none. With a judge the reason is empty, or what is odd about it.

    Raises:
        MotionkitError: The weights are refused.
    """
    if chosen is None:
        # Prompts composed of the starter's clips are the starter's captions.
        source = getattr(dataset, "source_name", dataset.name)
        if source == "starter":
            chosen = choose_one("rewards", "tmr-dense", {"weights": "starter:judge"})
        else:
            return _twin(trained, dataset, device, source)
    for other, reward in trained:
        if (other.name, other.options) == (chosen.name, chosen.options):
            return reward, f"the judge is the reward {reward.name} itself, so it cannot tell whether that is gamed"
    return open_reward(chosen, dataset, device=device), ""


def _twin(trained: Trained, dataset: TextMotionDataset, device: torch.device, source: str) -> tuple[Reward | None, str]:
    why = f"none is known for {source} data; --judge tmr-dense --judge.weights DIR gives a second TMR"
    for chosen, _ in trained:
        name = chosen.component.twin
        if name and name not in {other.label for other, _ in trained}:
            try:
                return open_reward(choose_one("rewards", name, {}), dataset, device=device), ""
            except MotionkitError as error:  # the twin was not asked for: its error must not stop the run
                why = f"{name}, which {chosen.label} names as its twin, cannot be used: {error.message}"
    return None, why
