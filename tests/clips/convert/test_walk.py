"""One bad clip is that clip's problem, whatever is wrong with it."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from motionkit.clips.convert import FileTarget, convert_file
from motionkit.clips.convert.run import write_clip
from motionkit.clips.sources import ClipOutcome, Job, work
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, Caption, Clip, JointMotion

from ...made.bodies import walker


def clip() -> Clip:
    joints = walker(60)
    return Clip(JointMotion(HUMANML.joint_names, HUMANML.parents, joints, 20.0), captions=(Caption("x"),))


@dataclass(frozen=True)
class Failing:
    """A source, or a target, that fails."""

    error: BaseException
    key: str = "x"
    origin: str = "x.bvh"
    for_training: bool = field(default=False)

    def fingerprint(self) -> str:
        return ""

    def load(self) -> Sequence[Clip]:
        raise self.error

    def describe(self) -> dict[str, object]:
        return {}

    def write(self, clip: Clip, key: str, folder: Path) -> None:
        raise self.error


@dataclass(frozen=True)
class Sound:
    key: str = "x"
    origin: str = "x.bvh"

    def fingerprint(self) -> str:
        return ""

    def load(self) -> Sequence[Clip]:
        return [clip()]


def write(source: Any, target: Any, folder: Path) -> ClipOutcome[Any]:
    """Convert a source as a worker process does."""
    return work(Job(source, partial(write_clip, target=target, folder=folder)))


ERRORS = [
    KeyError("frames"), OverflowError("too large"), MemoryError(), RecursionError("deep"),
    torch.linalg.LinAlgError("svd"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), LookupError("unknown encoding"), NotImplementedError("type 99"),
    PermissionError(errno.EACCES, "Permission denied"), OSError(errno.ENAMETOOLONG, "File name too long"),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_any_error_of_a_reader_or_a_writer_is_the_problem_of_its_clip(tmp_path: Path, error: Exception) -> None:
    read, written = write(Failing(error), FileTarget("npz"), tmp_path), write(Sound(), Failing(error), tmp_path)
    for outcome, results in ((read, 0), (written, 1)):
        (reason,) = outcome.failed().values()
        assert len(outcome.results) == results, "what was found in a clip stays known when it cannot be written"
        assert "\n" not in reason
        plain = "more memory than there is" if isinstance(error, MemoryError) else type(error).__name__
        assert (error.strerror if isinstance(error, OSError) else plain) in reason
    with pytest.raises(MotionkitError):
        convert_file([Failing(error)], tmp_path / "a.npz", "npz")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG])
def test_a_disk_that_takes_no_file_stops_everything(tmp_path: Path, number: int) -> None:
    with pytest.raises(OSError, match="disk"):
        write(Sound(), Failing(OSError(number, "disk")), tmp_path)
    assert work(Job(Failing(OSError(number, "disk")), write_clip)).problems, "a source on a broken disk is one source"


def test_ctrl_c_is_no_problem_of_a_clip(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(Failing(KeyboardInterrupt()), FileTarget("npz"), tmp_path)
