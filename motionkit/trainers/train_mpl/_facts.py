"""What the checklist needs to know of the clips."""

from __future__ import annotations

import torch

from motionkit.datasets.motions._clips import ClipSet
from motionkit.rigs import GAITS
from motionkit.trainers.train_mpl._checklist import DataFacts


def data_facts(clips: ClipSet, encoder: str = "") -> DataFacts:
    """Count frames, gaits and contacts of the clips.

    Args:
        clips: Clips of all splits.
        encoder: The encoder that is used; empty for none.
    """
    train = [clip for clip in clips.clips if clip.split == "train"]
    gaits = torch.stack([clips.gait_of(clip).sum(0) for clip in train]).sum(0)
    known = float(gaits.sum())
    return DataFacts(
        frames=sum(clip.state.frames for clip in train),
        clips=len(train),
        gaits=dict(zip(GAITS, (gaits / known).tolist(), strict=True)) if known else {},
        contacts=sum(clip.contacts_known for clip in train),
        validation=sum(clip.split == "val" for clip in clips.clips),
        encoder=encoder,
    )
