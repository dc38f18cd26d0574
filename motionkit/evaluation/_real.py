"""Real motions of a dataset with what they show, as rewards take them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from motionkit.datasets.base import Split, TextMotionDataset
from motionkit.motion import MotionBatch
from motionkit.text import Prompt


def real_motions(
    dataset: TextMotionDataset, split: Split, count: int, *, device: torch.device, prompts: Sequence[Prompt] = ()
) -> tuple[MotionBatch, list[Prompt]] | None:
    """Return clips spread over a split, cut to the dataset's longest motion.

    Args:
        dataset: The dataset.
        split: Its split.
        count: Most clips.
        device: Where to put them.
        prompts: Prompts of the split: in composite data the prompt of the same key says which actions a clip shows.

    Returns:
        The motions, and a prompt each: the one of the same key, else the first caption. None where the split has no
        clip.
    """
    clips = dataset.clips(split)
    if not len(clips):
        return None
    chosen = [clips[i] for i in range(0, len(clips), max(1, len(clips) // count))][:count]
    features = [clip.features[: dataset.max_length].to(device) for clip in chosen]
    lengths = torch.tensor([len(each) for each in features], device=device)
    asked = {prompt.key: prompt for prompt in prompts}
    shown = [
        asked.get(clip.key) or Prompt((clip.captions[0],), (len(each),), clip.key)
        for clip, each in zip(chosen, features, strict=True)
    ]
    motions = MotionBatch(pad_sequence(features, True), lengths, skeleton=dataset.skeleton, fps=dataset.fps)
    return motions, shown
