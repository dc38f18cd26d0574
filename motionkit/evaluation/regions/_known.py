"""What is known of measured regions beside their masks and captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.base import RegionDataset, Split
from motionkit.evaluation.regions._absent import absent_captions
from motionkit.evaluation.regions._truth import TRUTH, Truth, open_truth
from motionkit.policies.base import HasLimits


@dataclass(frozen=True)
class Known:
    """What is known of R regions.

    Attributes:
        truth: What their images show; None where the data do not say it.
        absent: R captions of what is not in the image; an empty one is left out.
        certain: Whether it is certain that nothing fits them.
        present: Captions of the data that were left out of `absent`, since an object of the image fits them.
    """

    truth: Truth | None
    absent: Sequence[str]
    certain: bool
    present: int = 0

    def notes(self, name: str) -> list[str]:
        """Return in sentences what is not measured, or not for sure, with data of this name."""
        found = []
        if self.truth is None:
            rows = ", ".join(TRUTH_ROWS[key] for key in TRUTH)
            found.append(
                f"left out, since {name} does not say what its images show: {rows}, and the table of attributes."
            )
        if not self.certain:
            found.append(
                f"absent objects are an approximation: {name} does not say what an image lacks, so captions of other "
                "images are asked for, which may fit by chance."
            )
        if self.present:
            found.append(
                f"{self.present} captions of absent objects name an object that is in the image; they are left out."
            )
        return found


TRUTH_ROWS = {
    "unique": "uniqueness",
    "attributes_right": "attributes named rightly",
    "attributes_wrong": "attributes named wrongly",
    "attributes_left_out": "attributes left out",
    "over_specified": "over-specification",
}
"""Names of the rows that need the truth."""


def look_up(data: RegionDataset, split: Split, index: NDArray[np.int64]) -> Known:
    """Return what is known of regions of a split."""
    absent, certain = absent_captions(data, split, index)
    truth = open_truth(data, split, index)
    if truth is None or not certain:
        return Known(truth, absent, certain)
    shown = truth.shows(absent)
    kept = ["" if there else text for text, there in zip(absent, shown.tolist(), strict=True)]
    return Known(truth, kept, certain, int(shown.sum()))


def limits_of(policy: object, captions: Sequence[str]) -> list[str]:
    """Return in sentences at what size a policy sees images, and how many of the words it knows.

    Args:
        policy: The policy.
        captions: The data's.
    """
    if not isinstance(policy, HasLimits):
        return []
    found = [f"the policy sees {policy.sees}."]
    if (share := policy.known_words(captions)) < 1:
        found.append(
            f"the policy knows {share:.0%} of the words of the data's captions; it can neither read nor say the others."
        )
    return found
