"""Episodes are written whole, read as written, and survive a kill at any time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit_success.episodes import Collector, Episodes, open_episodes
from motionkit_success.episodes import collector as collector_module

CAMERAS = {"front": (6, 8), "side": (4, 4)}


def pictures(rng: np.random.Generator, copies: int) -> dict[str, np.ndarray]:
    return {name: rng.integers(0, 256, (copies, *size, 3), np.uint8) for name, size in CAMERAS.items()}


def fill(collector: Collector, episodes: int, *, frames: int = 5, copies: int = 2, seed: int = 0) -> list[np.ndarray]:
    """Add episodes, every second one with a success in its last frame; returns the front pictures of each."""
    rng, kept = np.random.default_rng(seed), []
    for number in range(episodes // copies):
        seen = []
        for step in range(frames):
            shown, last = pictures(rng, copies), step == frames - 1
            success = np.array([last and (number * copies + copy) % 2 == 0 for copy in range(copies)])
            collector.add(shown, success, np.full(copies, last), seeds=[100 + number] * copies)
            seen.append(shown["front"])
        kept += [np.stack([part[copy] for part in seen]) for copy in range(copies)]
    return kept


def test_what_was_added_is_read(tmp_path: Path) -> None:
    with Collector(tmp_path / "data", cameras=CAMERAS, environment={"name": "reach"}) as collector:
        collector.source = "random"
        kept = fill(collector, 6)
        assert collector.counts["positive"] == {"trajectories": 3, "frames": 15, "success_frames": 3}
    found = open_episodes(tmp_path / "data")
    assert len(found) == 30
    assert [record.positive for record in found.records] == [True, False] * 3
    assert {record.source for record in found.records} == {"random"}
    assert found.records[2].seed == 101
    assert found.environment == {"name": "reach"}
    assert found.labels.reshape(6, 5)[:, -1].tolist() == [1, 0] * 3
    assert found.labels.sum() == 3
    assert np.array_equal(found.step, np.tile(np.arange(5), 6))
    index = np.random.default_rng(1).permutation(30)
    read = found.read(index)
    assert np.array_equal(read["front"], np.concatenate(kept)[index])
    assert read["side"].shape == (30, 4, 4, 3)
    assert found.verify() == []
    assert found.counts() == collector.counts


def test_more_is_added_to_what_is_there(tmp_path: Path) -> None:
    with Collector(tmp_path, cameras=CAMERAS) as collector:
        first = fill(collector, 2)
    with Collector(tmp_path, cameras=CAMERAS) as collector:
        second = fill(collector, 2, seed=5)
    found = open_episodes(tmp_path)
    assert len({record.id for record in found.records}) == 4
    assert np.array_equal(found.read(np.arange(20))["front"], np.concatenate([*first, *second]))


def test_writers_have_files_of_their_own(tmp_path: Path) -> None:
    with Collector(tmp_path, cameras=CAMERAS) as one, Collector(tmp_path, cameras=CAMERAS, writer=1) as two:
        fill(one, 2)
        fill(two, 4, seed=3)
        with pytest.raises(MotionkitError, match="another process"):
            Collector(tmp_path, cameras=CAMERAS)
    found = open_episodes(tmp_path)
    assert len(found.records) == 6
    assert found.verify() == []


def test_shards_begin_anew_when_they_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector_module, "SHARD_BYTES", 6 * 8 * 3 * 10)
    with Collector(tmp_path, cameras=CAMERAS) as collector:
        kept = fill(collector, 8)
    found = open_episodes(tmp_path)
    assert len({record.shard for record in found.records}) > 2
    assert np.array_equal(found.read(np.arange(40))["front"], np.concatenate(kept))
    with Collector(tmp_path, cameras=CAMERAS) as collector:
        fill(collector, 2, seed=9)
    assert open_episodes(tmp_path).verify() == []


@pytest.mark.parametrize("lost", [1, 300])
def test_a_cut_off_shard_loses_the_episodes_in_it_alone(tmp_path: Path, lost: int) -> None:
    with Collector(tmp_path, cameras=CAMERAS) as collector:
        fill(collector, 6)
    path = tmp_path / "frames-00-0000.side.u8"
    os.truncate(path, path.stat().st_size - lost)
    found = open_episodes(tmp_path)
    assert len(found.records) == 6 - (1 if lost == 1 else 2)
    assert all("is cut off" in note for note in found.notes)
    assert found.verify() == []


def test_going_back_drops_what_came_after(tmp_path: Path) -> None:
    def run(folder: Path, stop: bool) -> Episodes:
        with Collector(folder, cameras=CAMERAS) as collector:
            fill(collector, 4)
            rng = np.random.default_rng(8)
            collector.add(pictures(rng, 2), [False, True], [False, False])
            state = collector.state()
            if stop:
                collector.add(pictures(rng, 2), [True, True], [True, True])
                collector.rewind(*state)
                rng = np.random.default_rng(8)
                pictures(rng, 2)
            collector.add(pictures(rng, 2), [False, False], [True, True])
        return open_episodes(folder)

    plain, again = run(tmp_path / "a", False), run(tmp_path / "b", True)
    assert plain.fingerprint == again.fingerprint
    assert again.verify() == []


_WRITER = """
import sys
import numpy as np
from motionkit_success.episodes import Collector
with Collector(sys.argv[1], cameras={"front": (64, 64)}) as collector:
    print("begun", flush=True)
    while True:
        for step in range(4):
            frames = {"front": np.random.randint(0, 256, (8, 64, 64, 3), np.uint8)}
            collector.add(frames, np.full(8, step == 3) & (np.arange(8) % 2 == 0), np.full(8, step == 3))
