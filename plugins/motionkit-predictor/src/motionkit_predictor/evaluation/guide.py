"""The guide's ``evaluate_teacher`` and ``evaluate_freerun``, and its names of the figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from motionkit.errors import MotionkitError
from motionkit_predictor.data.clips import ClipSet, Windows, cut_windows
from motionkit_predictor.evaluation.measure import BATCH, Body, Horizons, Measured, predict_checked, window_terms
from motionkit_predictor.policy import Predictor

GUIDE_NAMES: Mapping[str, str] = {
    "geo_deg": "GeoDeg",
    "yaw_abs_deg": "YawAbsDeg",
    "root_vel_mae": "RootVelMAE",
    "input_rot_geo_deg": "InputRotGeoDeg",
    "contact_f1": "FootContact",
}
"""Figure here, name in the guide. FootContact is the F1 of predicted contacts, where the guide counted slow joints."""

_UP_TO = ("input_rot_geo_deg", "contact_f1")  # figures that are over all frames up to a horizon already


@dataclass(frozen=True)
class FreeRunSettings:
    """How the guide's free runs are measured."""

    warmup_steps: int = 4  # known frames before each; at least as many as the predictor reads
    horizon: int = 12  # frames of each free run

    def __post_init__(self) -> None:
        if self.warmup_steps < 0 or self.horizon < 1:
            raise MotionkitError(
                f"warmup_steps {self.warmup_steps}, horizon {self.horizon}: the least are 0 and 1 frames."
            )


def guide_name(figure: str) -> str:
    """Return a figure's name in the guide; empty if the guide has none.

    Example:
        >>> guide_name("key_bone/left_knee/geo_deg")
        'KeyBone/left_knee/GeoDeg'
    """
    head, _, rest = figure.partition("/")
    if head == "key_bone":
        limb, _, name = rest.rpartition("/")
        return f"KeyBone/{limb}/{GUIDE_NAMES[name]}"
    return GUIDE_NAMES.get(figure, "")


def evaluate_teacher(
    predictor: Predictor, data: ClipSet | Windows, *, body: Body | None = None, stride: int = 1, command: bool = False
) -> dict[str, float]:
    """Return the guide's figures of one frame ahead, predicted from true frames.

    Args:
        predictor: A model, or a baseline.
        data: Clips, whose test split is taken (or validation, or training, if that is empty); or windows.
        body: The skeleton, for windows.
        stride: Frames between two predictions of a clip.
        command: Give the predictor the path of the truth.

    Returns:
        ``GeoDeg``, ``YawAbsDeg``, ``RootVelMAE``, ``InputRotGeoDeg`` (0: what is read is the truth),
        ``KeyBone/<limb>/GeoDeg`` and ``FootContact``; a figure without meaning (no known contacts) is left out.
    """
    windows, body = _windows(predictor, data, body, FreeRunSettings(0, 1), stride)
    return _figures(predictor, windows, body, 1, command=command)


def evaluate_freerun(
    predictor: Predictor,  # as in `evaluate_teacher`, as the other arguments
    data: ClipSet | Windows,  # clips or windows; windows must be `settings.horizon` frames long or longer
    *,
    settings: FreeRunSettings | None = None,  # known frames before, and length; by default the guide's 4 and 12 frames
    body: Body | None = None,  # the skeleton, for windows
    stride: int = 5,  # frames between the beginnings of two free runs of a clip
    command: bool = False,  # give the predictor the path of the truth
) -> dict[str, float]:
    """Return the figures of `evaluate_teacher` in free runs, means over their frames; each also under ``FreeRun/``."""
    settings = settings or FreeRunSettings()
    windows, body = _windows(predictor, data, body, settings, stride)
    figures = _figures(predictor, windows, body, settings.horizon, command=command)
    return figures | {f"FreeRun/{name}": value for name, value in figures.items()}


def free_figures(measured: Measured) -> dict[str, float]:
    """Return a measurement by the guide's names: means over the horizons as `evaluate_freerun` names them.

    ``FreeRun/GeoDeg/<ms>`` is that of one horizon. Figures of the last pose held are under ``Hold/``;
    `motionkit tune --metrics` judges by them.
    """
    figures: dict[str, float] = {}
    for row, prefixes in (("model", ("", "FreeRun/")), ("hold", ("Hold/",))):
        for figure, values in measured.values.get(row, {}).items():
            mean = float(values.nanmean())
            if (name := guide_name(figure)) and math.isfinite(mean):
                figures |= {prefix + name: mean for prefix in prefixes}
    for key, value in zip(measured.horizons.keys, measured.values["model"]["geo_deg"].tolist(), strict=True):
        if math.isfinite(value):
            figures[f"FreeRun/GeoDeg/{key}"] = value
    return figures


def _windows(
    predictor: Predictor, data: ClipSet | Windows, body: Body | None, settings: FreeRunSettings, stride: int
) -> tuple[Windows, Body]:
    if isinstance(data, Windows):
        if body is None:
            raise MotionkitError("windows were given without their skeleton.", fix="body=Body.of(names, parents, fps)")
        if data.future < settings.horizon:
            raise MotionkitError(
                f"the windows have {data.future} frames to predict, and horizon is {settings.horizon}.",
                fix="cut longer windows, or a shorter FreeRunSettings(horizon=...).",
            )
        return data, body
    if tuple(predictor.names) != tuple(data.names) or predictor.fps != data.fps:
        raise MotionkitError(
            f"the predictor has {len(predictor.names)} joints at {predictor.fps:g} fps, {data.name} has "
            f"{len(data.names)} at {data.fps:g} fps, or their names differ.",
            fix="read the clips at the predictor's rate: open_clip_set(names, fps, splits).",
        )
    splits = {clip.split for clip in data.clips}
    chosen = next(split for split in ("test", "val", "train") if split in splits)
    clips = [clip for clip in data.clips if clip.split == chosen]
    past = max(predictor.past, settings.warmup_steps)
    return cut_windows(clips, past=past, future=settings.horizon, stride=stride), Body.of(
        data.names, data.parents, data.fps
    )


@torch.no_grad()
def _figures(predictor: Predictor, windows: Windows, body: Body, frames: int, *, command: bool) -> dict[str, float]:
    horizons = Horizons(tuple(map(str, range(1, frames + 1))), tuple(range(1, frames + 1)))
    above: dict[str, torch.Tensor] = {}
    below: dict[str, torch.Tensor] = {}
    for index in torch.arange(len(windows)).split(BATCH):
        known = windows.known(index)
        truth = windows.following(index)
        predicted = predict_checked(predictor, known, frames, truth.steps if command else None)
        clip = windows.clip[index]
        terms = window_terms(
            predicted, truth.part(0, frames), known, offsets=windows.offsets[clip],
            valid=windows.valid[index].clamp_max(frames), contacts_known=windows.contacts_known[clip], body=body,
            horizons=horizons,
        )  # fmt: skip
        for name, sides in terms.items():
            for total, part in zip((above, below), sides, strict=True):
                total[name] = total.get(name, torch.zeros(())) + part.double().sum(0)
    figures = {}
    for name in above:
        place = slice(-1, None) if name in _UP_TO else slice(None)
        under = float(below[name][place].sum())
        if (known_as := guide_name(name)) and under > 0:
            figures[known_as] = float(above[name][place].sum()) / under
    return figures
