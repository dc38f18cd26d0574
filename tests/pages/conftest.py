"""A small starter dataset, for pages and classes alike."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import motionkit
from motionkit.contracts.dataset import TextMotionDataset

SMALL = {"clips": 288, "val_clips": 144, "test_clips": 144, "prompts": 32}


@pytest.fixture(scope="package")
def small() -> TextMotionDataset:
    """The starter's clips, two of each kind of action."""
    return motionkit.load_dataset("starter", **SMALL)


@pytest.fixture
def small_starter(small: TextMotionDataset, monkeypatch: pytest.MonkeyPatch) -> Iterator[TextMotionDataset]:
    """A page that loads the starter gets the small one."""
    with monkeypatch.context() as patch:
        patch.setattr(motionkit, "load_dataset", {"starter": small}.__getitem__)
        yield small
