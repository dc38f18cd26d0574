"""The guide's .npy trajectories: read as they are, without executing anything, and written back."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit_success.episodes import Collector, export_trajectories, open_episodes, open_trajectories


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = np.empty((), dtype=object)
    table[()] = content
    np.save(path, table, allow_pickle=True)


def trajectory(seed: int, labels: list[float], *, scale: float = 1.0, size: int = 6) -> dict[str, Any]:
    frames = np.random.default_rng(seed).integers(0, 256, (len(labels), 3, size, size)).astype(np.float32)
    return {"images": {"base_camera": frames / 255 * scale}, "labels": np.array(labels, np.float32)}


@pytest.fixture
def guide(tmp_path: Path) -> Path:
    for number in range(3):
        write(tmp_path / "positive" / f"{number:06d}.npy", trajectory(number, [0, 0, 1, 1]))
        write(tmp_path / "negative" / f"{number:06d}.npy", trajectory(10 + number, [0, 0, 0]))
    return tmp_path


def opened(folder: Path, **how: Any) -> Any:
    return open_trajectories(folder / "positive", folder / "negative", **how)


@pytest.mark.parametrize("scale", [1.0, 255.0])
def test_pictures_are_the_same_whatever_their_range(tmp_path: Path, scale: float) -> None:
    """One version of the original code writes 0 to 255, another 0 to 1."""
    for number in range(2):
        write(tmp_path / "positive" / f"{number:06d}.npy", trajectory(number, [0, 1], scale=scale))
        # Nearly black: alone it would look like 0 to 1 in either range.
        dark = {"images": {"base_camera": np.full((2, 3, 6, 6), scale / 255, np.float32)}, "labels": np.zeros(2)}
        write(tmp_path / "negative" / f"{number:06d}.npy", dark)
    found = opened(tmp_path)
    pictures = found.read(np.arange(len(found)))["base_camera"]
    wanted = np.random.default_rng(0).integers(0, 256, (2, 3, 6, 6)).transpose(0, 2, 3, 1)
    assert np.array_equal(pictures[:2], wanted)
    assert (pictures[4:] == 1).all()
    assert any("0 to 255" in note for note in found.notes) is (scale == 255.0)


def test_a_file_in_the_wrong_folder_is_said(guide: Path) -> None:
    write(guide / "negative" / "000009.npy", trajectory(9, [0, 1]))
    found = opened(guide)
    assert "1 files in the negative folder" in found.notes[0]
    assert found.counts()["positive"]["trajectories"] == 4
    # Called a success as a whole, and no frame shows it: the guide's rule and its code differ; frames count here.
    write(guide / "positive" / "000009.npy", trajectory(19, [0, 0]))
    found = opened(guide)
    assert "1 files in the positive folder are of the other class" in found.notes[0]
    assert found.counts()["negative"]["trajectories"] == 4


def test_labels_on_last_frames_alone_are_suspicious(tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path / "positive" / f"{number:06d}.npy", trajectory(number, [0, 0, 1]))
        write(tmp_path / "negative" / f"{number:06d}.npy", trajectory(9 + number, [0, 0, 0]))
    assert any("automatic resets" in note for note in opened(tmp_path).notes)


def test_there_and_back(guide: Path, tmp_path: Path) -> None:
    ours = opened(guide)
    assert export_trajectories(ours, tmp_path / "theirs") == {"positive": 3, "negative": 3}
    again = opened(tmp_path / "theirs")
    assert np.array_equal(again.labels, ours.labels)
    every = np.arange(len(ours))
    assert np.array_equal(again.read(every)["base_camera"], ours.read(every)["base_camera"])
    content = np.load(tmp_path / "theirs" / "positive" / "000000.npy", allow_pickle=True).item()
    assert content["images"]["base_camera"].dtype == np.float32
    assert content["images"]["base_camera"].shape == (4, 3, 6, 6)
    assert content["images"]["base_camera"].max() <= 1
    with pytest.raises(MotionkitError, match="not empty"):
        export_trajectories(ours, tmp_path / "theirs")
    (tmp_path / "theirs" / "mine.txt").write_text("mine")
    export_trajectories(ours.chosen([0, 5]), tmp_path / "theirs", overwrite=True)
    assert sorted(path.name for path in (tmp_path / "theirs").rglob("*.*")) == [
        "000000.npy", "000000.npy", "export.json", "mine.txt",
    ]  # fmt: skip
    (tmp_path / "other" / "positive").mkdir(parents=True)
    (tmp_path / "other" / "positive" / "000000.npy").write_bytes(b"mine")
    with pytest.raises(MotionkitError, match="not empty"):
        export_trajectories(ours, tmp_path / "other", overwrite=True)


class _Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize(
    "content",
    [
        [1, 2, 3],
        {"images": {}, "labels": np.zeros(2)},
        {"images": {"base_camera": np.zeros((2, 6, 6, 3))}, "labels": np.zeros(2)},
        {"images": {"base_camera": np.zeros((2, 3, 6, 6))}, "labels": np.zeros(3)},
        {"images": {"base_camera": np.full((2, 3, 6, 6), np.nan)}, "labels": np.zeros(2)},
        {"images": {"base_camera": np.full((2, 3, 6, 6), -1.0)}, "labels": np.zeros(2)},
        {"images": {"base_camera": np.zeros((2, 3, 7, 6))}, "labels": np.zeros(2)},
        {"images": {"other": np.zeros((2, 3, 6, 6))}, "labels": np.zeros(2)},
    ],
)
def test_what_is_no_trajectory_is_refused(guide: Path, content: Any) -> None:
    write(guide / "negative" / "000002.npy", content)
    with pytest.raises(MotionkitError, match="000002"):
        opened(guide)


def test_a_file_that_was_cut_off_is_left_out_and_named(guide: Path) -> None:
    path = guide / "negative" / "000002.npy"
    data = path.read_bytes()
    for cut in (0, 60, 200, len(data) - 1):
        path.write_bytes(data[:cut])
        found = opened(guide)
        assert found.notes == (f"{path}: cut off or damaged, left out.",)
        assert found.counts()["negative"]["trajectories"] == 2


def two_cameras_with_names_too_alike(guide: Path) -> None:
    made = trajectory(0, [0, 1])
    images = dict.fromkeys(("a b", "a/b"), made["images"]["base_camera"])
    write(guide / "positive/000000.npy", {**made, "images": images})


def rewrite(folder: Path, change: Callable[[bytes], bytes]) -> None:
    for path in folder.iterdir():
        path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    ("change", "how", "word"),
    [
        (lambda guide: write(guide / "positive/000001.npy", {"images": {"c": _Evil(guide / "ran")}, "labels": [0, 1]}),
         {}, "000001"),
        (lambda guide: (guide / "negative/000002.npy").write_bytes(pickle.dumps(b"data")), {}, "not a .npy"),
        (lambda guide: rewrite(guide / "negative", lambda data: data[:-9]), {}, "negative is whole"),
        (lambda guide: (guide / "positive").rename(guide / "elsewhere"), {}, "not a folder"),
        (lambda guide: [path.unlink() for path in (guide / "negative").iterdir()], {}, "no .npy"),
        (lambda guide: None, {"cameras": ["wrist"]}, "wrist"),
        (lambda guide: write(guide / "positive/000000.npy", trajectory(0, [0, 1], scale=255.0)), {}, "uint8"),
        (two_cameras_with_names_too_alike, {}, "told apart"),
    ],
)  # fmt: skip
def test_folders_that_are_refused(guide: Path, change: Callable[[Path], Any], how: dict[str, Any], word: str) -> None:
    change(guide)
    with pytest.raises(MotionkitError) as said:
        opened(guide, **how)
    assert word in said.value.sentence()
    assert not (guide / "ran").exists()  # nothing in a file executes


def test_what_a_killed_process_left_in_the_cache_does_not_count_twice(
    guide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from motionkit_success.episodes import trajectories as module

    def die(path: Path, data: bytes) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_bytes_atomic", die)
        with pytest.raises(KeyboardInterrupt):
            opened(guide)
    assert len(opened(guide).records) == 6


def test_folders_of_other_kinds_need_no_trajectories(tmp_path: Path) -> None:
    with Collector(tmp_path / "one", cameras={"a": (4, 4)}) as collector:
        collector.add({"a": np.zeros((4, 4, 3), np.uint8)}, True, True)
    assert len(open_episodes(tmp_path / "one")) == 1


@pytest.mark.parametrize("scale", [1.0, 255.0])
def test_one_file_of_bytes_does_not_make_the_others_black(tmp_path: Path, scale: float) -> None:
    """A file of uint8 says its range by its type; the others are read by theirs."""
    for number in range(8):
        content = trajectory(number, [0.0, 1.0 if number % 2 else 0.0], scale=scale)
        if number == 4:
            content["images"] = {
                "base_camera": np.round(content["images"]["base_camera"] / scale * 255).astype(np.uint8)
            }
        write(tmp_path / ("positive" if number % 2 else "negative") / f"{number:06d}.npy", content)
    found = opened(tmp_path)
    order = [1, 3, 5, 7, 0, 2, 4, 6]
    for place, number in enumerate(order):
        wanted = np.random.default_rng(number).integers(0, 256, (2, 3, 6, 6)).transpose(0, 2, 3, 1)
        assert np.array_equal(found.read(np.array([2 * place, 2 * place + 1]))["base_camera"], wanted), number
    assert any("1 of 8 files hold whole numbers" in note for note in found.notes)


@pytest.mark.parametrize(
    ("name", "plain"),
    [("hand camera", "hand.camera"), ("wrist/rgb", "wrist.rgb"), ("<script>", "script."), ("../é", "camera")],
)
def test_cameras_of_any_name_are_read_and_the_new_name_is_said(tmp_path: Path, name: str, plain: str) -> None:
    for number in range(2):
        content = trajectory(number, [0, 1])
        write(tmp_path / "positive" / f"{number}.npy", {**content, "images": {name: content["images"]["base_camera"]}})
        content = trajectory(5 + number, [0, 0])
        write(tmp_path / "negative" / f"{number}.npy", {**content, "images": {name: content["images"]["base_camera"]}})
    for cameras in ((), (name,), (plain,)):
        found = opened(tmp_path, cameras=cameras)
        assert list(found.cameras) == [plain]
        assert f"the camera {name!r} is called {plain} here." in found.notes
