"""Which regions are train, val and test: no picture is in two of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.base import Split
from motionkit.errors import MotionkitError

SPLITS: tuple[Split, ...] = ("train", "val", "test")
_FEW, _FEWEST = 3, 20


def split_regions(
    image: NDArray[np.int64], named: NDArray[np.int64], *, held_out: float, by_hash: bool, place: str
) -> dict[Split, NDArray[np.int64]]:
    """Return the numbers of the regions of each split, in an order that is the same wherever the files lie.

    The data's own splits count where they name all three; a picture with regions of several of them goes to test
    before val before train. Otherwise a picture's mark decides, which is as good as a draw; it stays in its split when
    others come in, once there are some hundred.

    Args:
        image: ``[N]`` mark of each region's picture, 63 random bits.
        named: ``[N]`` split that the file names: 0 none, 1 train, 2 val, 3 test.
        held_out: Share of the pictures in val, and in test, where marks decide.
        by_hash: Leave the data's own splits.
        place: Where the data are, for messages.

    Raises:
        MotionkitError: The file names val or test, but not both; or there are fewer than 3 pictures.
    """
    pictures, own = np.unique(image, return_inverse=True)
    if len(pictures) < _FEW:
        raise MotionkitError(
            f"{place} has usable regions of {len(pictures)} images.", why="train, val and test need an image each."
        )
    if not by_hash and {2, 3} & set(named.tolist()):
        strongest = np.zeros(len(pictures), np.int64)
        np.maximum.at(strongest, own, named)
        of_picture = np.maximum(strongest, 1)  # a row without a name is for training
        if len(there := sorted(set(of_picture.tolist()))) < len(SPLITS):
            raise MotionkitError(
                f"{place} has the splits {' and '.join(SPLITS[one - 1] for one in there)} only.",
                why="a run trains on train, watches val and is measured on test.",
                fix="name all three, or --dataset.split hash divides the images anew.",
            )
    else:
        of_picture = _by_mark(pictures, held_out)
    order = np.argsort(_mixed(image, np.arange(len(image))), kind="stable")
    of_region = of_picture[own][order]
    return {split: order[of_region == number] for number, split in enumerate(SPLITS, 1)}


def _by_mark(pictures: NDArray[np.int64], held_out: float) -> NDArray[np.int64]:
    """Return the split of each picture, which are sorted by their marks: the smallest are test, the next val.

    A small set holds out 20 pictures for each, but no more than a fifth.
    """
    count = len(pictures)
    share = pictures / 2.0**63
    fewest = max(1, min(_FEWEST, count // 5))
    test = min(max(fewest, int((share < held_out).sum())), count - 2)
    val = min(max(fewest, int(((share >= held_out) & (share < 2 * held_out)).sum())), count - 1 - test)
    return np.repeat([3, 2, 1], [test, val, count - test - val])


def _mixed(image: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return numbers that look random (splitmix64), so that the first regions are of many pictures."""
    value: NDArray[np.uint64] = image.astype(np.uint64) ^ (place.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(value ^ (value >> np.uint64(31)))
