"""Training data of a classifier: opened episodes, batches, and frames as the network reads them.

If the encoder is frozen, the network reads features that were computed once; else it reads images.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.rl import stable_hash
from motionkit.runs import disk_errors, find, locate, write_bytes_atomic
from motionkit.training.world import OneProcess, World, rows_of
from motionkit_success.classifier import CHUNK, in_words, refuse_sizes
from motionkit_success.classifier_network import SuccessNetwork, as_images
from motionkit_success.episode_formats import format_of
from motionkit_success.episodes import Episodes, label_episodes, open_episodes, open_trajectories
from motionkit_success.episodes.read import MappedPages
from motionkit_success.evaluation.data import Split
from motionkit_success.train_settings import RewardDataSettings

RECORD = "data.json"
"""A run's record of its data: their paths, their fingerprint, and the split."""

_COLLECT, _FOLDER = "reward-collect", "episodes"


@dataclass(frozen=True)
class Source:
    """Episodes and where they are from."""

    episodes: Episodes
    places: tuple[str, ...]  # folders that they were read from; of the guide's, those of successes and of others
    trajectories: bool  # whether they are the guide's files
    labels: Path | None = None  # file of a person's labels; None for those of the data
    note: str = ""  # how they were found, if the settings do not name them; else empty


def open_source(settings: RewardDataSettings, resume: Path | None) -> Source:
    """Open the data that the settings name, or the newest finished run of reward-collect."""
    if settings.positive_dir is not None and settings.negative_dir is not None:
        places = str(settings.positive_dir), str(settings.negative_dir)
        return _checked(reopen(places, trajectories=True, cameras=settings.cameras), settings)
    if settings.path:
        return _checked(reopen(settings.path, trajectories=False, labels=settings.labels), settings)
    if resume is not None:
        record = read_record(locate(str(resume))[0])
        return _checked(reopen_record(record), settings)
    newest = newest_collection()
    if newest is None:
        raise MotionkitError(
            "there are no episodes to train on.",
            why="--data was not given, and ./runs holds no finished run of reward-collect.",
            fix="motionkit reward-collect, then this command again; or --data FOLDER",
        )
    source = reopen((str(newest),), trajectories=False, labels=settings.labels)
    note = f"data: {newest}, the newest finished run of {_COLLECT}; --data names another"
    return _checked(replace(source, note=note), settings)


def reopen_record(record: Mapping[str, Any]) -> Source:
    """Open the data of a `read_record` again."""
    labels = record.get("labels")
    return reopen(
        record["places"], trajectories=record["trajectories"], labels=None if labels is None else Path(str(labels))
    )


def reopen(
    places: Sequence[str], *, trajectories: bool, cameras: Sequence[str] = (), labels: Path | None = None
) -> Source:
    """Open folders: one episode of each content, its frames compared with their hashes."""
    paths = [Path(place).expanduser() for place in places]
    if trajectories:
        episodes = open_trajectories(paths[0], paths[1], cameras=tuple(cameras))
    else:
        episodes = open_episodes(*paths)
    episodes.require_whole()
    if labels is not None:
        episodes = label_episodes(episodes, labels.expanduser())
    elif not episodes.labelled:
        raise MotionkitError(
            f"{', '.join(map(str, paths))}: nothing says which frames are a success.",
            why=" ".join(form.labels for form in map(format_of, paths) if form is not None),
            fix="motionkit reward-train --data.labels labels.csv, with the columns episode, label and frame.",
        )
    return Source(episodes.distinct(), tuple(places), trajectories, labels)


def newest_collection(root: str | Path = "runs") -> Path | None:
    """Return the newest finished run of reward-collect below `root`; None without one."""
    for info in find(_COLLECT, root):
        if info.status == "done" and (info.directory / _FOLDER).is_dir():
            return info.directory
    return None


def cameras_of(episodes: Episodes, settings: RewardDataSettings) -> dict[str, tuple[int, int]]:
    """Return the cameras that the classifier looks through, in the order of the settings or of the data."""
    return {name: episodes.cameras[name] for name in settings.cameras or episodes.cameras}


