"""Splits: no picture in two, the same for ever, the data's own where there are three."""

from __future__ import annotations

import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit.regions.datasets.dataset import SPLITS, split_regions

MARKS = np.random.default_rng(0).integers(0, 2**63, 4000)


def divide(image: np.ndarray, named: np.ndarray | None = None, **changes: object) -> dict[str, np.ndarray]:
    named = np.zeros(len(image), np.int64) if named is None else named
    options = {"held_out": 0.05, "by_hash": False, "place": "here", **changes}
    return split_regions(image, named, **options)  # type: ignore[arg-type,return-value]


def test_no_picture_is_in_two_splits_and_shares_are_as_asked_for() -> None:
    image = MARKS.repeat(3)
    found = divide(image)
    assert sorted(np.concatenate([found[split] for split in SPLITS]).tolist()) == list(range(len(image)))
    pictures = [set(image[found[split]].tolist()) for split in SPLITS]
    assert not any(pictures[a] & pictures[b] for a, b in ((0, 1), (0, 2), (1, 2)))
    for split in ("val", "test"):
        assert len(found[split]) / len(image) == pytest.approx(0.05, abs=0.01)
    assert len(set(image[found["test"][:100]].tolist())) > 70  # the first regions are of many pictures


def test_a_picture_stays_in_its_split_when_others_come_in() -> None:
    few, many = divide(MARKS[:2000]), divide(MARKS)
    for split in SPLITS:
        assert set(MARKS[:2000][few[split]].tolist()) <= set(MARKS[many[split]].tolist())


def test_a_small_set_holds_out_more() -> None:
    for count, wanted in ((40, 8), (100, 20), (200, 20)):
        found = divide(MARKS[:count])
        assert len(found["val"]) >= wanted
        assert wanted <= len(found["test"]) < wanted + 12


@pytest.mark.parametrize("count", [3, 4, 7])
def test_each_split_of_a_few_pictures_has_one(count: int) -> None:
    for seed in range(50):
        found = divide(np.random.default_rng(seed).integers(0, 2**63, count))
        assert min(len(found[split]) for split in SPLITS) >= 1
    with pytest.raises(MotionkitError, match="2 images"):
        divide(MARKS[:2].repeat(9))


def test_the_data_s_own_splits() -> None:
    named = np.array([1, 1, 1, 2, 3, 1, 0])
    image = np.array([10, 11, 12, 13, 14, 14, 15])  # picture 14 is in train and in test
    found = divide(image, named)
    assert {split: sorted(rows.tolist()) for split, rows in found.items()} == {
        "train": [0, 1, 2, 6], "val": [3], "test": [4, 5],
    }  # fmt: skip
    with pytest.raises(MotionkitError, match="splits train and val only") as error:
        divide(image, np.minimum(named, 2))
    assert "--dataset.split hash" in error.value.fix
    by_hash = divide(image)
    for anew in (divide(image, named, by_hash=True), divide(image, np.ones(7, np.int64))):  # train alone says nothing
        assert all((anew[split] == by_hash[split]).all() for split in SPLITS)
