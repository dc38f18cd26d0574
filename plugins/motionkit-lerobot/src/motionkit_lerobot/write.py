"""Episodes written as a LeRobot dataset, version 3."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.runs import OutputFolder, disk_errors
from motionkit_lerobot.film import require_video, write_film
from motionkit_lerobot.layout import (
    ACTION,
    DATA,
    EPISODES,
    INFO,
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
    require_parquet,
)
from motionkit_success.episodes.read import Episodes, task_of

USUAL_FPS = 10
"""Frames a second of episodes whose rate is not known."""

_RECORD, _KIND = "export.json", "motionkit-lerobot"
_PIECE = 256  # frames that are in memory at once
_SAMPLE = 500  # frames that statistics of pictures are made from
_QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)
_FIRST = {"chunk_index": 0, "file_index": 0}


def export_lerobot(episodes: Episodes, out: Path, *, fps: float = 0, overwrite: bool = False) -> dict[str, Any]:
    """Write episodes in the layout of LeRobot 3: rows as parquet, pictures as MP4.

    A row is a frame with the action taken in it; the last action of an episode, which is not known, is 0. ``success``
    is of the frame, ``next.success`` of the one after the action. H.264 is lossy. The folder is renamed into place.
    `fps` 0 is that of the episodes, else `USUAL_FPS`. Returns ``episodes``, ``frames``, ``fps`` and ``features``.
    """
    parquet = require_parquet()
    require_video()
    fps = fps or episodes.manifest.fps or USUAL_FPS
    fps = int(fps) if float(fps).is_integer() else fps  # as lerobot writes whole rates
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
                pieces = np.split(np.arange(len(episodes)), range(_PIECE, len(episodes), _PIECE))
                write_film(path, (episodes.read(piece)[camera] for piece in pieces), size, fps)
            parquet.write_table(_table(columns), part / DATA.format(**_FIRST))
            parquet.write_table(_episode_table(episodes, task, fps), part / EPISODES.format(**_FIRST))
            parquet.write_table(_task_table(task), part / TASKS)
            _write_json(part / INFO, info)
            _write_json(part / STATS, _statistics(episodes, columns))
            manifest = episodes.manifest.model_dump(mode="json", by_alias=True)
            _write_json(part / OWN, manifest)
        summary = {
            "episodes": len(episodes.records), "frames": len(episodes), "fps": fps, "features": sorted(features)
        }  # fmt: skip
        place.settle(part, {"schema": 1, **summary})
    return summary


def _columns(episodes: Episodes, fps: float) -> dict[str, NDArray[Any]]:
    """Return the columns of the data file, ``[F]`` or ``[F, W]``."""
    count = len(episodes)
    columns: dict[str, NDArray[Any]] = {}
    for ours, theirs in (("action", ACTION), ("state", STATE)):
        if ours in episodes.columns:
            columns[theirs] = episodes.column(ours)  # type: ignore[arg-type]
    last = np.ones(count, np.bool_)
    last[:-1] = episodes.episode[1:] != episodes.episode[:-1]
    if episodes.manifest.labelled:
        success = episodes.labels > 0.5
        after = np.where(last, success, np.roll(success, -1))
        columns |= {SUCCESS: success, NEXT_SUCCESS: after}
    numbers = {"frame_index": episodes.step, "episode_index": episodes.episode, "index": np.arange(count)}
    return {
        **columns, NEXT_DONE: last, "timestamp": (episodes.step / fps).astype(np.float32),
        **{name: value.astype(np.int64) for name, value in numbers.items()}, "task_index": np.zeros(count, np.int64),
    }  # fmt: skip


def _features(episodes: Episodes, columns: Mapping[str, NDArray[Any]], fps: float) -> dict[str, Any]:
    parts = episodes.manifest.state_parts.items()
    state = [f"{part}_{number}" for part, count in parts for number in range(count)]
    features: dict[str, Any] = {}
    for camera, (height, width) in episodes.cameras.items():
        layout = "yuv420p" if height % 2 == width % 2 == 0 else "yuv444p"
        info = {
            "video.height": height, "video.width": width, "video.codec": "h264", "video.pix_fmt": layout,
            "video.is_depth_map": False, "video.fps": fps, "video.channels": 3, "has_audio": False,
        }  # fmt: skip
        names = ["height", "width", "channels"]
        features[PICTURES + camera] = {"dtype": "video", "shape": [height, width, 3], "names": names, "info": info}
    for name, values in columns.items():
        shape = list(values.shape[1:]) or [1]
        words = [f"{name.rpartition('.')[2]}_{number}" for number in range(shape[0])] if values.ndim > 1 else None
        named = state if name == STATE and len(state) == shape[0] else words
        features[name] = {"dtype": str(values.dtype), "shape": shape, "names": named}
    return features


def _table(columns: Mapping[str, NDArray[Any]]) -> Any:
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        flat = pa.array(values.ravel())
        # A feature of one number is a plain column there.
        wide = values.ndim > 1 and values.shape[1] > 1
        arrays[name] = pa.FixedSizeListArray.from_arrays(flat, values.shape[1]) if wide else flat
    return pa.table(arrays)


def _episode_table(episodes: Episodes, task: str, fps: float) -> Any:
    import pyarrow as pa

    lengths = np.array([record.frames for record in episodes.records], np.int64)
    ends = lengths.cumsum()
    zeros = np.zeros(len(lengths), np.int64)
    columns: dict[str, Any] = {
        "episode_index": np.arange(len(lengths)), "tasks": pa.array([[task]] * len(lengths), pa.list_(pa.string())),
        "length": lengths, "dataset_from_index": ends - lengths, "dataset_to_index": ends, "data/chunk_index": zeros,
        "data/file_index": zeros, "meta/episodes/chunk_index": zeros, "meta/episodes/file_index": zeros,
    }  # fmt: skip
    for camera in episodes.cameras:
        prefix = f"videos/{PICTURES}{camera}"
        columns |= {
            f"{prefix}/chunk_index": zeros, f"{prefix}/file_index": zeros,
            f"{prefix}/from_timestamp": (ends - lengths) / fps, f"{prefix}/to_timestamp": ends / fps,
        }  # fmt: skip
    return pa.table(
        {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    )


def _task_table(task: str) -> Any:
    """Return the table of tasks; lerobot reads it with pandas, which takes its index from the schema's metadata."""
    import pyarrow as pa

    kinds = {"task_index": ("int64", "int64"), "task": ("unicode", "object")}
    columns = [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy_type, "metadata": None}
        for name, (kind, numpy_type) in kinds.items()
    ]
    note = {"index_columns": ["task"], "column_indexes": [], "columns": columns, "creator": {"library": "motionkit"}}
    table = pa.table({"task_index": pa.array([0], pa.int64()), "task": pa.array([task], pa.string())})
    return table.replace_schema_metadata({"pandas": json.dumps(note)})


def _statistics(episodes: Episodes, columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return statistics for lerobot's normalisation: of each number, and of the colours of some frames in 0 to 1."""
    statistics = {
        name: _described(values.reshape(len(values), -1).astype(np.float64)) for name, values in columns.items()
    }
    sample = np.unique(np.linspace(0, len(episodes) - 1, min(_SAMPLE, len(episodes))).astype(np.int64))
    for camera, frames in episodes.read(sample).items():
        described = _described(frames.reshape(-1, 3).astype(np.float32) / 255)
        shaped = {name: [[[value]] for value in values] for name, values in described.items()}
        statistics[PICTURES + camera] = {**shaped, "count": [len(sample)]}
    return statistics


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
