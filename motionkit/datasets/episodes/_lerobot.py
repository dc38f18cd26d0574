"""The layout of a LeRobot dataset, version 3: where its files lie, and what its ``info.json`` may say.

Facts from huggingface/lerobot 0.6.1, ``datasets/utils.py`` and ``datasets/dataset_metadata.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from motionkit.documents import read_json
from motionkit.errors import MotionkitError

VERSION = "v3.0"
INFO, STATS, TASKS, OWN = "meta/info.json", "meta/stats.json", "meta/tasks.parquet", "meta/motionkit.json"
EPISODES = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"

ACTION, STATE, PICTURES = "action", "observation.state", "observation.images."
SUCCESS, NEXT_SUCCESS, NEXT_DONE = "success", "next.success", "next.done"
"""``success`` is of the moment that a row shows, and is ours; ``next.success`` of the one after its action."""

INSTALL = 'pip install "motionkit[lerobot]"'
_FEATURES = 1000


class Feature(BaseModel):
    """A column of the dataset, or a video.

    Attributes:
        dtype: ``video``, ``image``, or a type of numpy.
        shape: Of one frame; a video's is ``(H, W, 3)``, or ``(3, H, W)`` with names that say so.
        names: Names of its dimensions or numbers.
        info: Of a video: codec and such.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    dtype: Annotated[str, Field(max_length=40)]
    shape: Annotated[tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...], Field(max_length=8)]
    names: Any = None
    info: dict[str, Any] | None = None

    @property
    def depth(self) -> bool:
        """Whether a video shows distances instead of colours."""
        info = self.info or {}
        return bool(info.get("is_depth_map") or info.get("video.is_depth_map"))

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of a video."""
        first = self.names[0] if isinstance(self.names, list) and self.names else ""
        height, width = self.shape[1:] if str(first).startswith("channel") else self.shape[:2]
        return height, width


class Info(BaseModel):
    """``meta/info.json``.

    Attributes:
        codebase_version: Version of the layout.
        fps: Frames a second of all videos.
        total_episodes: Number of episodes.
        features: Columns and videos by name.
        data_path: Where rows lie.
        video_path: Where videos lie.
        robot_type: What acted.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    codebase_version: str
    fps: float = Field(gt=0, le=100_000)
    total_episodes: int = Field(ge=0, le=10_000_000)
    features: dict[str, Feature] = Field(max_length=_FEATURES)
    data_path: Literal["data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"] = DATA  # type: ignore[assignment]
    video_path: Literal["videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"] | None = VIDEO  # type: ignore[assignment]
    robot_type: str | None = None


def is_lerobot(place: Path) -> bool:
    """Return whether a folder has the layout of a LeRobot dataset, of any version."""
    return (place / INFO).is_file()


def read_info(folder: Path) -> Info:
    """Read ``meta/info.json``.

    Raises:
        MotionkitError: It is of another version, damaged, or without videos.
    """
    content = read_json(folder / INFO, dict, fix="give the folder that holds meta, data and videos.")
    version = str(content.get("codebase_version", ""))[:20]
    if not version.startswith("v3."):
        raise MotionkitError(
            f"{folder} is a LeRobot dataset of version {version or 'unknown'}.",
            why=f"version 3 is read, as lerobot writes it since 0.4 ({VERSION}).",
            fix="python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id=ID makes one of version 3.",
        )
    try:
        info = Info.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise MotionkitError(
            f"{folder / INFO} is damaged.", why=f"{'.'.join(map(str, first['loc']))}: {first['msg']}."
        ) from error
    for key in info.features:
        if "/" in key or "\\" in key or key.startswith(".") or len(key) > 200:
            raise MotionkitError(f"{folder / INFO} is damaged: the feature {key[:60]!r} names no folder.")
    return info
