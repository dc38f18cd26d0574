"""Episodes as a LeRobot dataset."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.episodes._lerobot import (
    ACTION,
    DATA,
    EPISODES,
    INFO,
    INSTALL,
    NEXT_DONE,
    NEXT_SUCCESS,
    OWN,
    PICTURES,
    STATE,
    STATS,
    SUCCESS,
    TASKS,
    VERSION,
    VIDEO,
)
from motionkit.datasets.episodes._read import Episodes
from motionkit.datasets.episodes._records import task_of
from motionkit.datasets.episodes._video import require_video, write_film
from motionkit.errors import MotionkitError
from motionkit.runs import OutputFolder, disk_errors

USUAL_FPS = 10
"""Frames a second of episodes whose rate is not known."""

_RECORD, _KIND = "export.json", "motionkit-lerobot"
_PIECE = 256  # frames that are in memory at once
_SAMPLE = 500  # frames that statistics of pictures are made from
_QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)
_FIRST = {"chunk_index": 0, "file_index": 0}


def require_parquet() -> Any:
    """Return the module ``pyarrow.parquet``.

    Raises:
        MotionkitError: It is not installed.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MotionkitError("LeRobot datasets hold parquet files, which need pyarrow.", fix=INSTALL) from error
    return parquet


def export_lerobot(episodes: Episodes, out: Path, *, fps: int = 0, overwrite: bool = False) -> dict[str, Any]:
    """Write episodes in the layout of LeRobot 3: rows as parquet, pictures as MP4.

    A row is a frame with what was done in it; the last action of an episode, which is not known, is 0. ``success`` is
    of the frame, ``next.success`` of the one after the action. Pictures lose what H.264 leaves out.

    Args:
        episodes: The episodes.
        out: The folder; it appears whole.
        fps: Frames a second; 0: that of the episodes, else `USUAL_FPS`.
        overwrite: Replace what an earlier export wrote there; other files stay.

    Returns:
        ``episodes``, ``frames``, ``fps`` and ``features``.

    Raises:
        MotionkitError: pyarrow or ffmpeg is missing, `out` holds something else (exit code 2), or the disk is full
            (exit code 1).
    """
    parquet = require_parquet()
    require_video()
    fps = fps or round(episodes.manifest.fps) or USUAL_FPS
    place = OutputFolder(out, _RECORD, _KIND, overwrite=overwrite)
    place.claim()
    columns = _columns(episodes, fps)
    task = task_of(episodes.environment) or "task"
    features = _features(episodes, columns, fps)
    info = {
        "codebase_version": VERSION, "robot_type": str(episodes.environment.get("name", "unknown")),
        "total_episodes": len(episodes.records), "total_frames": len(episodes), "total_tasks": 1, "chunks_size": 1000,
        "data_files_size_in_mb": 100, "video_files_size_in_mb": 200, "fps": fps,
        "splits": {"train": f"0:{len(episodes.records)}"}, "data_path": DATA, "video_path": VIDEO,
        "features": features,
    }  # fmt: skip
    with place.beside() as part:
        with disk_errors("write a LeRobot dataset", out):
            for name in (INFO, EPISODES.format(**_FIRST), DATA.format(**_FIRST)):
                (part / name).parent.mkdir(parents=True, exist_ok=True)
            for camera, size in episodes.cameras.items():
                path = part / VIDEO.format(video_key=PICTURES + camera, **_FIRST)
                path.parent.mkdir(parents=True)
                write_film(path, _pieces(episodes, camera), size, fps)
            parquet.write_table(_table(columns), part / DATA.format(**_FIRST))
            parquet.write_table(_episode_table(episodes, task, fps), part / EPISODES.format(**_FIRST))
            parquet.write_table(_task_table(task), part / TASKS)
            _write_json(part / INFO, info)
            _write_json(part / STATS, _statistics(episodes, columns))
            own = episodes.manifest.model_dump(mode="json", by_alias=True)
            _write_json(part / OWN, own)
        found = {
            "episodes": len(episodes.records), "frames": len(episodes), "fps": fps, "features": sorted(features)
        }  # fmt: skip
        place.settle(part, {"schema": 1, **found})
    return found


def _columns(episodes: Episodes, fps: int) -> dict[str, NDArray[Any]]:
    """Return the columns of the data file, ``[F]`` or ``[F, W]``."""
    count = len(episodes)
    found: dict[str, NDArray[Any]] = {}
    for ours, theirs in (("action", ACTION), ("state", STATE)):
        if ours in episodes.columns:
            found[theirs] = episodes.column(ours)  # type: ignore[arg-type]
    last = np.ones(count, np.bool_)
    last[:-1] = episodes.episode[1:] != episodes.episode[:-1]
    if episodes.manifest.labelled:
        success = episodes.labels > 0.5
        after = np.where(last, success, np.roll(success, -1))
        found |= {SUCCESS: success, NEXT_SUCCESS: after}
    numbers = {"frame_index": episodes.step, "episode_index": episodes.episode, "index": np.arange(count)}
    return {
        **found, NEXT_DONE: last, "timestamp": (episodes.step / fps).astype(np.float32),
        **{name: value.astype(np.int64) for name, value in numbers.items()}, "task_index": np.zeros(count, np.int64),
    }  # fmt: skip


