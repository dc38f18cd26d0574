"""A folder in HumanML3D's layout, written beside its place and moved there when it is whole."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion._skeleton import HUMANML
from motionkit.motion.corpus._captions import Caption, caption_lines
from motionkit.motion.features._files import read_features
from motionkit.motion.features._recover import features_to_joints
from motionkit.motion.features._stats import feature_stats

SPLITS = ("train", "val", "test")


class HumanMLFolder:
    """Writes ``new_joint_vecs``, ``new_joints``, ``texts``, split lists, ``Mean.npy`` and ``Std.npy``.

    Use as a context manager: leaving it normally moves the folder into place, leaving it by an exception removes
    what was written and leaves an older folder untouched.

    Args:
        out: The folder to make.
        overwrite: Replace a folder that has something in it.

    Raises:
        MotionkitError: `out` is a file, or is not empty and `overwrite` is False.
    """

    def __init__(self, out: Path, *, overwrite: bool = False) -> None:
        if out.is_file():
            raise MotionkitError(f"{out} is a file, not a folder.")
        if out.is_dir() and any(out.iterdir()) and not overwrite:
            raise MotionkitError(f"{out} exists and is not empty.", fix="choose another OUT, or add --overwrite.")
        self._out = out.resolve()
        self._work = self._out.parent / f".{self._out.name}.{os.getpid()}.part"

    def __enter__(self) -> HumanMLFolder:
        shutil.rmtree(self._work, ignore_errors=True)
        for part in ("new_joint_vecs", "new_joints", "texts"):
            (self._work / part).mkdir(parents=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            shutil.rmtree(self._work, ignore_errors=True)
            return
        old = self._out.with_name(f".{self._out.name}.{os.getpid()}.old")
        if self._out.exists():
            self._out.replace(old)
        self._work.replace(self._out)
        shutil.rmtree(old, ignore_errors=True)

    def add(self, key: str, features: Tensor, captions: Sequence[Caption]) -> Tensor:
        """Write one clip; a clip without captions gets no texts file.

        Args:
            key: Clip id.
            features: ``[T, 263]``.
            captions: Its captions.

        Returns:
            Joints ``[T, 22, 3]`` as written, float32.
        """
        vectors = features.float().contiguous()
        joints = features_to_joints(vectors, HUMANML)
        np.save(self._work / "new_joint_vecs" / f"{key}.npy", vectors.numpy())
        np.save(self._work / "new_joints" / f"{key}.npy", joints.numpy())
        if captions:
            (self._work / "texts" / f"{key}.txt").write_text(caption_lines(captions), encoding="utf-8")
        return joints

    def finish(self, splits: Mapping[str, str], record: Mapping[str, object]) -> None:
        """Write split lists, Mean and Std (over train; over everything when train is empty) and ``convert.json``.

        Args:
            splits: Every clip's split.
            record: What is kept about the conversion.
        """
        names = sorted(splits)
        for split in SPLITS:
            self._list(split, [name for name in names if splits[name] == split])
        self._list("train_val", [name for name in names if splits[name] != "test"])
        self._list("all", names)
        chosen = [name for name in names if splits[name] == "train"] or names
        files = (self._work / "new_joint_vecs" / f"{name}.npy" for name in chosen)
        mean, std = feature_stats((read_features(file, HUMANML) for file in files), HUMANML)
        np.save(self._work / "Mean.npy", mean.numpy())
        np.save(self._work / "Std.npy", std.numpy())
        text = json.dumps(record, indent=1, ensure_ascii=False)
        (self._work / "convert.json").write_text(text + "\n", encoding="utf-8")

    def _list(self, name: str, keys: Sequence[str]) -> None:
        (self._work / f"{name}.txt").write_text("".join(f"{key}\n" for key in keys), encoding="utf-8")
