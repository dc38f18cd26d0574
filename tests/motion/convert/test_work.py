"""One bad clip is that clip's problem, whatever is wrong with it."""

from __future__ import annotations

import errno
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, Caption, Clip, JointMotion, joints_to_features
from motionkit.motion.convert import FeatureTarget, FileSource, FileTarget, convert_file
from motionkit.motion.convert._work import Job, work
from motionkit.motion.formats.native import write_native

from ..bodies import walker
from ..bvh_files import write_bvh
from ..mpl_files import exported, save, starter_motion


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


ERRORS = [
    KeyError("frames"), OverflowError("too large"), MemoryError(), RecursionError("deep"),
    torch.linalg.LinAlgError("svd"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), LookupError("unknown encoding"), NotImplementedError("type 99"),
    PermissionError(errno.EACCES, "Permission denied"), OSError(errno.ENAMETOOLONG, "File name too long"),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_any_error_of_a_reader_or_a_writer_is_the_problem_of_its_clip(tmp_path: Path, error: Exception) -> None:
    read = work(Job(Failing(error), FileTarget("npz"), tmp_path))
    written = work(Job(Sound(), Failing(error), tmp_path))  # type: ignore[arg-type]
    for outcome in (read, written):
        (reason,) = outcome.problems.values()
        assert outcome.pieces == ()
        assert "\n" not in reason
        plain = "more memory than there is" if isinstance(error, MemoryError) else type(error).__name__
        assert (error.strerror if isinstance(error, OSError) else plain) in reason
    with pytest.raises(MotionkitError):
        convert_file([Failing(error)], tmp_path / "a.npz", "npz")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG])
def test_a_disk_that_takes_no_file_stops_everything(tmp_path: Path, number: int) -> None:
    with pytest.raises(OSError, match="disk"):
        work(Job(Sound(), Failing(OSError(number, "disk")), tmp_path))  # type: ignore[arg-type]
    assert work(Job(Failing(OSError(number, "disk")), None)).problems, "a source on a broken disk is one source"


def test_ctrl_c_is_no_problem_of_a_clip(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        work(Job(Failing(KeyboardInterrupt()), FileTarget("npz"), tmp_path))


def samples(folder: Path) -> list[tuple[str, Path]]:
    """A sound file of each kind."""
    write_bvh(folder / "a.bvh", 60, fps=20.0)
    write_native(folder / "native.npz", clip())
    np.save(folder / "joints.npy", walker(60).float().numpy())
    np.save(folder / "features.npy", joints_to_features(walker(61), HUMANML).float().numpy())
    results = {"motion": walker(60).permute(1, 2, 0)[None].numpy(), "text": ["x"], "lengths": np.array([60])}
    np.save(folder / "results.npy", np.array(results, dtype=object))
    save(folder / "a.json", exported(starter_motion("walk/normal", 60, 20.0), np.zeros(60)))
    kinds = ("bvh", "motionkit", "joints", "features", "mdm-results", "unreal-json")
    return list(zip(kinds, sorted(folder.iterdir(), key=lambda path: kinds.index(KIND[path.name])), strict=True))


KIND = {
    "a.bvh": "bvh", "native.npz": "motionkit", "joints.npy": "joints", "features.npy": "features",
    "results.npy": "mdm-results", "a.json": "unreal-json",
}  # fmt: skip


def damaged(data: bytes, seed: int) -> bytes:
    """Cut, repeat, overwrite or swap a piece, mostly near the beginning, where headers are."""
    chance = random.Random(seed)
    reach = len(data) if chance.random() < 0.3 else min(len(data), 400)
    place, length = chance.randrange(reach), chance.choice((1, 1, 2, 8, 64))
    noise = bytes(chance.randrange(256) for _ in range(length))
    middle = chance.choice((b"", noise, data[place : place + length] * 2, b"9" * length, b"-1e308", b"nan"))
    return data[:place] + middle + (b"" if chance.random() < 0.1 else data[place + length :])


def test_a_damaged_file_never_stops_a_folder(tmp_path: Path) -> None:
    """The seeds are fixed; each file is either converted or has a reason of one line."""
    (tmp_path / "in").mkdir()
    targets = [FileTarget("npz"), FeatureTarget(), FileTarget("bvh")]
    converted = refused = 0
    for kind, path in samples(tmp_path / "in"):
        sound = path.read_bytes()
        for seed in range(40):
            path.write_bytes(damaged(sound, seed))
            folder = tmp_path / f"{kind}-{seed}"
            folder.mkdir()
            outcome = work(Job(FileSource(path, "x", kind), targets[seed % 3], folder))
            assert bool(outcome.pieces) != bool(outcome.problems)
            assert all("\n" not in reason for reason in outcome.problems.values())
            json.dumps(outcome.document())
            converted, refused = converted + bool(outcome.pieces), refused + bool(outcome.problems)
    assert converted > 20
    assert refused > 100
