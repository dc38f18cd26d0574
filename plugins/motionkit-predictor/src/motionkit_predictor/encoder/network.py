"""The motion encoder of the predictor: one frame and the poses just before it become features, phase and gait.

Its folder holds ``encoder.json`` and ``model.safetensors``, and is complete in itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from motionkit import weights
from motionkit.documents import read_model
from motionkit.errors import MotionkitError
from motionkit.geometry import matrix_from_6d, matrix_to_6d, matrix_to_rotvec
from motionkit.rigs import GAITS
from motionkit.runs import TENSORS, find_model, newest_with, what_is, write_model
from motionkit_predictor.states import MotionState

KIND, ARTIFACT, DOCUMENT = "mpl-encoder", "encoder", "encoder.json"

COMMAND = "pretrain mpl-encoder"

FEET = 2

PERIOD = 4
"""Numbers of the soft period: sine left, sine right, cosine left, cosine right."""

_FLOOR = 0.3
"""Smallest deviation of a feature, as a share of the median one of its kind: joints at rest have noise only."""

_LARGEST = 10.0  # inputs are cut at so many deviations: glitches of recorded motion

_FIX = f"give a run of motionkit {COMMAND}, or a folder with {DOCUMENT}."


def frame_features(state: MotionState, fps: float) -> Tensor:
    """Return ``[..., T, 2 + 9 J]``: contacts 2, angular velocity 3 J in rad/s, 6D pose 6 J.

    The velocity is the log of the turn ``R_t R_(t-1)^T`` since the frame before, times `fps`; in the first frame,
    which has none before it, it is 0. The root's rotation is relative to where the body faces, so neither place nor
    direction in the world matters.
    """
    rotations = state.rotations
    turns = matrix_to_rotvec(rotations[..., 1:, :, :, :] @ rotations[..., :-1, :, :, :].mT)
    velocity = torch.cat([torch.zeros_like(rotations[..., :1, :, :, 0]), turns * fps], dim=-3)
    return torch.cat([state.contacts, velocity.flatten(-2), matrix_to_6d(rotations).flatten(-2)], dim=-1)


def with_history(
    features: Tensor,  # [..., T, 2 + 9 J] of `frame_features`
    rows: Tensor,  # [F, K] int64: for each of F frames its own place, then those of the frames before it
    joints: int,  # joints J
) -> Tensor:
    """Append the poses of earlier frames to frames: ``[..., F, 2 + 3 J + K * 6 J]``, the newest pose first."""
    now = features[..., rows[:, 0], : FEET + 3 * joints]
    poses = features[..., FEET + 3 * joints :][..., rows, :]
    return torch.cat([now, poses.flatten(-2)], dim=-1)


def encoder_inputs(state: MotionState, fps: float, *, history: int = 3) -> Tensor:
    """Return what the encoder reads, ``[..., T, D]`` with D = 2 + 3 J + `history` * 6 J.

    Frame t reads frames t - K + 1 to t, K being `history`, and t - 1; before the beginning the first frame is repeated,
    at rest. To read the last frame only, the last `MotionEncoder.reach` frames of `state` are enough.

    Example:
        >>> still = MotionState(torch.eye(3).expand(5, 2, 3, 3), torch.zeros(5, 3), torch.ones(5), torch.ones(5, 2))
        >>> encoder_inputs(still, 30.0).shape
        torch.Size([5, 44])
    """
    place = torch.arange(state.frames, device=state.heights.device)
    back = torch.arange(history, device=place.device)
    rows = (place[:, None] - back).clamp_min(0)
    return with_history(frame_features(state, fps), rows, state.rotations.shape[-3])


@dataclass(frozen=True)
class Scales:
    """Statistics of training frames."""

    mean: Tensor  # [2 + 9 J] of `frame_features`
    std: Tensor  # [2 + 9 J] deviation, with a floor
    turn_std: Tensor  # [6 J] root mean square of the turns to the pose ahead, in 6D, minus the identity

    @classmethod
    def neutral(cls, joints: int) -> Self:
        """Return scales that change nothing, for an encoder whose scales are loaded after it was made."""
        width = FEET + 9 * joints
        return cls(torch.zeros(width), torch.ones(width), torch.ones(6 * joints))

    @classmethod
    def of(
        cls,
        features: Sequence[Tensor],  # [T, 2 + 9 J] of each clip
        rotations: Sequence[Tensor],  # [T, J, 3, 3] of each clip
        ahead: int,  # frames to the pose ahead
    ) -> Self:
        """Measure clips."""
        rows = torch.cat(list(features)).double()
        joints = (rows.shape[1] - FEET) // 9
        parts = rows.std(0, correction=0).split([FEET, 3 * joints, 6 * joints])
        std = torch.cat([_floored(part) for part in parts])
        turns = torch.cat([clip[ahead:] @ clip[: len(clip) - ahead].mT for clip in rotations]).double()
        if not len(turns):  # no clip is longer
            turns = torch.eye(3, dtype=torch.float64).expand(1, joints, 3, 3)
        size = turn_residual(turns).flatten(-2).square().mean(0).sqrt()
        return cls(rows.mean(0).float(), std.float(), _floored(size).float())


def turn_residual(turns: Tensor) -> Tensor:
    """Return turns ``[..., 3, 3]`` in 6D minus the identity, ``[..., 6]``."""
    return matrix_to_6d(turns) - matrix_to_6d(torch.eye(3).to(turns))


def _floored(std: Tensor) -> Tensor:
    return std.clamp_min(max(_FLOOR * float(std.median()), 1e-3))


class EncoderSizes(BaseModel):
    """Shape of an encoder."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    width: int = Field(256, ge=1, le=65_536)  # features H of a frame
    layers: int = Field(3, ge=1, le=64)  # layers, each a linear one, GELU and dropout
    history: int = Field(3, ge=1, le=64)  # poses K that are read, the current one included
    ahead: int = Field(3, ge=1, le=2000)  # frames to the pose that the pose head predicts
    dropout: float = Field(0.1, ge=0, lt=1)  # dropout while training


