"""LeRobot datasets, version 3: their layout.

The layout follows huggingface/lerobot 0.6.1, ``datasets/utils.py`` and ``datasets/dataset_metadata.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from motionkit.documents import as_model, read_json
from motionkit.errors import MotionkitError
from motionkit.plugins import install_line

VERSION = "v3.0"
INFO, STATS, TASKS, OWN = "meta/info.json", "meta/stats.json", "meta/tasks.parquet", "meta/motionkit.json"
EPISODES = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"

ACTION, STATE, PICTURES = "action", "observation.state", "observation.images."
SUCCESS, NEXT_SUCCESS, NEXT_DONE, NEXT_REWARD = "success", "next.success", "next.done", "next.reward"
"""``success``, which is ours, is of the moment that a row shows; ``next.success`` of the one after its action."""

EXTRA = "motionkit-lerobot[files]"
"""What brings the packages that read and write the files."""

_FEATURES = 1000


class Feature(BaseModel):
    """A column of the dataset, or a video."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    dtype: Annotated[str, Field(max_length=40)]  # ``video``, ``image``, or a type of numpy
    # Of one frame; a video's is ``(H, W, 3)``, or ``(3, H, W)`` with names that say so
    shape: Annotated[tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...], Field(max_length=8)]
    names: Any = None  # names of its dimensions or numbers
    info: dict[str, Any] | None = None  # of a video: codec and such

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
    """``meta/info.json``."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    codebase_version: str  # version of the layout
    fps: float = Field(gt=0, le=100_000)  # frames a second of all videos
    total_episodes: int = Field(ge=0, le=10_000_000)  # number of episodes
    features: dict[str, Feature] = Field(max_length=_FEATURES)  # columns and videos by name
    data_path: Literal["data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"] = DATA  # type: ignore[assignment]
    video_path: Literal["videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"] | None = VIDEO  # type: ignore[assignment]
    robot_type: str | None = None  # what acted


def is_lerobot(place: Path) -> bool:
    """Return whether a folder has the layout of a LeRobot dataset, of any version."""
    return (place / INFO).is_file()


def read_info(folder: Path) -> Info:
    """Read ``meta/info.json``."""
    content = read_json(folder / INFO, dict, fix="give the folder that holds meta, data and videos.")
    version = str(content.get("codebase_version", ""))[:20]
    if not version.startswith("v3."):
        raise MotionkitError(
            f"{folder} is a LeRobot dataset of version {version or 'unknown'}.",
            why=f"version 3 is read, as lerobot writes it since 0.4 ({VERSION}).",
            fix="python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id=ID makes one of version 3.",
        )
    info = as_model(folder / INFO, Info, content)
    for key in info.features:
        if "/" in key or "\\" in key or key.startswith(".") or len(key) > 200:
            raise MotionkitError(f"{folder / INFO} is damaged: the feature {key[:60]!r} names no folder.")
    return info


def require_parquet() -> Any:
    """Return the module ``pyarrow.parquet``."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MotionkitError(
            "LeRobot datasets hold parquet files, which need pyarrow.", fix=install_line(EXTRA)
        ) from error
    return parquet
