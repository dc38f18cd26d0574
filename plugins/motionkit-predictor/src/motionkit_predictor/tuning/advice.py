"""Settings for the motion predictor that suit a dataset, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, ClassVar

from motionkit.clips.profile.document import Suggestion
from motionkit.clips.profile.statistics import Profile
from motionkit.errors import MotionkitError
from motionkit.page.wording import count, plain
from motionkit_predictor.training.schedule import (
    FULL_LATENT,
    FULL_POSTURE,
    LAST_WEIGHT,
    LATENT,
    POSTURE,
    STAGE_COLUMNS,
    schedule_problems,
    stage_rows,
    suggest_schedule,
)

_EPOCHS = ((2_000, 60), (10_000, 45), (50_000, 30), (math.inf, 20))
_BATCH = ((50, 16), (90, 8), (160, 6), (math.inf, 4))
_SMALL = ((1_000, 0.3, 1e-4), (10_000, 0.1, 1e-5), (math.inf, 0.05, 0.0))
_SEQ_LEN = (20, 120)
_KEPT = 0.9


class PredictorAdvisor:
    """Suggests settings of the motion predictor for a dataset, and finds faults in a user's stage schedule."""

    title: ClassVar[str] = "the motion predictor"
    command: ClassVar[str] = "train-mpl"
    silence: ClassVar[str] = (
        "those of the motion predictor are for clips with rotations, and these have joint positions only "
        "(motionkit convert ... --to mpl finds rotations)"
    )

    def __init__(self, *, starter: bool = False) -> None:
        self._starter = starter  # the profile includes starter clips: train-mpl generates their rotations

    def suggest(self, profile: Profile, fixed: Mapping[str, Any] | None = None) -> tuple[Suggestion, ...]:
        """Return settings with reasons, see `suggest`; none for clips without rotations, on which it is not trained."""
        turns = profile.bone_angle.count > 0 or any(skeleton.rig.rotations for skeleton in profile.skeletons.values())
        return suggest(profile, fixed) if self._starter or turns else ()

    def problems(self, kept: Mapping[str, Any], suggestions: Sequence[Suggestion]) -> tuple[str, ...]:
        """Return the faults of a stage schedule that stays in a settings file; see `schedule_problems`."""
        stages = kept.get("freerun_stage_schedule")
        epochs = kept.get(
            "epochs", next((suggestion.value for suggestion in suggestions if suggestion.key == "epochs"), None)
        )
        return schedule_problems(stages, epochs) if isinstance(stages, list) and isinstance(epochs, int) else ()


def suggest(profile: Profile, fixed: Mapping[str, Any] | None = None) -> tuple[Suggestion, ...]:
    """Return settings for the predictor: rules of thumb by the size and the variety of the dataset.

    Args:
        profile: Statistics of the clips to train on; at least one clip.
        fixed: Settings that stay as they are; suggestions that depend on ``epochs``, ``batch`` and ``seq_len`` use
            them.
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
        _fixed_or(fixed or {}, key, value) for key, value in zip(("epochs", "batch", "seq_len"), suggested, strict=True)
    )
    complexity = profile.complexity
    raw = 1e-3 * max(1.5, math.log10(frames)) / 5 / (1 + complexity) * math.sqrt(batch / 8)
    rate = float(f"{min(max(raw, 1e-5), 6e-4):.4g}")
    tf_end = max(1, int(0.65 * epochs))
    dropout, decay = next((row[1], row[2]) for row in _SMALL if frames < row[0])
    size = f"{frames:,} frames to train on" if profile.splits().get("train") else f"{frames:,} frames in all"
    posture = (
        f"a fifth of its full {FULL_POSTURE:g}: while every step starts from a recorded pose, posture can hardly "
        "drift; the stages raise it."
    )
    schedule, schedule_reason = suggest_schedule(epochs, median(profile.lengths), window, fps)
    return (
        Suggestion("epochs", suggested[0], f"{size}: 60, 45, 30, 20 epochs below 2k, 10k, 50k frames and above."),
        Suggestion(
            "batch",
            suggested[1],
            f"{plain(average, 1).removesuffix('.0')} frames a clip: 16, 8, 6, 4 below 50, 90, 160 frames and above.",
        ),
        Suggestion(
            "lr",
            rate,
            f"1e-3 × log10({frames}) / 5 / (1 + complexity {complexity:.2f}) × sqrt({batch} / 8) = {raw:.2g}, "
            "kept within 1e-5 and 6e-4: more varied motion needs smaller steps.",
        ),
        Suggestion("seq_len", suggested[2], _window_reason(profile.lengths, suggested[2], fps)),
        Suggestion("tf_mode", "epoch_linear", "teacher forcing goes down evenly, epoch by epoch."),
        Suggestion("tf_start_epoch", 1, "it goes down from the first epoch on."),
        Suggestion("tf_end_epoch", tf_end, f"0.65 of {epochs} epochs: the last third runs on its own predictions."),
        Suggestion("tf_max", 1.0, "at first every step starts from a recorded frame, so that errors cannot add up."),
        Suggestion("tf_min", 0.0, "at the end every step starts from the model's own prediction, as it will in use."),
        Suggestion("w_fk_pos", round(POSTURE[0], 4), f"joint positions: {posture}"),
        Suggestion("w_rot_local", round(POSTURE[0], 4), f"joint rotations: {posture}"),
        Suggestion("w_rot_log", 0.2, "how much each joint turns per frame; the guide's own value."),
        Suggestion("w_limb_geo", 0.0, "extra weight for limbs, which only free runs need; the stages raise it."),
        Suggestion(
            "w_latent_consistency",
            round(LATENT[0], 4),
            f"a tenth of {FULL_LATENT:g}: it ties free runs to the teacher's latent, and free runs come later; the "
            "stages raise it.",
        ),
        Suggestion("dropout", dropout, f"{size}: 0.3, 0.1, 0.05 below 1k, 10k frames and above."),
        Suggestion("weight_decay", decay, f"{size}: 1e-4, 1e-5, 0 below 1k, 10k frames and above."),
        Suggestion(
            "freerun_stage_schedule",
            schedule,
            schedule_reason,
            STAGE_COLUMNS,
            tuple(stage_rows(schedule)),
            " ".join(schedule_problems(schedule, suggested[0]))
            or f"Free-run weights only rise, and end above {LAST_WEIGHT}.",
        ),
    )


def _window(lengths: Sequence[int]) -> int:
    """Return a window, a multiple of ten, that 9 of 10 clips fill."""
    least, most = _SEQ_LEN
    short = sorted(lengths)[int((1.0 - _KEPT) * len(lengths))]
    return min(max(short // 10 * 10, least), most)


def _window_reason(lengths: Sequence[int], window: int, fps: float) -> str:
    """Return how long the window is and how many clips fill it."""
    shorter = sum(length < window for length in lengths)
    long_enough = f"{len(lengths) - shorter} of {count(len(lengths), 'clip')}"
    padded = "" if not shorter else ", the shorter one is padded" if shorter == 1 else ", the shorter ones are padded"
    verb = "is" if len(lengths) - shorter == 1 else "are"
    return f"{window / fps:.2g} s at {fps:g} fps; {long_enough} {verb} at least as long{padded}."


def _fixed_or(fixed: Mapping[str, Any], key: str, suggested: int) -> int:
    """Return the fixed setting if it is a positive integer, else the suggestion."""
    value = fixed.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else suggested


def _by_size(table: Sequence[tuple[float, int]], value: float) -> int:
    return next(result for limit, result in table if value < limit)
