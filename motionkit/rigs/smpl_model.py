"""The user's own SMPL, SMPL-H or SMPL-X file: where a person of some shape has the joints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.geometry import bones_from_positions
from motionkit.motion.skeleton import HUMANML
from motionkit.weights import read, read_array

_LIMIT = 4 << 30
_NEEDED = ("J_regressor", "v_template", "shapedirs")
_NO_PARENT = 2**32 - 1
"""What ``kintree_table`` has for the root's parent."""


@dataclass(frozen=True)
class SmplModel:
    """The 22 body joints of a body-model file."""

    template: Tensor  # ``[22, 3]`` float64, joints of the mean shape in metres
    shapes: Tensor  # ``[22, 3, B]`` float64, how far each shape coefficient moves them
    joints: int  # Joints of the whole model: 24, 52 or 55

    def rest(self, betas: Tensor) -> Tensor:
        """Return a person at rest, ``[22, 3]`` from each joint's parent; row 0 is where the pelvis lies.

        Args:
            betas: ``[B']`` shape coefficients; those the file does not have count for nothing.
        """
        used = min(len(betas), self.shapes.shape[-1])
        joints = self.template + self.shapes[..., :used] @ betas[:used].to(self.shapes)
        return bones_from_positions(joints, HUMANML.parents)


def find_smpl_model(path: Path, gender: str) -> Path:
    """Return the model file: `path` itself, or the one for a gender in a folder of them.

    Args:
        path: A file, or a folder laid out as the models are handed out: ``female/model.npz``,
            ``SMPLH_FEMALE.npz``, ``SMPLX_FEMALE.npz``, ...
        gender: ``male``, ``female`` or ``neutral``; anything else counts as neutral.
    """
    if path.exists() and not path.is_dir():
        return path
    if not path.is_dir():
        raise MotionkitError(f"there is no SMPL model {path}.", fix="check --smpl-model.")
    gender = gender if gender in ("male", "female") else "neutral"
    names = [f"{gender}/model", *(f"{kind}_{gender.upper()}" for kind in ("SMPLH", "SMPLX", "SMPL"))]
    for name in names:
        for suffix in (".npz", ".pkl"):
            if (file := path / (name + suffix)).is_file():
                return file
    raise MotionkitError(
        f"{path} has no {gender} SMPL model.", why=f"looked for {', '.join(names)} as .npz and .pkl.",
        fix="name the file itself with --smpl-model.",
    )  # fmt: skip


def read_smpl_model(path: Path) -> SmplModel:
    """Read a body-model file; nothing in it is executed, and only the joints' part of it is kept.

    Args:
        path: ``.npz`` or a ``.pkl`` of plain numpy arrays with ``J_regressor [J, V]``, ``v_template [V, 3]`` and
            ``shapedirs [V, 3, B]``.
    """
    try:
        return _read_once(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise MotionkitError(
            f"{path} cannot be opened.", why=error.strerror or "", fix="check --smpl-model."
        ) from error


@lru_cache(maxsize=4)
def _read_once(path: Path, _changed: int) -> SmplModel:
    data = _open(path)
    missing = [name for name in _NEEDED if name not in data]
    if missing:
        raise MotionkitError(f"{path} is no SMPL model: it has no {' and no '.join(missing)}.")
    regressor, vertices, shapes = (_numbers(data[name], path, name) for name in _NEEDED)
    joints = len(regressor)
    if (
        regressor.ndim != 2 or vertices.shape != (regressor.shape[1], 3)
        or shapes.ndim != 3 or shapes.shape[:2] != vertices.shape or joints < HUMANML.joints
    ):  # fmt: skip
        found = ", ".join(f"{name} {list(data[name].shape)}" for name in _NEEDED)
        raise MotionkitError(f"{path} is no SMPL model of {HUMANML.joints} joints or more.", why=found)
    _check_tree(data.get("kintree_table"), path)
    body = torch.from_numpy(regressor[: HUMANML.joints])
    template = body @ torch.from_numpy(vertices)
    moved = torch.einsum("jv,vcb->jcb", body, torch.from_numpy(shapes))
    if not bool(torch.isfinite(template).all() and torch.isfinite(moved).all()):
        raise MotionkitError(f"{path} holds values that are not finite.")
    return SmplModel(template, moved, joints)


def _open(path: Path) -> Mapping[str, Any]:
    try:
        if path.suffix.lower() == ".pkl":
            data = read(path)
        else:
            data = read_array(path, limit=_LIMIT, wanted=lambda name: name in (*_NEEDED, "kintree_table"))
    except MotionkitError as error:
        raise MotionkitError(
            f"the SMPL model was not opened: {error.message}", why=error.why,
            fix="where it opens, save plain arrays: np.savez('model.npz', v_template=np.array(m['v_template']), "
            "shapedirs=np.array(m['shapedirs']), J_regressor=m['J_regressor'].toarray(), "
            "kintree_table=m['kintree_table']).",
        ) from error  # fmt: skip
    if not isinstance(data, Mapping):
        raise MotionkitError(f"{path} is no SMPL model: it holds a single {type(data).__name__}.")
    return data


def _numbers(value: Any, path: Path, name: str) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu":
        raise MotionkitError(f"{path}: {name} is no plain array of numbers.", fix="save it as one: x.toarray().")
    return weights.cast(value, np.float64)


def _check_tree(table: Any, path: Path) -> None:
    """Refuse a model whose first 22 joints hang together in another way."""
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.shape[1] < HUMANML.joints:
        return
    parents = [-1 if int(parent) in (-1, _NO_PARENT) else int(parent) for parent in table[0, : HUMANML.joints]]
    if tuple(parents) != HUMANML.parents:
        raise MotionkitError(f"{path}: its joints are not in SMPL's order.", why=f"parents {parents}.")