def counts_of(episodes: Episodes) -> list[str]:
    """Return trajectories, frames and labels of each source, a line each."""
    places: dict[str, list[int]] = {}
    for place, record in enumerate(episodes.records):
        places.setdefault(record.source, []).append(place)
    lines = []
    for source, members in places.items():
        inside = np.zeros(len(episodes.records), dtype=bool)
        inside[members] = True
        frames = inside[episodes.episode]
        many, ones = int(frames.sum()), int((episodes.labels[frames] > 0.5).sum())
        good = sum(episodes.records[place].positive for place in members)
        lines.append(
            f"{source}: {good:,} positive and {len(members) - good:,} negative trajectories, {many:,} frames: "
            f"{ones:,} of label 1 ({ones / max(1, many):.1%}), {many - ones:,} of label 0"
        )
    return lines


def write_record(path: Path, source: Source, split: Split) -> None:
    """Write `RECORD`, with absolute places, so that the run can be measured from anywhere."""
    document = {
        "schema": 2,
        "places": [str(Path(place).expanduser().absolute()) for place in source.places],
        "trajectories": source.trajectories,
        **({} if source.labels is None else {"labels": str(source.labels.expanduser().absolute())}),
        "fingerprint": source.episodes.fingerprint,
        "split": {"train": split.train, "val": split.val, "test": split.test},
    }
    write_bytes_atomic(path, (json.dumps(document, indent=1) + "\n").encode())


def read_record(run: Path) -> dict[str, Any]:
    """Read `RECORD` of a run."""
    path = run / RECORD
    record = read_json(path, dict, fix="name the data: --data FOLDER")
    places, split = record.get("places"), record.get("split")
    good = isinstance(places, list) and all(isinstance(place, str) for place in places) and places
    named = isinstance(split, Mapping) and all(isinstance(split.get(part), list) for part in ("train", "val", "test"))
    if not good or not named or not isinstance(record.get("trajectories"), bool):
        raise MotionkitError(f"{path} is damaged.", fix="name the data: --data FOLDER")
    return record


def _checked(source: Source, settings: RewardDataSettings) -> Source:
    """Return the source; refuse cameras that it lacks, and another size than that of the settings."""
    has = source.episodes.cameras
    if missing := [name for name in settings.cameras if name not in has]:
        raise MotionkitError(
            f"there is no camera {missing[0]}.", why=f"the data have {in_words(has)}.", fix="--data.cameras NAME"
        )
    refuse_sizes(cameras_of(source.episodes, settings))
    required = tuple(settings.image_size[-2:])
    for name, size in cameras_of(source.episodes, settings).items():
        if required and tuple(size) != required:
            raise MotionkitError(
                f"images of {name} are {size[0]}x{size[1]}, and data.image_size says {required[0]}x{required[1]}.",
                why="a classifier is made for images of one size.",
                fix="leave data.image_size out, or collect images of that size.",
            )
    return source


def run_of(place: Path) -> Path | None:
    """Return the run of reward-train of a run folder, of its classifier or of one of its checkpoints."""
    for folder in (place, *list(place.absolute().parents)[:3]):
        if (folder / RECORD).is_file():
            return folder
    return None


def held_out(run: Path, fingerprint: str) -> tuple[Source, NDArray[np.int64]]:
    """Return the data of a run, and the frames of the episodes that it was measured on."""
    source, split = data_of(run, fingerprint)
    return source, split.frames(source.episodes, split.test)


def data_of(run: Path, fingerprint: str) -> tuple[Source, Split]:
    """Return the data of a run, and their split."""
    record = read_record(run)
    source = reopen_record(record)
    if source.episodes.fingerprint != fingerprint:
        raise MotionkitError(
            f"{source.places[0]} has changed since {run} was trained on it.",
            why="which of its episodes were held out then is not known any more.",
            fix=f"put the episodes back; or measure on those that are there now: motionkit eval reward {run} "
            f"{source.places[0]}",
        )
    split = record["split"]
    if record.get("schema") == 1:  # by ids; later ones are by content
        contents = {episode.id: episode.content for episode in source.episodes.records}
        split = {part: [contents[name] for name in split[part] if name in contents] for part in split}
    return source, Split(*(tuple(split[part]) for part in ("train", "val", "test")))


