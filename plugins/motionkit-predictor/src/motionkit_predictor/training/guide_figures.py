"""The guide's figures of epochs, which a run writes below ``metrics`` and `tune` reads."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.runs import write_bytes_atomic

FOLDER = "metrics"
MODES = ("teacher", "valfree")
"""With teacher forcing, and in free runs on the validation clips."""

_NAME = re.compile(r"(teacher|valfree)_ep(\d+)\.json")


def write_epoch(
    folder: Path,
    epoch: int,
    *,
    teacher: Mapping[str, float],
    free: Mapping[str, float],
    shares: Mapping[str, float] | None = None,
    adaptive: Mapping[str, float] | None = None,
) -> None:
    """Write the figures of an epoch: two JSON files, and a line in the curve of each figure.

    Each file is written aside and renamed. An epoch that is written again replaces the old one.

    Args:
        folder: The run's folder ``metrics``; made if it is missing.
        epoch: The epoch, from 1.
        teacher: Figures with teacher forcing, by the guide's names, see `evaluate_teacher`.
        free: Figures of free runs, see `motionkit_predictor.evaluation.guide.free_figures`.
        shares: Share of each group (core, aux, long) in the loss, 0 to 1.
        adaptive: Figures of adaptive weights, by name.

    Example:
        >>> write_epoch(Path("metrics"), 1, teacher={"GeoDeg": 0.5}, free={"GeoDeg": 2.0}, shares={"core": 1.0})
        >>> Path("metrics/valfree/GeoDeg.txt").read_text().split()
        ['1', '2.0']
    """
    common = {f"loss_group/{name}": value for name, value in (shares or {}).items()}
    common |= {f"adaptive_loss/{name}": value for name, value in (adaptive or {}).items()}
    for mode, figures in zip(MODES, (teacher, free), strict=True):
        known = {name: float(value) for name, value in {**figures, **common}.items() if math.isfinite(value)}
        document = json.dumps({"epoch": epoch, **known}, indent=2) + "\n"
        (folder / mode).mkdir(parents=True, exist_ok=True)
        write_bytes_atomic(folder / f"{mode}_ep{epoch:03d}.json", document.encode())
        for name, value in known.items():
            path = curve_file(folder, mode, name)
            rows = [row for row in _rows(path) if row[0] < epoch]
            _write_rows(path, [*rows, (epoch, value)])


def cut_back(folder: Path, epoch: int) -> None:
    """Remove figures of epochs after `epoch`: a resumed run goes on after its checkpoint's epoch."""
    for path in sorted(folder.glob("*_ep*.json")):
        if (match := _NAME.fullmatch(path.name)) and int(match[2]) > epoch:
            path.unlink()
    for mode in MODES:
        for path in sorted((folder / mode).glob("*.txt")):
            rows = _rows(path)
            kept = [row for row in rows if row[0] <= epoch]
            if not kept:
                path.unlink()
            elif kept != rows:
                _write_rows(path, kept)


def read_epochs(folder: Path) -> dict[str, dict[int, dict[str, float]]]:
    """Read the JSON files of a metrics folder, ours or the guide's: by mode and epoch, the figures that are numbers."""
    by_mode: dict[str, dict[int, dict[str, float]]] = {mode: {} for mode in MODES}
    for path in sorted(folder.glob("*_ep*.json")):
        if name := _NAME.fullmatch(path.name):
            by_mode[name[1]][int(name[2])] = _numbers(read_json(path, dict))
    if not any(by_mode.values()):
        raise MotionkitError(
            f"{folder} has no teacher_epXXX.json and no valfree_epXXX.json.",
            fix="name a run of train-mpl, or its folder metrics.",
        )
    return {mode: dict(sorted(epochs.items())) for mode, epochs in by_mode.items()}


def curve_file(folder: Path, mode: str, name: str) -> Path:
    """Return the file of a figure's curve; a ``/`` in its name is a ``.`` there: ``KeyBone.left_knee.GeoDeg.txt``."""
    return folder / mode / f"{name.replace('/', '.')}.txt"


def _numbers(table: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a file; the guide's own nest their figures in tables such as ``metrics``."""
    numbers: dict[str, float] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            numbers |= {name: number for name, number in _numbers(value).items() if name not in numbers}
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            numbers[str(key)] = float(value)
    return numbers


def _rows(path: Path) -> list[tuple[int, float]]:
    """Read a curve; lines that cannot be read are left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        epoch, _, value = line.partition(" ")
        try:
            rows.append((int(epoch), float(value)))
        except ValueError:
            continue
    return rows


def _write_rows(path: Path, rows: list[tuple[int, float]]) -> None:
    write_bytes_atomic(path, "".join(f"{epoch} {value!r}\n" for epoch, value in rows).encode())
