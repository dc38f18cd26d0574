"""Settings for the motion predictor that suit a data set, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from motionkit.errors import MotionkitError
from motionkit.motion.profile._profile import Profile

_EPOCHS = ((2_000, 60), (10_000, 45), (50_000, 30), (math.inf, 20))
_BATCH = ((50, 16), (90, 8), (160, 6), (math.inf, 4))
_SMALL = ((1_000, 0.3, 1e-4), (10_000, 0.1, 1e-5), (math.inf, 0.05, 0.0))
_STAGES = ("stage1_teacher", "stage2_mixed", "stage3_freerun")
_SHARES = (0.3, 0.4, 0.3)
_FREERUN = (0.0, 0.35 * 0.5, 0.65 * 0.5)
_HORIZON = (0.6, 0.9, 1.2)
_POSTURE = (0.2 * 0.35, 0.65 * 0.35, 1.0 * 0.35)
_LATENT = (0.1 * 0.3, 0.4 * 0.3, 0.8 * 0.3)
_LIMB = (0.0, 0.05, 0.08)
_LONGEST_HORIZON = 0.5
"""Seconds. On CMU's benchmark, training on roll-outs of a second was worse at every horizon than on half a second."""

_SEQ_LEN = (20, 120)
_KEPT = 0.9
LAST_WEIGHT = 0.3
LARGEST_STEP = 0.2


@dataclass(frozen=True)
class Suggestion:
    """One setting.

    Attributes:
        key: Its name in the predictor's configuration.
        value: What to set it to.
        reason: Why, with the figure of the data set it follows from.
    """

    key: str
    value: Any
    reason: str


