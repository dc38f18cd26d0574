"""Frames of episodes: reading, collecting and training, against the guide's format of one ``.npy`` file per episode.

Such a file is a pickled table of float32 pictures; one frame takes reading the whole of it. Both sides see the same
frames, files are in the page cache, and times are CPU times of one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from motionkit_success.classifier import Card, SuccessClassifier
from motionkit_success.environments.arm import Reach
from motionkit_success.environments.tasks import ReachSettings
from motionkit_success.episodes import Collector, Episodes, export_trajectories, open_episodes
from motionkit_success.step import loss_of
from motionkit_success.train_data import Augmentation, FrameBatches, Images

from .ratios import Ratios

CAMERA = "base_camera"
COPIES, LENGTH, EPISODES = 16, 50, 96
BATCH, GOAL = 128, 20


def fastest(rows: dict[str, Callable[[], object]], times: int) -> dict[str, float]:
    """Return the least CPU time of each row; rows take turns, so that a slow spell of the machine hits all."""
    best = dict.fromkeys(rows, float("inf"))
    for _ in range(times):
        for row, work in rows.items():
            started = time.process_time()
            work()
            best[row] = min(best[row], time.process_time() - started)
    return best


class PerFile:
    """Reads frames as the guide's ``RewardDataset`` does: the file of the episode, whole, for each."""

    def __init__(self, folder: Path, episodes: Episodes) -> None:
        self._episodes = episodes
        numbers = {"positive": count(), "negative": count()}
        names = ["positive" if record.positive else "negative" for record in episodes.records]
        self._files = [folder / name / f"{next(numbers[name]):06d}.npy" for name in names]

    def read(self, index: NDArray[np.int64]) -> Mapping[str, NDArray[np.uint8]]:
        """Return frames, as `Episodes.read` does."""
        found = []
        for number in index.tolist():
            file = self._files[int(self._episodes.episode[number])]
            table = np.load(file, allow_pickle=True).item()  # written by this test
            found.append(table["images"][CAMERA][int(self._episodes.step[number])])
        pictures = np.stack(found).transpose(0, 2, 3, 1)
        return {CAMERA: (pictures * 255 + 0.5).astype(np.uint8)}


def act(folder: Path, add: Callable[[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.bool_]], None]) -> None:
    """Step 16 arms at random for so many episodes; `add` is given frames, success and done."""
    environment = Reach(ReachSettings(max_steps=LENGTH), num_envs=COPIES)
    rng = np.random.default_rng(0)
    for number in range(EPISODES // COPIES):
        environment.reset(np.arange(COPIES), np.arange(COPIES) + COPIES * number)
        for _ in range(LENGTH):
            step = environment.step(rng.uniform(-1, 1, (COPIES, 2)))
            add(environment.frames()[CAMERA], step.success, step.done)


def collect(folder: Path) -> None:
    """Keep episodes in motionkit's format."""
    with Collector(folder, cameras={CAMERA: (64, 64)}) as collector:
        act(folder, lambda frames, success, done: collector.add({CAMERA: frames}, success, done))


def collect_files(folder: Path) -> None:
    """Keep episodes as the guide's collector does: lists of float32 frames, saved when the episode ends."""
    running: list[tuple[list[Any], list[float]]] = [([], []) for _ in range(COPIES)]
    written = {"positive": count(), "negative": count()}
    for name in written:
        (folder / name).mkdir(parents=True, exist_ok=True)

    def add(frames: NDArray[np.uint8], success: NDArray[np.bool_], done: NDArray[np.bool_]) -> None:
        for copy in range(COPIES):
            pictures, labels = running[copy]
            pictures.append(frames[copy].transpose(2, 0, 1).astype(np.float32) / 255)
            labels.append(float(success[copy]))
            if done[copy]:
                name = "positive" if any(labels) else "negative"
                table = {"images": {CAMERA: np.stack(pictures)}, "labels": np.array(labels, np.float32)}
                np.save(folder / name / f"{next(written[name]):06d}.npy", table, allow_pickle=True)  # type: ignore[arg-type]
                running[copy] = ([], [])

    act(folder, add)


@pytest.fixture(scope="module")
def episodes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Episodes, PerFile]:
    folder = tmp_path_factory.mktemp("episodes")
    collect(folder / "ours")
    ours = open_episodes(folder / "ours")
    export_trajectories(ours, folder / "files")
    return ours, PerFile(folder / "files", ours)


@pytest.mark.benchmark
def test_random_reads(episodes: tuple[Episodes, PerFile], ratios: Ratios) -> None:
    ours, files = episodes
    torch.set_num_threads(1)
    index = np.random.default_rng(1).integers(0, len(ours), BATCH)
    np.testing.assert_array_equal(ours.read(index)[CAMERA], files.read(index)[CAMERA])
    group = f"{BATCH} random frames of {len(ours.records)} episodes of {LENGTH} frames"
    best = fastest({
        "a .npy file per episode": lambda: files.read(index),
        "motionkit, one at a time": lambda: [ours.read(index[place : place + 1]) for place in range(BATCH)],
        "motionkit, a batch": lambda: ours.read(index),
    }, 7)  # fmt: skip
    for row, seconds in best.items():
        ratios.add(group, row, seconds)
        ratios.tell("Frames in a second", f"{row:<44} read {BATCH / seconds:>12,.0f}")
    assert ratios.of(group, "motionkit, a batch") >= GOAL


@pytest.mark.benchmark
def test_collecting(tmp_path: Path, ratios: Ratios) -> None:
    torch.set_num_threads(1)
    group = f"Collecting {EPISODES * LENGTH:,} frames of reach, random actions"
    names = count()
    best = fastest({
        "a .npy file per episode": lambda: collect_files(tmp_path / f"{next(names)}"),
        "motionkit": lambda: collect(tmp_path / f"{next(names)}"),
    }, 3)  # fmt: skip
    for row, seconds in best.items():
        ratios.add(group, row, seconds)
        ratios.tell("Frames in a second", f"{row:<44} collected {EPISODES * LENGTH / seconds:>7,.0f}")


@pytest.mark.benchmark
def test_training(episodes: tuple[Episodes, PerFile], ratios: Ratios) -> None:
    ours, files = episodes
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = SuccessClassifier.make(Card(architecture="small", cameras={CAMERA: (64, 64)})).network
    optimizer = torch.optim.AdamW(network.parameters(), 1e-3)
    batches = FrameBatches(np.arange(len(ours)), ours.labels, BATCH, negatives=3.0, seed=0)
    numbers = count(1)

    def steps(source: Any) -> Callable[[], None]:
        seen = Images(network, source, Augmentation(2, 0.1, 0), torch.device("cpu"))

        def run() -> None:
            for _ in range(4):
                number = next(numbers)
                index = batches(number)
                optimizer.zero_grad()
                loss_of(seen.logits(index, step=number), torch.from_numpy(ours.labels[index])).backward()
                optimizer.step()

        return run

    group = f"Training steps of the small classifier, {BATCH} frames each"
    started = time.process_time()
    best = fastest({"a .npy file per episode": steps(files), "motionkit": steps(ours)}, 5)
    assert time.process_time() - started < 120
    for row, seconds in best.items():
        ratios.add(group, row, seconds)
        ratios.tell("Frames in a second", f"{row:<44} trained on {4 * BATCH / seconds:>6,.0f}")
    assert ratios.of(group, "motionkit") > 1
