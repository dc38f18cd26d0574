"""How the network sees frames: as images, or, where the encoder is frozen, as features that were computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.encoders.success._classifier import CHUNK
from motionkit.encoders.success._network import SuccessNetwork, as_images
from motionkit.runs import MappedPages, disk_errors
from motionkit.trainers.reward_train._batches import Augmentation


class FrameSet(Protocol):
    """Frames by their number; see `motionkit.datasets.episodes.Episodes`."""

    def __len__(self) -> int: ...

    def read(self, index: NDArray[np.int64], /) -> Mapping[str, NDArray[np.uint8]]:
        """Return frames ``[M, H, W, 3]`` by camera."""
        ...


class Seen(Protocol):
    """Logits of frames."""

    def logits(self, index: NDArray[np.int64], *, step: int = 0) -> Tensor:
        """Return ``[N]``, with a graph where one is wanted; images are changed in training steps (from 1) only."""
        ...


class Images:
    """Reads frames, changes them, and runs the whole network.

    Args:
        network: The network.
        episodes: The frames.
        augmentation: Changes of the images of training steps.
        device: Where the network is.
    """

    def __init__(
        self, network: SuccessNetwork, episodes: FrameSet, augmentation: Augmentation, device: torch.device
    ) -> None:
        self._network, self._episodes, self._augmentation, self._device = network, episodes, augmentation, device

    def logits(self, index: NDArray[np.int64], *, step: int = 0) -> Tensor:
        """See `Seen.logits`."""
        images = _images(self._network, self._episodes, index, self._device)
        logits: Tensor = self._network(self._augmentation(images, step) if step else images)
        return logits


class Features:
    """Reads feature maps of a frozen encoder from files, and runs the head alone.

    Args:
        network: The network.
        maps: ``[F, C, h, w]`` float32 by camera, memory-mapped.
        device: Where the network is.
    """

    def __init__(
        self, network: SuccessNetwork, maps: Mapping[str, np.memmap[Any, np.dtype[np.float32]]], device: torch.device
    ) -> None:
        self._network, self._maps, self._device = network, maps, device
        self._pages = MappedPages()

    def logits(self, index: NDArray[np.int64], *, step: int = 0) -> Tensor:
        """See `Seen.logits`; there are no images to change."""
        found = {
            name: torch.from_numpy(np.array(values[index])).to(self._device) for name, values in self._maps.items()
        }
        for values in self._maps.values():
            self._pages.touched(values, len(index))
        return self._network.head(found)


def cache_features(
    folder: Path,
    network: SuccessNetwork,
    episodes: FrameSet,
    device: torch.device,
    progress: Callable[[int], None] | None = None,
) -> Features:
    """Compute the feature maps of all frames into files and return what reads them.

    They are computed again when a run is resumed: that takes seconds, and files that were cut short would not be
    noticed.

    Args:
        folder: Where the files go; created when absent.
        network: The network; its backbones stay as they are.
        episodes: The frames.
        device: Where the network is.
        progress: Called with the number of frames that were done.

    Raises:
        MotionkitError: The disk is full (exit code 1).
    """
    with disk_errors("store the encoder's features", folder):
        folder.mkdir(parents=True, exist_ok=True)
        files = {name: folder / f"{place}.npy" for place, name in enumerate(network.maps())}
        written = {
            name: np.lib.format.open_memmap(files[name], "w+", np.float32, (len(episodes), *shape))
            for name, shape in network.maps().items()
        }
        pages = MappedPages()
        for start in range(0, len(episodes), CHUNK):
            index = np.arange(start, min(start + CHUNK, len(episodes)))
            with torch.no_grad():
                found = network.features(_images(network, episodes, index, device))
            for name, values in found.items():
                written[name][start : start + len(index)] = values.float().cpu().numpy()
                pages.touched(written[name], len(index))
            if progress is not None:
                progress(len(index))
        for part in written.values():
            part.flush()
    del written, pages
    maps = {name: np.load(path, mmap_mode="r") for name, path in files.items()}
    return Features(network, maps, device)


def all_logits(seen: Seen, index: NDArray[np.int64]) -> Tensor:
    """Return the logits of many frames ``[N]`` on the CPU, without a graph; the network is in eval mode."""
    with torch.no_grad():
        parts = [seen.logits(index[start : start + CHUNK]).float().cpu() for start in range(0, len(index), CHUNK)]
    return torch.cat(parts) if parts else torch.zeros(0)


def _images(
    network: SuccessNetwork, episodes: FrameSet, index: NDArray[np.int64], device: torch.device
) -> dict[str, Tensor]:
    frames = episodes.read(index)
    return {name: as_images(torch.from_numpy(frames[name]).to(device)) for name in network.names}
