"""What the checklist needs to know of the clips."""

from __future__ import annotations

import re

from motionkit.datasets.motions import ClipSet, StateClip
from motionkit.rigs import GAITS
from motionkit.trainers.train_mpl._checklist import DataFacts


def data_facts(clips: ClipSet, encoder: str = "") -> DataFacts:
    """Count frames, kinds and contacts of the clips.

    Args:
        clips: Clips of all splits.
        encoder: The encoder that is used; empty for none.
    """
    train = [clip for clip in clips.clips if clip.split == "train"]
    return DataFacts(
        frames=sum(clip.state.frames for clip in train),
        clips=len(train),
        labels=[_label(clip) for clip in train],
        contacts=sum(clip.contacts_known for clip in train),
        validation=sum(clip.split == "val" for clip in clips.clips),
        encoder=encoder,
    )


def _label(clip: StateClip) -> str:
    """Return the gait that most frames have, else the word that the clip's name begins with."""
    if clip.gait is not None and bool((shares := clip.gait.sum(0)).any()):
        return GAITS[int(shares.argmax())]
    word = re.match(r"[a-z]+", re.split(r"[/\\]", clip.key)[-1].lower())
    return word[0] if word else ""
