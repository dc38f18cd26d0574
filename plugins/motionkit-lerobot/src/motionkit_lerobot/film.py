"""The videos of LeRobot datasets: MP4 files, which ffmpeg writes and decodes."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.errors import MotionkitError
from motionkit.plugins import install_line
from motionkit_lerobot.layout import EXTRA
from motionkit_success.episodes.read import Size, frame_bytes

_LAST_LINES = 4
_QUALITY = "8"  # H.264 quantiser, 0 to 51: no difference can be seen, and the file has a tenth of the bytes
_HEADER = 1 << 16  # bytes of what ffmpeg says that are looked at
_STREAM = re.compile(r"Stream #0:\d+.*Video:")
_SIDES, _RATE = re.compile(r"[ ,](\d{1,5})x(\d{1,5})[ ,]"), re.compile(r"([\d.]+)(k?) fps")
_RATES, _ROUNDING = 0.01, 0.006  # share, and frames a second, by which two rates that are the same may differ: ffmpeg
# says them with two digits, and thousands with a k


def require_video() -> Any:
    """Return the module imageio_ffmpeg."""
    try:
        import imageio_ffmpeg

        imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise MotionkitError("LeRobot datasets hold MP4 files, which need ffmpeg.", fix=install_line(EXTRA)) from error
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
