"""Motions at the points of a run: which are kept, what trackers get, what a resume deletes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.motion import HUMANML, joints_to_features
from motionkit.starter import generate
from motionkit.text_to_motion.evaluation.heldout import Shown
from motionkit.text_to_motion.evaluation.points import drop_points, is_point, keep_point, kept_points

from ...made.plain import plain


@plain(TextMotionDataset)
class Folder:
    """A run that has a folder, and perhaps a tracker."""

    def __init__(self, directory: Path, *, tracked: bool = False) -> None:
        self.directory, self.tracked = directory, tracked
        self.films: list[tuple[int, str, Path]] = []

    def artifact(self, name: str) -> Path:
        return self.directory / name

    def show(self, step: int, name: str, draw: Callable[[Path], None]) -> None:
        if self.tracked:
            self.films.append((step, name, self.directory / f"{step}.gif"))
            draw(self.films[-1][2])


def motions(count: int) -> Shown:
    walk = joints_to_features(torch.from_numpy(generate("walk", frames=41).joints), HUMANML).float().numpy()
    return Shown(
        features=[walk[: 20 + row] for row in range(count)],
        texts=[f"walk {row}" for row in range(count)],
        bounds=[[(0, 20 + row)] for row in range(count)],
        rewards=[row / 10 for row in range(count)],
        segments=[[row / 10] for row in range(count)],
        skeleton="humanml",
        fps=20.0,
    )


@pytest.mark.parametrize(("count", "rows"), [(4, [0, 3, 6, 9]), (3, [0, 4, 8]), (1, [0]), (12, list(range(12)))])
def test_prompts_are_spread_over_those_that_are_shown(count: int, rows: list[int], tmp_path: Path) -> None:
    run: Any = Folder(tmp_path)
    shown = motions(12)
    keep_point(run, 30, shown, count)
    (path,) = kept_points(tmp_path).values()
    kept = Shown.load(path)
    assert path.name == "step-00000030.npz"
    assert kept.texts == [f"walk {row}" for row in rows]
    assert kept.rewards == [row / 10 for row in rows]
    for one, row in zip(kept.features, rows, strict=True):
        np.testing.assert_array_equal(one, shown.features[row])


def test_fewer_prompts_than_asked_for_are_all_kept(tmp_path: Path) -> None:
    run: Any = Folder(tmp_path)
    keep_point(run, 0, motions(2), 4)
    assert Shown.load(kept_points(tmp_path)[0]).texts == ["walk 0", "walk 1"]


@pytest.mark.parametrize(
    ("every", "total", "kept"),
    [(250, 3000, 12), (250, 200_000, 12), (1, 5, 5), (0, 100, 1), (70, 100, 2), (1, 13, 12), (999, 1000, 2)],
)
def test_a_run_that_is_measured_often_keeps_twelve_points(every: int, total: int, kept: int) -> None:
    measured = [step for step in range(1, total + 1) if step == total or (every and step % every == 0)]
    found = [step for step in measured if is_point(step, every, total)]
    assert len(found) == kept
    assert found[-1] == total
    gaps = np.diff([0, *found[:-1]])
    assert not len(gaps) or gaps.max() <= max(every, total / 12 + every)


def test_points_after_a_checkpoint_are_deleted_and_other_files_stay(tmp_path: Path) -> None:
    run: Any = Folder(tmp_path)
    for step in (0, 30, 100, 9):
        keep_point(run, step, motions(1), 1)
    others = ["before.npz", "step-12.npz", "step-00000099.txt", "step-000000xx.npz"]
    for name in others:
        (tmp_path / "heldout" / name).write_bytes(b"")
    assert list(kept_points(tmp_path)) == [0, 9, 30, 100]
    drop_points(tmp_path, after=9)
    assert list(kept_points(tmp_path)) == [0, 9]
    assert all((tmp_path / "heldout" / name).exists() for name in others)
    drop_points(tmp_path / "none", after=0)


def test_trackers_get_a_film_of_all_of_them(tmp_path: Path) -> None:
    run: Any = Folder(tmp_path, tracked=True)
    keep_point(run, 30, motions(3), 2)
    ((step, name, path),) = run.films
    assert (step, name) == (30, "heldout/motions")
    with Image.open(path) as film:
        assert (film.format, film.n_frames) == ("GIF", 11)  # 21 frames at 20 a second, every second one
