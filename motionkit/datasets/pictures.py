"""What region policies are trained on, by the content of pictures: evaluations leave it out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.base import HasPictureMarks, RegionDataset, Split
from motionkit.datasets.content import is_generated
from motionkit.runs import Kept, TrainedOn


def trained_pictures(data: RegionDataset) -> TrainedOn:
    """Return what a policy is trained on by the train split: nothing of scenes that are drawn, whose splits share none.

    Of a dataset that does not know its pictures by their content nothing is known.
    """
    if is_generated(data):
        return TrainedOn()
    return TrainedOn.of(data.picture_marks("train")) if isinstance(data, HasPictureMarks) else TrainedOn.unknown()


def untrained_regions(
    trained: TrainedOn, data: RegionDataset, split: Split, most: int
) -> tuple[NDArray[np.int64], Kept]:
    """Return the first regions of a split whose pictures a policy was not trained on.

    Args:
        trained: What the policy was trained on.
        data: Where the regions are from.
        split: Which of them.
        most: How many regions are wanted.

    Returns:
        Their numbers ``[N]``, N up to `most`, and what was left out of the split.
    """
    if isinstance(data, HasPictureMarks):
        kept = trained.leave_out(data.picture_marks(split))
        return np.array(kept.places[:most], np.int64), kept
    index = np.arange(min(most, data.count(split)))
    # Without marks nothing can be recognised; a policy that was trained on no file has nothing to be recognised.
    known = is_generated(data) or (trained.complete and not trained.items)
    return index, Kept(tuple(index.tolist()), len(index), known)
