"""LeRobot datasets, version 3: their layout, their videos, and episodes written as one.

The layout follows huggingface/lerobot 0.6.1, ``datasets/utils.py`` and ``datasets/dataset_metadata.py``.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from motionkit.documents import as_model, read_json
from motionkit.errors import MotionkitError
from motionkit.runs import OutputFolder, disk_errors
from motionkit_success.episodes.read import Episodes, Size, frame_bytes, task_of

VERSION = "v3.0"
INFO, STATS, TASKS, OWN = "meta/info.json", "meta/stats.json", "meta/tasks.parquet", "meta/motionkit.json"
EPISODES = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"

ACTION, STATE, PICTURES = "action", "observation.state", "observation.images."
SUCCESS, NEXT_SUCCESS, NEXT_DONE, NEXT_REWARD = "success", "next.success", "next.done", "next.reward"
"""``success``, which is ours, is of the moment that a row shows; ``next.success`` of the one after its action."""

INSTALL = 'pip install "motionkit[lerobot]"'

USUAL_FPS = 10
"""Frames a second of episodes whose rate is not known."""

_FEATURES = 1000

_LAST_LINES = 4
_QUALITY = "8"  # H.264 quantiser, 0 to 51: no difference can be seen, and the file has a tenth of the bytes
_HEADER = 1 << 16  # bytes of what ffmpeg says that are looked at
_STREAM = re.compile(r"Stream #0:\d+.*Video:")
_SIDES, _RATE = re.compile(r"[ ,](\d{1,5})x(\d{1,5})[ ,]"), re.compile(r"([\d.]+)(k?) fps")
_RATES, _ROUNDING = 0.01, 0.006  # share, and frames a second, by which two rates that are the same may differ: ffmpeg
# says them with two digits, and thousands with a k

_RECORD, _KIND = "export.json", "motionkit-lerobot"
_PIECE = 256  # frames that are in memory at once
_SAMPLE = 500  # frames that statistics of pictures are made from
_QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)
_FIRST = {"chunk_index": 0, "file_index": 0}


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


def require_video() -> Any:
    """Return the module imageio_ffmpeg."""
    try:
        import imageio_ffmpeg

        imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise MotionkitError("LeRobot datasets hold MP4 files, which need ffmpeg.", fix=INSTALL) from error
    return imageio_ffmpeg


def write_film(path: Path, pictures: Iterable[NDArray[np.uint8]], size: Size, fps: float) -> None:
    """Write batches of pictures ``[M, H, W, 3]`` uint8 RGB as H.264."""
    height, width = size
    # Every second picture is a key frame, as lerobot writes them: reading one decodes two at most.
    layout = "yuv420p" if height % 2 == width % 2 == 0 else "yuv444p"  # halved colours need even sides
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:.10g}", "-i", "-"]
    codec = ["-c:v", "libx264", "-preset", "fast", "-crf", _QUALITY, "-g", "2", "-bf", "0", "-pix_fmt", layout]
    program = require_video().get_ffmpeg_exe()
    target = ["-an", *codec, "-f", "mp4", str(path.absolute())]
    command = [program, "-hide_banner", "-loglevel", "error", "-y", *source, *target]
    with tempfile.TemporaryFile() as talk, subprocess.Popen(command, stdin=subprocess.PIPE, stderr=talk) as process:
        assert process.stdin is not None
        try:
            for piece in pictures:
                process.stdin.write(np.ascontiguousarray(piece).data)
            process.stdin.close()
        except BrokenPipeError:
            pass  # ffmpeg has given up; its exit code and last words say why
        except BaseException:
            process.kill()
            raise
        if code := process.wait():
            talk.seek(0)
            lines = talk.read().decode("utf-8", "replace").strip().splitlines()[-_LAST_LINES:]
            raise MotionkitError(f"ffmpeg stopped with exit code {code} at {path}.", why=" ".join(lines), code=1)


class FilmReader:
    """Reads the pictures of an MP4 file, which must have this size and rate, from the first to the last."""

    def __init__(self, path: Path, size: Size, fps: float) -> None:
        self._path, self._size, self._place = path, size, 0
        program = require_video().get_ffmpeg_exe()
        # The format is given, not guessed: a playlist under this name would make ffmpeg open other files.
        self._source = [program, "-hide_banner", "-nostdin", "-protocol_whitelist", "file", "-f", "mp4"]
        self._source += ["-i", str(path.absolute())]
        self._check(fps)
        self._talk = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        command = [*self._source, "-loglevel", "error", "-map", "0:v:0", "-fps_mode", "passthrough", "-f", "rawvideo"]
        self._process = subprocess.Popen(
            [*command, "-pix_fmt", "rgb24", "-"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._talk
        )

    def _check(self, fps: float) -> None:
        done = subprocess.run(self._source, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        output = done.stderr[:_HEADER].decode("utf-8", "replace")
        line = next((line for line in output.splitlines() if _STREAM.search(line)), "")
        shown, rate = _SIDES.search(line), _RATE.search(line)
        if shown is None or rate is None:
            raise self._damaged(output)
        height, width, file_fps = int(shown[2]), int(shown[1]), float(rate[1]) * (1000 if rate[2] else 1)
        if (height, width) != tuple(self._size):
            raise MotionkitError(
                f"{self._path} shows {height} x {width} pixels.",
                why=f"info.json says {self._size[0]} x {self._size[1]}.",
                fix="download or record the dataset again.",
            )
        if abs(file_fps - fps) > max(_RATES * fps, _ROUNDING):
            raise MotionkitError(
                f"{self._path} has {file_fps:g} frames a second.",
                why=f"info.json says {fps:g}, and rows are matched to frames by their time.",
                fix="put the rate of the videos into info.json, or record the dataset again at one rate.",
            )

    def read(self, first: int, count: int) -> NDArray[np.uint8]:
        """Return pictures ``[M, H, W, 3]`` from number `first` on, not before the last one read.

        Fewer than `count` at the end of the file.
        """
        assert self._process.stdout is not None
        pictures, length = [], frame_bytes(self._size)
        while self._place < first + count:
            data = self._process.stdout.read(length)
            if len(data) < length:
                if code := self._process.wait():
                    self._talk.seek(0)
                    raise self._damaged(self._talk.read(_HEADER).decode("utf-8", "replace") or f"exit code {code}")
                break
            if self._place >= first:
                pictures.append(np.frombuffer(data, np.uint8).reshape(*self._size, 3))
            self._place += 1
        return np.stack(pictures) if pictures else np.zeros((0, *self._size, 3), np.uint8)

    @property
    def place(self) -> int:
        """Number of the next picture."""
        return self._place

    def close(self) -> None:
        """End ffmpeg."""
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.kill()
        self._process.wait()
        self._talk.close()

    def _damaged(self, output: str) -> MotionkitError:
        lines = [line for line in output.strip().splitlines() if line.strip()]
        why = lines[-1].strip()[:200] if lines else "ffmpeg finds no video in it"
        return MotionkitError(f"{self._path} cannot be decoded.", why=f"{why}.", fix="download the file again.")


def require_parquet() -> Any:
    """Return the module ``pyarrow.parquet``."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MotionkitError("LeRobot datasets hold parquet files, which need pyarrow.", fix=INSTALL) from error
    return parquet


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