# Batches


class _Stream:
    """An endless shuffled sequence of frames: each once before any comes again."""

    def __init__(self, frames: NDArray[np.int64], name: str, seed: int) -> None:
        self._frames, self._name, self._seed = frames, name, seed
        self._round: tuple[int, NDArray[np.int64]] = (-1, frames)

    def part(self, start: int, count: int) -> NDArray[np.int64]:
        """Return the frames at places `start` to ``start + count`` of the sequence."""
        parts: list[NDArray[np.int64]] = []
        while count > 0:
            turn, place = divmod(start, len(self._frames))
            if self._round[0] != turn:
                generator = generator_of(f"{self._name}/{self._seed}/{turn}")
                order = torch.randperm(len(self._frames), generator=generator).numpy()
                self._round = (turn, self._frames[order])
            parts.append(self._round[1][place : place + count])
            start, count = start + len(parts[-1]), count - len(parts[-1])
        return np.concatenate(parts)


class FrameBatches:
    """Batches with a fixed share of each label.

    The batches of an epoch have as many frames as there are; with a fixed share, frames of the rarer label come several
    times.
    """

    def __init__(
        self,
        frames: NDArray[np.int64],  # [N] frames to draw from
        labels: NDArray[np.float32],  # [N] their labels; both occur
        size: int,  # frames of a batch; fewer if there are fewer
        *,
        negatives: float,  # frames of label 0 for each of label 1; 0: as they come
        seed: int,  # fixes everything
    ) -> None:
        size = min(size, len(frames))
        self.per_epoch = -(-len(frames) // size)
        positive = labels > 0.5
        if negatives:
            many = min(max(1, round(size / (1 + negatives))), size - 1)
            self._streams = [
                (_Stream(frames[positive], "reward-train/1", seed), many),
                (_Stream(frames[~positive], "reward-train/0", seed), size - many),
            ]
        else:
            self._streams = [(_Stream(frames, "reward-train", seed), size)]

    def __call__(self, step: int) -> NDArray[np.int64]:
        """Return the frames of step number `step` (1-based), ascending, which is how a disk reads them best."""
        parts = [stream.part((step - 1) * count, count) for stream, count in self._streams]
        return np.sort(np.concatenate(parts))


@dataclass(frozen=True)
class Augmentation:
    """Changes of images."""

    shift: int  # most pixels that an image is moved by; its edge is repeated
    brightness: float  # most that values are changed by, as a share
    seed: int  # fixes everything
    # The processes that share a batch; the draws are those of the whole batch
    world: World = field(default_factory=OneProcess)

    def __call__(self, images: Mapping[str, Tensor], step: int) -> dict[str, Tensor]:
        """Return changed images ``[N, 3, H, W]`` in 0 to 1, with independent draws per image and camera."""
        generator = generator_of(f"reward-train/augment/{self.seed}/{step}")
        return {name: self._changed(values, generator) for name, values in sorted(images.items())}

    def _changed(self, images: Tensor, generator: torch.Generator) -> Tensor:
        count, _, height, width = images.shape
        everyone, mine = rows_of(images, self.world)
        if self.shift:
            # [N, 2] pixels down and right; drawn for the whole batch, so that shares of processes agree
            moves = torch.randint(-self.shift, self.shift + 1, (everyone, 2), generator=generator)[mine]
            moves = moves.to(images.device)
            # Rows and columns are picked by index, clamped at the edges: no padding, no interpolation.
            rows = (torch.arange(height, device=images.device) + moves[:, :1]).clamp(0, height - 1)
            columns = (torch.arange(width, device=images.device) + moves[:, 1:]).clamp(0, width - 1)
            place = torch.arange(count, device=images.device)[:, None, None]
            # Indexing with the channels last keeps the memory format: [N, H, W, 3].
            images = images.permute(0, 2, 3, 1)[place, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        if self.brightness:
            scale = 1 + self.brightness * (2 * torch.rand(everyone, 1, 1, 1, generator=generator)[mine] - 1)
            images = (images * scale.to(images.device)).clamp(0, 1)
        return images


def generator_of(purpose: str) -> torch.Generator:
    """Return the random generator of a purpose."""
    return torch.Generator().manual_seed(stable_hash(purpose) % 2**63)


# Inputs of the network


class FrameSet(Protocol):
    """Frames by their number; see `motionkit_success.episodes.Episodes`."""

    def __len__(self) -> int: ...

    def read(self, index: NDArray[np.int64], /) -> Mapping[str, NDArray[np.uint8]]:
        """Return frames ``[M, H, W, 3]`` by camera."""
        ...


class Images:
    """Reads frames, changes them, and runs the whole network."""

    def __init__(
        self,
        network: SuccessNetwork,
        episodes: FrameSet,
        augmentation: Augmentation,  # changes of the images of training steps
        device: torch.device,  # where the network is
    ) -> None:
        self._network, self._episodes, self._augmentation, self._device = network, episodes, augmentation, device

    def logits(self, index: NDArray[np.int64], *, step: int = 0) -> Tensor:
        """Return ``[N]``; images are augmented in training steps (from 1) only."""
        images = _images(self._network, self._episodes, index, self._device)
        logits: Tensor = self._network(self._augmentation(images, step) if step else images)
        return logits


class Features:
    """Reads feature maps of a frozen encoder from files, and runs the head alone."""

    def __init__(
        self,
        network: SuccessNetwork,
        maps: Mapping[str, np.memmap[Any, np.dtype[np.float32]]],  # [F, C, h, w] float32 by camera, memory-mapped
        device: torch.device,  # where the network is
    ) -> None:
        self._network, self._maps, self._device = network, maps, device
        self._pages = MappedPages()

    def logits(self, index: NDArray[np.int64], *, step: int = 0) -> Tensor:
        """Return ``[N]``; there is no augmentation."""
        maps = {name: torch.from_numpy(np.array(values[index])).to(self._device) for name, values in self._maps.items()}
        for values in self._maps.values():
            self._pages.touched(values, len(index))
        return self._network.head(maps)


Seen = Images | Features
"""Gives logits of frames."""


def cache_features(folder: Path, network: SuccessNetwork, episodes: FrameSet, device: torch.device) -> Features:
    """Compute the feature maps of all frames into files, and return their reader.

    A resumed run computes them again: that takes seconds, and truncated files would not be noticed.

    Args:
        folder: Where the files go; created if it is missing.
        network: The network; its backbones stay as they are.
        episodes: The frames.
        device: Where the network is.
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
                features = network.features(_images(network, episodes, index, device))
            for name, values in features.items():
                written[name][start : start + len(index)] = values.float().cpu().numpy()
                pages.touched(written[name], len(index))
        for part in written.values():
            part.flush()
    del written, pages
    maps = {name: np.load(path, mmap_mode="r") for name, path in files.items()}
    return Features(network, maps, device)


def all_logits(seen: Seen, index: NDArray[np.int64]) -> Tensor:
    """Return the logits of many frames ``[N]`` on the CPU, without gradients; the network is in eval mode."""
    with torch.no_grad():
        parts = [seen.logits(index[start : start + CHUNK]).float().cpu() for start in range(0, len(index), CHUNK)]
    return torch.cat(parts) if parts else torch.zeros(0)


def _images(
    network: SuccessNetwork, episodes: FrameSet, index: NDArray[np.int64], device: torch.device
) -> dict[str, Tensor]:
    frames = episodes.read(index)
    return {name: as_images(torch.from_numpy(frames[name]).to(device)) for name in network.names}
