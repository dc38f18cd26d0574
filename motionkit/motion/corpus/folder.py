"""The files of a folder in HumanML3D's layout, for any of its bodies."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion.corpus.captions import Caption, caption_lines
from motionkit.motion.corpus.ids import SPLITS, plain_id
from motionkit.motion.features.layout import feature_stats, read_features
from motionkit.motion.features.recover import features_to_joints
from motionkit.motion.skeleton import Skeleton
from motionkit.runs import write_bytes_atomic


def write_clip(
    folder: Path, key: str, features: Tensor, captions: Sequence[Caption], skeleton: Skeleton
) -> tuple[tuple[str, ...], Tensor]:
    """Write ``new_joint_vecs``, ``new_joints`` and, where there are captions, ``texts`` of one clip.

    Args:
        folder: The dataset's folder; sub-folders are made.
        key: Clip id.
        features: ``[T, D]`` of the body.
        captions: Its captions.
        skeleton: The body.

    Returns:
        Paths written, relative to `folder`, and the joints ``[T, J, 3]`` as written: float32, in the format's own
        unit for `new_joints` (metres for 22 joints), in metres here.
    """
    if plain_id(key) != key:
        raise MotionkitError(f"{key!r} is no name for files.")
    vectors = features.float().contiguous()
    joints = features_to_joints(vectors, skeleton)
    files = {
        f"new_joint_vecs/{key}.npy": _npy(vectors.numpy()),
        f"new_joints/{key}.npy": _npy((joints / skeleton.unit).numpy()),
    }
    if captions:
        files[f"texts/{key}.txt"] = caption_lines(captions).encode()
    if (folder / "new_joint_vecs" / f"{key}.npy").exists():
        raise MotionkitError("another clip has this id already.")
    try:
        for name, data in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            write_bytes_atomic(folder / name, data)
    except BaseException:
        for name in files:
            (folder / name).unlink(missing_ok=True)
        raise
    return tuple(files), joints


def finish_folder(folder: Path, splits: Mapping[str, str], skeleton: Skeleton) -> None:
    """Write split lists and ``Mean.npy``, ``Std.npy`` over train (over everything when train is empty)."""
    (folder / "texts").mkdir(exist_ok=True)
    names = sorted(splits)
    lists = {split: [name for name in names if splits[name] == split] for split in SPLITS}
    lists["train_val"] = [name for name in names if splits[name] != "test"]
    lists["all"] = names
    for name, keys in lists.items():
        write_bytes_atomic(folder / f"{name}.txt", "".join(f"{key}\n" for key in keys).encode())
    chosen = lists["train"] or names
    files = (folder / "new_joint_vecs" / f"{name}.npy" for name in chosen)
    mean, std = feature_stats((read_features(file, skeleton) for file in files), skeleton)
    write_bytes_atomic(folder / "Mean.npy", _npy(mean.numpy()))
    write_bytes_atomic(folder / "Std.npy", _npy(std.numpy()))


def _npy(array: NDArray[np.float32]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()
