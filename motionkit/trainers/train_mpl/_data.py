"""The clips that a predictor is trained and validated on, in windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from motionkit.datasets.motions._clips import ClipSet
from motionkit.datasets.motions._content import clip_fingerprint, leave_out, set_fingerprint
from motionkit.datasets.motions._open import STARTER, open_clip_set
from motionkit.datasets.motions._windows import Windows, cut_windows
from motionkit.policies.mpl._settings import PredictorSettings
from motionkit.runs import TrainedOn
from motionkit.trainers.train_mpl._settings import WindowSettings


@dataclass(frozen=True)
class TrainingData:
    """Clips in windows.

    Attributes:
        clips: All of them.
        train: Windows to train on.
        val: Windows to choose the best model by; None where no clip is for validation.
        notes: What a person should know, a sentence each.
        items: What is trained on; nothing of starter clips, which are made by code and whose splits share nothing.
        inputs: Fingerprint of the clips that were read, by setting.
    """

    clips: ClipSet
    train: Windows
    val: Windows | None
    notes: tuple[str, ...]
    items: TrainedOn
    inputs: Mapping[str, str]


def open_data(
    names: Sequence[str],
    fps: float,
    windows: WindowSettings,
    model: PredictorSettings,
    *,
    furthest: float,
    retarget: str = "",
) -> TrainingData:
    """Read clips and cut them into windows.

    Args:
        names: Files and folders, or ``starter`` alone.
        fps: Frames per second to bring the clips to; 0 keeps their own.
        windows: Sizes. Where the network looks further back than the known frames, more are known.
        model: The network's settings.
        furthest: Seconds that validation looks ahead.
        retarget: Which of the names has the skeleton that the others are brought to, or ``first``.

    Raises:
        MotionkitError: A path is missing or unreadable, the clips are not of one skeleton, or none is for training.
    """
    clips = open_clip_set(names, fps, ("train", "val"), retarget=retarget)
    notes = [*clips.notes]
    items, inputs = TrainedOn(), {}
    if STARTER not in names:
        inputs = {"data": set_fingerprint(clips)}
        items = TrainedOn.of(map(clip_fingerprint, clips.split("train")))
        clips, kept = leave_out(clips, "val", items)
        if kept.left_out:
            notes.append(kept.sentence("validation clips"))
    future = windows.seq_len - windows.known
    past = max(windows.known, max(model.lag_frames(clips.fps)) + 1)
    if past > windows.known:
        notes.append(
            f"windows have {past} known frames, not {windows.known}: the network looks {max(model.lags):.3g} s back, "
            f"at {clips.fps:g} fps; {future} are predicted as before."
        )
    train = cut_windows(clips.split("train"), past=past, future=future, stride=windows.stride)
    val = None
    if any(clip.split == "val" for clip in clips.clips):
        further = max(1, round(furthest * clips.fps))
        val = cut_windows(clips.split("val"), past=past, future=further, stride=windows.val_stride)
    else:
        notes.append("no clip is for validation: the last weights are kept, not the best ones.")
    if train.short:
        listed = ", ".join(train.short[:3])
        notes.append(
            f"{len(train.short)} of {len(train.offsets)} training clips are shorter than a window ({past + future} "
            f"frames) and were filled up: {listed}; what is filled up does not count."
        )
    if train.left_out:
        notes.append(f"{len(train.left_out)} clips of a single frame were left out: {', '.join(train.left_out[:3])}.")
    return TrainingData(clips, train, val, tuple(notes), items, inputs)