"""


def test_a_kill_at_any_time_leaves_whole_episodes(tmp_path: Path) -> None:
    before = 0
    for round_ in range(3):
        process = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        time.sleep(0.1 + 0.07 * round_)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = open_episodes(tmp_path)
        assert len(found.records) > before
        assert found.verify() == []
        assert not found.notes
        before = len(found.records)


@pytest.mark.parametrize(
    ("frames", "word"),
    [
        ({"front": np.zeros((8, 6, 3), np.uint8)}, "8, 6, 3"),
        ({"front": np.zeros((6, 8, 3))}, "float64"),
        ({"back": np.zeros((6, 8, 3), np.uint8)}, "front"),
    ],
)
def test_wrong_frames_are_refused(tmp_path: Path, frames: dict[str, np.ndarray], word: str) -> None:
    with Collector(tmp_path, cameras={"front": (6, 8)}) as collector, pytest.raises(MotionkitError, match=word):
        collector.add(frames, False, False)


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector(tmp_path, cameras=CAMERAS) as collector:
        fill(collector, 2)

        def full(path: Path, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(collector_module, "_append", full)
        with pytest.raises(MotionkitError, match="cannot be written") as said:
            fill(collector, 2)
        assert said.value.code == 1
    assert len(open_episodes(tmp_path).records) == 2


def test_lines_that_are_not_episodes_are_said(tmp_path: Path) -> None:
    with Collector(tmp_path, cameras=CAMERAS) as collector:
        fill(collector, 2)
    lines = tmp_path / "episodes-00.jsonl"
    first, second = lines.read_text().splitlines()
    odd = json.loads(second)
    odd["shard"] = "../../etc/passwd"
    lines.write_text(f"{first}\n{json.dumps(odd)}\n")
    found = open_episodes(tmp_path)
    assert len(found.records) == 1
    assert "line 2 of episodes-00.jsonl" in found.notes[0]


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda folder: Collector(folder, cameras={"front": (8, 8)}), "cameras"),
        (lambda folder: Collector(folder / "new", cameras={"hand camera": (8, 8)}), "hand camera"),
        (lambda folder: open_episodes(folder / "nothing"), "nothing"),
    ],
)
def test_folders_and_cameras_that_do_not_fit(tmp_path: Path, call: Callable[[Path], object], word: str) -> None:
    with Collector(tmp_path, cameras=CAMERAS) as collector:
        fill(collector, 2)
    with pytest.raises(MotionkitError, match=word):
        call(tmp_path)