def _features(episodes: Episodes, columns: Mapping[str, NDArray[Any]], fps: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for camera, (height, width) in episodes.cameras.items():
        layout = "yuv420p" if height % 2 == width % 2 == 0 else "yuv444p"
        info = {
            "video.height": height, "video.width": width, "video.codec": "h264", "video.pix_fmt": layout,
            "video.is_depth_map": False, "video.fps": fps, "video.channels": 3, "has_audio": False,
        }  # fmt: skip
        names = ["height", "width", "channels"]
        found[PICTURES + camera] = {"dtype": "video", "shape": [height, width, 3], "names": names, "info": info}
    for name, values in columns.items():
        shape = list(values.shape[1:]) or [1]
        words = [f"{name.rpartition('.')[2]}_{number}" for number in range(shape[0])] if values.ndim > 1 else None
        found[name] = {"dtype": str(values.dtype), "shape": shape, "names": words}
    return found


def _table(columns: Mapping[str, NDArray[Any]]) -> Any:
    import pyarrow as pa

    found = {}
    for name, values in columns.items():
        flat = pa.array(values.ravel())
        # A feature of one number is a plain column there.
        wide = values.ndim > 1 and values.shape[1] > 1
        found[name] = pa.FixedSizeListArray.from_arrays(flat, values.shape[1]) if wide else flat
    return pa.table(found)


def _episode_table(episodes: Episodes, task: str, fps: int) -> Any:
    import pyarrow as pa

    lengths = np.array([record.frames for record in episodes.records], np.int64)
    ends = lengths.cumsum()
    zeros = np.zeros(len(lengths), np.int64)
    found: dict[str, Any] = {
        "episode_index": np.arange(len(lengths)), "tasks": pa.array([[task]] * len(lengths), pa.list_(pa.string())),
        "length": lengths, "dataset_from_index": ends - lengths, "dataset_to_index": ends, "data/chunk_index": zeros,
        "data/file_index": zeros, "meta/episodes/chunk_index": zeros, "meta/episodes/file_index": zeros,
    }  # fmt: skip
    for camera in episodes.cameras:
        own = f"videos/{PICTURES}{camera}"
        found |= {
            f"{own}/chunk_index": zeros, f"{own}/file_index": zeros, f"{own}/from_timestamp": (ends - lengths) / fps,
            f"{own}/to_timestamp": ends / fps,
        }  # fmt: skip
    return pa.table(
        {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in found.items()}
    )


def _task_table(task: str) -> Any:
    """Return the table of tasks; lerobot reads it with pandas, which finds its index by the note in the schema."""
    import pyarrow as pa

    kinds = {"task_index": ("int64", "int64"), "task": ("unicode", "object")}
    columns = [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": own, "metadata": None}
        for name, (kind, own) in kinds.items()
    ]
    note = {"index_columns": ["task"], "column_indexes": [], "columns": columns, "creator": {"library": "motionkit"}}
    table = pa.table({"task_index": pa.array([0], pa.int64()), "task": pa.array([task], pa.string())})
    return table.replace_schema_metadata({"pandas": json.dumps(note)})


def _pieces(episodes: Episodes, camera: str) -> Iterator[NDArray[np.uint8]]:
    for start in range(0, len(episodes), _PIECE):
        yield episodes.read(np.arange(start, min(start + _PIECE, len(episodes))))[camera]


def _statistics(episodes: Episodes, columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return what lerobot scales by: of each number, and of each colour of some frames in 0 to 1."""
    found = {name: _described(values.reshape(len(values), -1).astype(np.float64)) for name, values in columns.items()}
    some = np.unique(np.linspace(0, len(episodes) - 1, min(_SAMPLE, len(episodes))).astype(np.int64))
    for camera, frames in episodes.read(some).items():
        described = _described(frames.reshape(-1, 3).astype(np.float32) / 255)
        shaped = {name: [[[value]] for value in values] for name, values in described.items()}
        found[PICTURES + camera] = {**shaped, "count": [len(some)]}
    return found


def _described(values: NDArray[Any]) -> dict[str, Any]:
    """Return least, largest, mean, spread and quantiles of each column of ``[M, W]``."""
    quantiles = np.quantile(values, _QUANTILES, axis=0)
    named = {f"q{round(share * 100):02d}": row.tolist() for share, row in zip(_QUANTILES, quantiles, strict=True)}
    return {
        "min": values.min(0).tolist(), "max": values.max(0).tolist(), "mean": values.mean(0).tolist(),
        "std": values.std(0).tolist(), "count": [len(values)], **named,
    }  # fmt: skip


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=4) + "\n", encoding="utf-8")