class MotionEncoder(nn.Module):
    """Turns frames into features, one frame at a time, without a state.

    The soft period has four numbers rather than a wider latent with a read-out: they are what is trained and measured,
    so a frozen encoder's period is a known quantity. They are trained by squared error, so the length of a foot's
    (sine, cosine) is the confidence of its phase: 1 is certain, 0 unknown.
    """

    mean: Tensor
    std: Tensor
    turn_std: Tensor

    def __init__(self, sizes: EncoderSizes, names: Sequence[str], fps: float, scales: Scales) -> None:
        super().__init__()
        self.sizes, self.names, self.fps = sizes, tuple(names), fps
        for name, values in asdict(scales).items():
            self.register_buffer(name, values.clone())
        self.joints = len(self.names)
        body: list[nn.Module] = []
        for place in range(sizes.layers):
            body += [nn.Linear(sizes.width if place else self.inputs, sizes.width), nn.GELU("tanh")]
            body += [nn.Dropout(sizes.dropout)]
        self.body = nn.Sequential(*body)
        self.period_head = nn.Linear(sizes.width, PERIOD)
        self.gait_head = nn.Linear(sizes.width, len(GAITS))
        self.pose_head = nn.Linear(sizes.width, 6 * self.joints)
        nn.init.zeros_(self.pose_head.weight)  # at first nothing moves
        nn.init.zeros_(self.pose_head.bias)

    @property
    def inputs(self) -> int:
        """Width D of what it reads; see `encoder_inputs`."""
        return FEET + 3 * self.joints + 6 * self.joints * self.sizes.history

    @property
    def width(self) -> int:
        """Width H of its features."""
        return self.sizes.width

    @property
    def reach(self) -> int:
        """Frames that the features of one frame depend on, that frame included."""
        return max(2, self.sizes.history)

    def normalise(self, inputs: Tensor) -> Tensor:
        """Return ``[..., D]`` in deviations of the training frames, cut at 10."""
        at = FEET + 3 * self.joints
        mean, std = (
            torch.cat([values[:at], values[at:].repeat(self.sizes.history)]) for values in (self.mean, self.std)
        )
        return ((inputs - mean) / std).clamp(-_LARGEST, _LARGEST)

    def forward(self, inputs: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """Return features ``[..., H]`` of ``[..., D]`` of `encoder_inputs`; noise ``[..., D]`` is in deviations."""
        read = self.normalise(inputs)
        hidden: Tensor = self.body(read if noise is None else read + noise)
        return hidden

    def period(self, hidden: Tensor) -> Tensor:
        """Return the soft period ``[..., 4]`` in -1 to 1: sine left, sine right, cosine left, cosine right."""
        return torch.tanh(self.period_head(hidden))

    def gait(self, hidden: Tensor) -> Tensor:
        """Return logits ``[..., 4]`` of the gaits in `motionkit.rigs.GAITS`."""
        logits: Tensor = self.gait_head(hidden)
        return logits

    def turns(self, hidden: Tensor) -> Tensor:
        """Return the turns to the pose ahead in 6D minus the identity, in deviations: ``[..., J, 6]``."""
        residual: Tensor = self.pose_head(hidden).unflatten(-1, (self.joints, 6))
        return residual

    def pose(self, hidden: Tensor, rotations: Tensor) -> Tensor:
        """Return the pose `sizes.ahead` frames ahead, ``[..., J, 3, 3]``, of the current one."""
        residual: Tensor = self.turns(hidden) * self.turn_std.unflatten(0, (self.joints, 6))
        return matrix_from_6d(residual + matrix_to_6d(torch.eye(3).to(residual))) @ rotations

    def misfit(self, names: Sequence[str], fps: float) -> str:
        """Return why it does not fit clips of these joints at this rate, a sentence; empty if it does."""
        if tuple(names) != self.names:
            other = next((name for name in names if name not in self.names), "")
            differs = f"it does not know {other}" if other else f"it knows {self.joints} joints, not {len(names)}"
            return f"the encoder is for another skeleton: {differs}."
        if abs(fps - self.fps) > 1e-3 * self.fps:
            return f"the encoder reads {self.fps:g} frames per second, not {fps:g}."
        return ""


class _Document(BaseModel):
    """Content of encoder.json; unknown keys (of later versions) are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    kind: Literal["mpl-encoder"]
    sizes: EncoderSizes
    fps: float = Field(gt=0, le=1000)
    names: Annotated[tuple[str, ...], Field(min_length=1, max_length=1000)]

    @model_validator(mode="after")
    def _once(self) -> Self:
        if len(set(self.names)) < len(self.names):
            raise ValueError("two joints have one name")
        return self


def save_encoder(
    folder: Path, encoder: MotionEncoder, *, extra: Mapping[str, object] | None = None, tensors: bool = True
) -> None:
    """Write an encoder: ``encoder.json``, and weights and statistics in ``model.safetensors``, renamed into place.

    Args:
        folder: Created if it is missing.
        encoder: The encoder.
        extra: JSON-able additions to the document, such as the figures that it reached.
        tensors: Write the weights too; until a run ends only its checkpoints hold them.
    """
    document = {
        "schema": 1, "kind": KIND, "sizes": encoder.sizes.model_dump(), "fps": encoder.fps,
        "names": list(encoder.names), **dict(extra or {}),
    }  # fmt: skip
    write_model(folder, DOCUMENT, document, encoder.state_dict() if tensors else None)


def load_encoder(
    folder: Path,  # what `save_encoder` wrote
    tensors: Path | None = None,  # its weights if they are not in the folder: those of a run's checkpoint
) -> MotionEncoder:
    """Load an encoder, in eval mode."""
    document = read_model(folder / DOCUMENT, _Document, KIND, ", no motion encoder")
    path = tensors or folder / TENSORS
    # The scales are made outside: they are loaded into, and may not be on the meta device.
    neutral = Scales.neutral(len(document.names))
    encoder = weights.build(
        lambda: MotionEncoder(document.sizes, document.names, document.fps, neutral), weights.read(path), str(path)
    )
    numbers = encoder.state_dict()
    odd = [name for name, values in numbers.items() if not bool(values.isfinite().all())]
    odd += [name for name in ("std", "turn_std") if not bool((numbers[name] > 0).all())]
    if odd:
        raise MotionkitError(f"{path} is damaged.", why=f"{odd[0]} is not finite, or a deviation is not above 0.")
    return encoder.eval()


def open_encoder(path: str | Path) -> MotionEncoder:
    """Open the encoder of a run of ``pretrain mpl-encoder`` (its best), of one of its checkpoints, or of a folder."""
    folder = weights.located(path)
    if (model := find_model(folder, ARTIFACT, DOCUMENT)) is not None:
        return load_encoder(model.document.parent, model.tensors)
    if not folder.exists():
        raise MotionkitError(f"there is no {folder}.", fix=_FIX)
    if folder.is_file():
        why = "the files of the original code are not read; training one takes about a minute."
        raise MotionkitError(f"{folder} is a file, no motion encoder.", why=why, fix=f"motionkit {COMMAND}")
    raise MotionkitError(f"{folder} is {what_is(folder)}.", why="it holds no motion encoder.", fix=_FIX)


def newest_encoder_run(root: str | Path = "runs") -> Path | None:
    """Return the newest finished run of ``pretrain mpl-encoder`` below `root`; None without one."""
    return newest_with(COMMAND, Path(ARTIFACT, DOCUMENT), root)
