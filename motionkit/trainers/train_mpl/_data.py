"""The clips that a predictor is trained and validated on, in windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from motionkit.datasets.motions import ClipSet, Windows, cut_windows, open_clip_set
from motionkit.trainers.train_mpl._settings import WindowSettings


@dataclass(frozen=True)
class TrainingData:
    """Clips in windows.

    Attributes:
        clips: All of them.
        train: Windows to train on.
        val: Windows to choose the best model by; None where no clip is for validation.
        notes: What a person should know, a sentence each.
    """

    clips: ClipSet
    train: Windows
    val: Windows | None
    notes: tuple[str, ...]


def open_data(names: Sequence[str], fps: float, windows: WindowSettings, *, furthest: float) -> TrainingData:
    """Read clips and cut them into windows.

    Args:
        names: Files and folders, or ``starter`` alone.
        fps: Frames per second to bring the clips to; 0 keeps their own.
        windows: Sizes.
        furthest: Seconds that validation looks ahead.

    Raises:
        MotionkitError: A path is missing or unreadable, the clips are not of one skeleton, or none is for training.
    """
    clips = open_clip_set(names, fps, ("train", "val"))
    notes = [*clips.notes]
    train = cut_windows(
        clips.split("train"), past=windows.known, future=windows.seq_len - windows.known, stride=windows.stride
    )
    val = None
    if any(clip.split == "val" for clip in clips.clips):
        future = max(1, round(furthest * clips.fps))
        val = cut_windows(clips.split("val"), past=windows.known, future=future, stride=windows.val_stride)
    else:
        notes.append("no clip is for validation: the last weights are kept, not the best ones.")
    if train.short:
        listed = ", ".join(train.short[:3])
        notes.append(
            f"{len(train.short)} of {len(train.offsets)} training clips are shorter than a window ({windows.seq_len} "
            f"frames) and were filled up: {listed}; what is filled up does not count."
        )
    if train.left_out:
        notes.append(f"{len(train.left_out)} clips of a single frame were left out: {', '.join(train.left_out[:3])}.")
    return TrainingData(clips, train, val, tuple(notes))
