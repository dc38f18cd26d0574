"""Which frames a step sees, and how their images are changed: a function of seed and step alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.rl import stable_hash
from motionkit.trainers._world import OneProcess, World, rows_of


class _Stream:
    """An endless shuffled sequence of frames: each once before any comes again."""

    def __init__(self, frames: NDArray[np.int64], name: str, seed: int) -> None:
        self._frames, self._name, self._seed = frames, name, seed
        self._round: tuple[int, NDArray[np.int64]] = (-1, frames)

    def part(self, start: int, count: int) -> NDArray[np.int64]:
        """Return the frames at places `start` to ``start + count`` of the sequence."""
        found: list[NDArray[np.int64]] = []
        while count > 0:
            turn, place = divmod(start, len(self._frames))
            if self._round[0] != turn:
                generator = generator_of(f"{self._name}/{self._seed}/{turn}")
                order = torch.randperm(len(self._frames), generator=generator).numpy()
                self._round = (turn, self._frames[order])
            found.append(self._round[1][place : place + count])
            start, count = start + len(found[-1]), count - len(found[-1])
        return np.concatenate(found)


class FrameBatches:
    """Batches with a fixed share of each label.

    An epoch has as many steps as it takes to see as many frames as there are; with a fixed share, frames of the rarer
    label come several times in it.

    Args:
        frames: ``[N]`` frames to draw from.
        labels: ``[N]`` their labels; both occur.
        size: Frames of a batch; fewer when there are fewer.
        negatives: Frames of label 0 for each of label 1; 0: as they come.
        seed: Fixes everything.
    """

    def __init__(
        self, frames: NDArray[np.int64], labels: NDArray[np.float32], size: int, *, negatives: float, seed: int
    ) -> None:
        size = min(size, len(frames))
        self.per_epoch = -(-len(frames) // size)
        one = labels > 0.5
        if negatives:
            many = min(max(1, round(size / (1 + negatives))), size - 1)
            self._streams = [
                (_Stream(frames[one], "reward-train/1", seed), many),
                (_Stream(frames[~one], "reward-train/0", seed), size - many),
            ]
        else:
            self._streams = [(_Stream(frames, "reward-train", seed), size)]

    def __call__(self, step: int) -> NDArray[np.int64]:
        """Return the frames of step number `step` (1-based), ascending, which is how a disk reads them best."""
        parts = [stream.part((step - 1) * count, count) for stream, count in self._streams]
        return np.sort(np.concatenate(parts))


@dataclass(frozen=True)
class Augmentation:
    """Changes of images.

    Attributes:
        shift: Most pixels that an image is moved by; its edge is repeated.
        brightness: Most that values are changed by, as a share.
        seed: Fixes everything.
        world: The processes that share a batch; the draws are those of the whole batch.
    """

    shift: int
    brightness: float
    seed: int
    world: World = field(default_factory=OneProcess)

    def __call__(self, images: Mapping[str, Tensor], step: int) -> dict[str, Tensor]:
        """Return changed images ``[N, 3, H, W]`` in 0 to 1; each image by itself, all cameras by draws of their own."""
        generator = generator_of(f"reward-train/augment/{self.seed}/{step}")
        return {name: self._changed(values, generator) for name, values in sorted(images.items())}

    def _changed(self, images: Tensor, generator: torch.Generator) -> Tensor:
        count, _, height, width = images.shape
        everyone, own = rows_of(images, self.world)
        if self.shift:
            moves = torch.randint(-self.shift, self.shift + 1, (everyone, 2), generator=generator)[own]
            moves = moves.to(images.device)
            # Rows and columns are picked by index, clamped at the edges: no padding, no interpolation.
            rows = (torch.arange(height, device=images.device) + moves[:, :1]).clamp(0, height - 1)
            columns = (torch.arange(width, device=images.device) + moves[:, 1:]).clamp(0, width - 1)
            place = torch.arange(count, device=images.device)[:, None, None]
            # Indexing with the channels last keeps the memory format: [N, H, W, 3].
            images = images.permute(0, 2, 3, 1)[place, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        if self.brightness:
            scale = 1 + self.brightness * (2 * torch.rand(everyone, 1, 1, 1, generator=generator)[own] - 1)
            images = (images * scale.to(images.device)).clamp(0, 1)
        return images


def generator_of(purpose: str) -> torch.Generator:
    """Return a generator of its own for a purpose."""
    return torch.Generator().manual_seed(stable_hash(purpose) % 2**63)
