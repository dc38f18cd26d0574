"""A small task to learn from images: a bright disc moves about, and succeeds while it covers a ring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from motionkit.runs import fingerprint

SIDE = 24


@dataclass(frozen=True)
class MadeRecord:
    """Follows `motionkit_success.episodes.EpisodeRecord`."""

    id: str
    frames: int
    positive: bool
    success_once: bool
    seed: int | None
    source: str
    content: str


@dataclass(frozen=True)
class MadeEpisodes:
    """Follows `motionkit_success.episodes.Episodes`, in memory."""

    cameras: Mapping[str, tuple[int, int]]
    records: Sequence[MadeRecord]
    labels: NDArray[np.float32]
    episode: NDArray[np.int64]
    step: NDArray[np.int64]
    images: Mapping[str, NDArray[np.uint8]]
    environment: Mapping[str, object] = field(default_factory=lambda: {"name": "disc"})
    label_rule: str = "success of the state that the frame shows"
    fingerprint: str = "made"
    notes: Sequence[str] = ()
    labelled: bool = True

    def __len__(self) -> int:
        return len(self.labels)

    def distinct(self) -> MadeEpisodes:
        return self

    def require_whole(self) -> None:
        """All is as it was made."""

    def read(self, index: NDArray[np.int64]) -> Mapping[str, NDArray[np.uint8]]:
        return {name: values[index] for name, values in self.images.items()}


def draw(disc: NDArray[np.float64], goal: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return ``[SIDE, SIDE, 3]``: the goal green, the disc red over it; places are in 0 to 1."""
    y, x = (np.mgrid[:SIDE, :SIDE] + 0.5) / SIDE
    image = np.full((SIDE, SIDE, 3), 30, dtype=np.uint8)
    image[np.hypot(y - goal[0], x - goal[1]) < 0.2] = (40, 130, 50)
    image[np.hypot(y - disc[0], x - disc[1]) < 0.12] = (230, 60, 40)
    return image


def start(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    while True:
        disc, goal = rng.uniform(0.15, 0.85, (2, 2))
        if np.hypot(*(disc - goal)) > 0.35:
            return disc, goal


def make(count: int = 60, seed: int = 0, *, length: int = 20, bug: bool = False, second: bool = False) -> MadeEpisodes:
    """Return episodes.

    Args:
        count: Episodes; every other one goes for the goal.
        seed: Of everything.
        length: Most frames of an episode.
        bug: End at success and store the next start in place of the last frame, as a recorder does that looks after
            the automatic reset.
        second: Add a camera ``dark`` that sees nothing.
    """
    rng = np.random.default_rng(seed)
    frames: list[NDArray[np.uint8]] = []
    labels: list[float] = []
    records: list[MadeRecord] = []
    for number in range(count):
        disc, goal = start(rng)
        own: list[float] = []
        for _ in range(length):
            toward = (goal - disc) / max(1e-6, float(np.hypot(*(goal - disc)))) if number % 2 else np.zeros(2)
            disc = np.clip(disc + 0.05 * toward + rng.normal(size=2) * 0.03, 0.1, 0.9)
            own.append(float(np.hypot(*(disc - goal)) < 0.12))
            frames.append(draw(disc, goal))
            if bug and own[-1]:
                break
        if bug:
            frames[-1] = draw(*start(rng))
        good = max(own) > 0.5
        shown = fingerprint(np.stack(frames[-len(own) :]))
        records.append(MadeRecord(f"{number:06d}", len(own), good, good, number, "made", shown))
        labels += own
    lengths = [record.frames for record in records]
    images = {"camera": np.stack(frames)}
    if second:
        images["dark"] = np.zeros((len(frames), 16, 20, 3), dtype=np.uint8)
    return MadeEpisodes(
        {name: (values.shape[1], values.shape[2]) for name, values in images.items()},
        records,
        np.array(labels, dtype=np.float32),
        np.repeat(np.arange(count), lengths),
        np.concatenate([np.arange(many) for many in lengths]),
        images,
        fingerprint=f"made-{count}-{seed}-{bug}",
    )
