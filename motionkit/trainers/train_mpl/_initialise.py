"""``--init``: weights of another training, where they fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.policies.mpl._store import ARTIFACT, DOCUMENT
from motionkit.runs import find_model

_LISTED = 3


@dataclass(frozen=True)
class Initialised:
    """What was taken from a file.

    Attributes:
        source: The file.
        taken: Names of the tensors that were taken.
        other_shape: Names that the file has as well, with another shape.
        missing: Names that the file lacks.
        unused: Number of tensors in the file that the network lacks.
    """

    source: str
    taken: tuple[str, ...]
    other_shape: tuple[str, ...]
    missing: tuple[str, ...]
    unused: int

    def sentence(self) -> str:
        """Return it in words."""
        total = len(self.taken) + len(self.other_shape) + len(self.missing)
        parts = [f"{len(self.taken)} of {total} tensors of the network are from {self.source}"]
        if self.other_shape:
            parts.append(f"{len(self.other_shape)} have another shape there: {_listed(self.other_shape)}")
        if self.missing:
            parts.append(f"{len(self.missing)} are not there: {_listed(self.missing)}")
        if self.unused:
            parts.append(f"{self.unused} of its tensors have no place here")
        return "; ".join(parts) + "."


def initialise(network: nn.Module, source: Path) -> Initialised:
    """Take every tensor of the same name and shape from a run, a checkpoint or a file of weights.

    Statistics are taken like weights: what was learned reads numbers of their scale. The encoder is not, it is the
    one that the settings name.

    Args:
        network: Changed in place.
        source: Run of train-mpl, one of its checkpoints, an exported folder, or a file such as the guide's
            ``best_model.pt`` with ``model_state_dict``.

    Raises:
        MotionkitError: It cannot be read, holds no weights or numbers that are not finite, or nothing in it fits.
    """
    found = _read(source)
    own = {name: value for name, value in network.state_dict().items() if "encoder" not in name.split(".")}
    fits = {
        name: found[name]
        for name, value in own.items()
        if name in found and found[name].shape == value.shape
        and found[name].is_floating_point() == value.is_floating_point()
    }  # fmt: skip
    if not fits:
        theirs, ours = (
            ", ".join(f"{name} {list(table[name].shape)}" for name in list(table)[:_LISTED]) for table in (found, own)
        )
        raise MotionkitError(
            f"nothing in {source} fits this network.",
            why=f"it has {len(found)} tensors, such as {theirs}; the network has {len(own)}, such as {ours}.",
            fix="give a run of train-mpl of the same --model.head and --model.width; weights of the guide's own code "
            "are of another network: train one here.",
        )
    broken = [name for name, value in fits.items() if value.is_floating_point() and not bool(value.isfinite().all())]
    if broken:
        raise MotionkitError(f"{source} has values that are not finite, in {_listed(broken)}.")
    with torch.no_grad():
        for name, value in fits.items():
            own[name].copy_(value)
    shared = [name for name in own if name in found]
    return Initialised(
        str(source),
        tuple(fits),
        tuple(name for name in shared if name not in fits),
        tuple(name for name in own if name not in found),
        sum(name not in own and "encoder" not in name.split(".") for name in found),
    )


def weights_file(source: Path) -> Path:
    """Return the file of weights of a run, a checkpoint or a folder; a file itself.

    Raises:
        MotionkitError: A folder holds no predictor.
    """
    if not source.is_dir():
        return source
    if (model := find_model(source, ARTIFACT, DOCUMENT)) is None:
        raise MotionkitError(f"{source} is no run of train-mpl.", fix="--init RUN, or a file of weights.")
    return model.tensors


def _read(source: Path) -> Mapping[str, Tensor]:
    content = weights.read(weights_file(source))
    found = weights.find_tensors(content)
    if not found:
        raise MotionkitError(f"{source} holds no weights: it is {weights.describe(content)}.")
    return found


def _listed(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