def suggest(profile: Profile, fixed: Mapping[str, Any] | None = None) -> tuple[Suggestion, ...]:
    """Return settings for the predictor: rules of thumb by the size and the variety of the data set.

    Args:
        profile: Statistics; at least one clip.
        fixed: Settings that stay as they are; what follows from ``epochs``, ``batch`` and ``seq_len`` follows them.

    Raises:
        MotionkitError: There is no clip.
    """
    if not profile.rows:
        raise MotionkitError("there is no clip to suggest settings for.")
    frames, number = profile.frames, len(profile.rows)
    average = frames / number
    fps = next(iter(profile.fps))
    epochs = _by_size(_EPOCHS, frames)
    batch = _by_size(_BATCH, average)
    window = _window(profile.lengths)
    suggested = (epochs, batch, window)
    epochs, batch, window = (
        _whole(fixed or {}, key, value) for key, value in zip(("epochs", "batch", "seq_len"), suggested, strict=True)
    )
    shorter = sum(length < suggested[2] for length in profile.lengths)
    complexity = profile.complexity
    raw = 1e-3 * max(1.5, math.log10(frames)) / 5 / (1 + complexity) * math.sqrt(batch / 8)
    rate = float(f"{min(max(raw, 1e-5), 6e-4):.4g}")
    tf_end = max(1, int(0.65 * epochs))
    dropout, decay = next((row[1], row[2]) for row in _SMALL if frames < row[0])
    size = f"{frames} frames in all"
    schedule, horizon_reason = _schedule(epochs, sorted(profile.lengths)[number // 2], window, fps)
    return (
        Suggestion("epochs", suggested[0], f"{size}: 60, 45, 30, 20 epochs below 2k, 10k, 50k frames and above."),
        Suggestion(
            "batch", suggested[1], f"{average:.0f} frames a clip: 16, 8, 6, 4 below 50, 90, 160 frames and above."
        ),
        Suggestion(
            "lr",
            rate,
            f"1e-3 * log10({frames}) / 5 / (1 + complexity {complexity:.2f}) * sqrt({batch}/8) = {raw:.2g}, "
            "kept within 1e-5 and 6e-4: more varied motion needs smaller steps.",
        ),
        Suggestion(
            "seq_len",
            suggested[2],
            f"{suggested[2] / fps:.2g} s at {fps:g} fps; {number - shorter} of {number} clips are at least as long"
            + (f", the {shorter} shorter ones are padded." if shorter else "."),
        ),
        Suggestion("tf_mode", "epoch_linear", "teacher forcing goes down evenly, epoch by epoch."),
        Suggestion("tf_start_epoch", 1, "from the first epoch on."),
        Suggestion("tf_end_epoch", tf_end, f"0.65 of {epochs} epochs: the last third runs on its own predictions."),
        Suggestion("tf_max", 1.0, "first only recorded frames."),
        Suggestion("tf_min", 0.0, "at the end only predicted ones."),
        Suggestion("w_fk_pos", round(_POSTURE[0], 4), "0.2 of 0.35; the stages raise it."),
        Suggestion("w_rot_local", round(_POSTURE[0], 4), "0.2 of 0.35; the stages raise it."),
        Suggestion("w_rot_log", 0.2, "the guide's value: how much each joint turns per frame."),
        Suggestion("w_limb_geo", 0.0, "limbs get extra weight in the later stages only."),
        Suggestion("w_latent_consistency", round(_LATENT[0], 4), "0.1 of 0.3; the stages raise it."),
        Suggestion("dropout", dropout, f"{size}: 0.3, 0.1, 0.05 below 1k, 10k frames and above."),
        Suggestion("weight_decay", decay, f"{size}: 1e-4, 1e-5, 0 below 1k, 10k frames and above."),
        Suggestion("freerun_stage_schedule", schedule, horizon_reason),
    )


def schedule_problems(schedule: Sequence[Mapping[str, Any]], epochs: int) -> tuple[str, ...]:
    """Return what is wrong with a stage schedule, one sentence each; none when it is sound.

    Stages follow each other without gap from epoch 1 to the last; the weight and the horizon of free runs never go
    down, the weight ends at 0.3 or more and never rises by more than 0.2 at once.

    Args:
        schedule: Stages with ``range``, ``label`` and ``trainer``.
        epochs: Epochs of the whole training.
    """
    found: list[str] = []
    expected, weight, horizon = 1, 0.0, 0
    for number, stage in enumerate(schedule, start=1):
        label = str(stage.get("label", f"stage {number}"))
        try:
            first, last = (int(epoch) for epoch in stage["range"])
            trainer = stage["trainer"]
            next_weight, next_horizon = float(trainer["freerun_weight"]), int(trainer["freerun_horizon"])
        except (KeyError, TypeError, ValueError):
            found.append(f"{label} lacks range, trainer.freerun_weight or trainer.freerun_horizon.")
            continue
        if first != expected:
            found.append(f"{label} begins with epoch {first}; epoch {expected} is next.")
        if last < first:
            found.append(f"{label} ends with epoch {last}, before it begins.")
        if next_weight < weight:
            found.append(f"freerun_weight goes down from {weight:g} to {next_weight:g} in {label}.")
        if next_weight - weight > LARGEST_STEP + 1e-9:
            found.append(f"freerun_weight rises by {next_weight - weight:.3g} in {label}; {LARGEST_STEP} is the most.")
        if next_horizon < horizon:
            found.append(f"freerun_horizon goes down from {horizon} to {next_horizon} in {label}.")
        expected, weight, horizon = last + 1, next_weight, next_horizon
    if schedule and expected != epochs + 1:
        found.append(f"the stages end with epoch {expected - 1}; the training has {epochs}.")
    if schedule and weight < LAST_WEIGHT:
        found.append(f"freerun_weight ends at {weight:g}; {LAST_WEIGHT} or more makes long runs stable.")
    return tuple(found)


def _schedule(epochs: int, length: float, window: int, fps: float) -> tuple[list[dict[str, Any]], str]:
    """Return three stages and the reason for their horizons."""
    longest = 0.2 * length * _HORIZON[-1]
    limit = min(_LONGEST_HORIZON * fps, window - 1)
    shrink = min(1.0, limit / longest)
    horizons = [max(1, round(0.2 * length * part * shrink + 1e-9)) for part in _HORIZON]
    number = min(epochs, 3)
    # With fewer than three epochs there is one stage for each.
    ends = [round(epochs * sum(_SHARES[: stage + 1])) if number == 3 else stage + 1 for stage in range(number)]
    starts = [1, *(end + 1 for end in ends[:-1])]
    stages: list[dict[str, Any]] = [
        {
            "range": [starts[stage], ends[stage]],
            "label": _STAGES[stage],
            "trainer": {
                "freerun_weight": round(_FREERUN[stage], 4),
                "freerun_horizon": horizons[stage],
                "w_latent_consistency": round(_LATENT[stage], 4),
            },
            "loss_groups": {
                "core": {"w_fk_pos": round(_POSTURE[stage], 4), "w_rot_local": round(_POSTURE[stage], 4)},
                "aux": {"w_limb_geo": _LIMB[stage]},
            },
        }
        for stage in range(number)
    ]
    reason = (
        f"30, 40 and 30 % of {epochs} epochs; free runs of 0.12, 0.18, 0.24 of the median {length:g} frames are "
        f"{', '.join(f'{0.2 * length * part:.0f}' for part in _HORIZON)} frames"
    )
    if shrink < 1.0:
        reason += (
            f", shortened to {', '.join(map(str, horizons))}: at most {_LONGEST_HORIZON:g} s and less than seq_len, "
            "since longer roll-outs made every horizon worse"
        )
    return stages, reason + "."


def _window(lengths: Sequence[int]) -> int:
    """Return a window, a multiple of ten, that 9 of 10 clips fill."""
    least, most = _SEQ_LEN
    short = sorted(lengths)[int((1.0 - _KEPT) * len(lengths))]
    return min(max(short // 10 * 10, least), most)


def _whole(fixed: Mapping[str, Any], key: str, suggested: int) -> int:
    """Return a fixed setting when it is a whole number above 0, else the suggestion."""
    value = fixed.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else suggested


def _by_size(table: Sequence[tuple[float, int]], value: float) -> int:
    return next(result for limit, result in table if value < limit)
