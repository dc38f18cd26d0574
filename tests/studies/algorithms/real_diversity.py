"""Measure how much reference motions of one prompt differ: the row `diversity` of a run's table, of reference motions.

    python tests/studies/algorithms/real_diversity.py

The prompts are the 64 that a run of `motionkit grpo` on the starter is measured on. Each is performed four times, as
often as a run samples it: every action anew with another seed, in the prompt's own lengths, and joined as
`motionkit compose` joins clips. Seven CPU-seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from motionkit import load_dataset
from motionkit.metrics import sample_spread
from motionkit.motion import HUMANML, joints_to_features
from motionkit.starter import Order, perform
from motionkit.text import Prompt
from motionkit.text_to_motion.data.joined import reference_features, reference_joints

PROMPTS, SAMPLES = 64, 4
SEED = 77 << 32
"""Apart from those of the dataset's own clips."""


def main() -> None:
    """Print the mean over the prompts, and its standard error."""
    torch.set_num_threads(1)
    dataset = load_dataset("starter")
    found = diversity(dataset, dataset.prompts("val")[:PROMPTS], SAMPLES)
    print(f"diversity of reference motions: {found.mean():.3f}, standard error {found.std() / len(found) ** 0.5:.3f}")


def diversity(dataset: Any, prompts: Sequence[Prompt], samples: int) -> Tensor:
    """Return how far reference motions of each prompt differ, ``[P]``: see `motionkit.metrics.sample_spread`.

    Args:
        dataset: The starter's dataset.
        prompts: Its prompts.
        samples: Performances of each.
    """
    orders = [
        Order(dataset.action(text), frames + 1, SEED + seed)  # T rows of features are the steps between T + 1 frames
        for seed, (text, frames) in enumerate(
            (text, frames)
            for prompt in prompts
            for _ in range(samples)
            for text, frames in zip(prompt.segments, prompt.frames, strict=True)
        )
    ]
    clips = iter(
        joints_to_features(torch.from_numpy(clip.joints), HUMANML, target=False).float()
        for clip in perform(orders, fps=dataset.fps)
    )
    spread = []
    for prompt in prompts:
        motions = []
        for _ in range(samples):
            parts = [next(clips) for _ in prompt.segments]
            joined = reference_features(reference_joints(parts, HUMANML, dataset.fps), HUMANML)
            motions.append(dataset.normalizer.normalize(joined.float()))
        mask = torch.ones(1, prompt.length, dtype=torch.bool)
        spread.append(sample_spread(torch.stack(motions)[None, :, : prompt.length], mask))
    return torch.cat(spread)


if __name__ == "__main__":
    main()
