"""Clips with rotations for the motion predictor: read from files or made by the starter, of one skeleton.

`open_data` cuts them into the windows that a training run needs; `on_one_skeleton` brings clips of several skeletons to
one of them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from motionkit.clips.bodies import skeleton_mark
from motionkit.clips.convert import load_clips, open_sources
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, Caption, Clip, Motion
from motionkit.motion.clip import clip_keys
from motionkit.motion.corpus.ids import SPLITS, Split
from motionkit.rigs import Retarget
from motionkit.runs import TrainedOn
from motionkit.starter import CATALOGUE, OFFSETS, PARENTS, Order, StarterClip, perform
from motionkit.starter.plan import plan
from motionkit_predictor.data.clips import (
    ClipSet,
    Windows,
    clip_fingerprint,
    clip_set,
    cut_windows,
    leave_out,
    set_fingerprint,
)
from motionkit_predictor.data.settings import WindowSettings
from motionkit_predictor.settings import PredictorSettings

STARTER = "starter"

FIRST = "first"
"""Value of ``--retarget`` for the skeleton of the first of ``--data``."""

FPS = 30.0
"""Rate of starter clips if ``--fps 0`` keeps the clips' own."""

_ROUNDS: Mapping[Split, int] = {"train": 2, "val": 1, "test": 1}  # clips of each class of movements
_LENGTHS = 40, 120  # frames at 20 frames per second, as in the starter dataset

_LEARNT_FROM = 40  # clips of the skeleton that is learned, evenly from all of them


def open_clip_set(
    names: Sequence[str],  # files and folders, or the word ``starter`` alone
    fps: float,  # frames per second to bring the clips to; 0 keeps the rate that they all have (starter: 30)
    splits: Sequence[Split] = ("train", "val", "test"),  # splits of the starter that are made; files are read whole
    *,
    retarget: str = "",  # as in `read_clip_set`
) -> ClipSet:
    """Open the clips that ``--data`` names."""
    if STARTER not in names:
        return read_clip_set([Path(name) for name in names], fps=fps, retarget=retarget)
    if len(names) > 1:
        raise MotionkitError("--data starter was given with other data.", fix="give one of them.")
    return starter_clip_set(fps or FPS, splits)


def open_training_clips(
    names: Sequence[str], fps: float, retarget: str
) -> tuple[ClipSet, list[str], TrainedOn, dict[str, str]]:
    """Open training and validation clips; validation clips that are copies of training clips are left out.

    Returns:
        The clips, notes for the user, fingerprints of the training clips, and that of all clips by setting. The
        starter has no fingerprints: code makes its clips, and its splits share nothing.
    """
    clips = open_clip_set(names, fps, ("train", "val"), retarget=retarget)
    notes = [*clips.notes]
    if STARTER in names:
        return clips, notes, TrainedOn(), {}
    inputs = {"data": set_fingerprint(clips)}
    items = TrainedOn.of(map(clip_fingerprint, clips.split("train")))
    clips, kept = leave_out(clips, "val", items)
    if kept.left_out:
        notes.append(kept.sentence("validation clips"))
    return clips, notes, items, inputs


@dataclass(frozen=True)
class TrainingData:
    """Clips in windows."""

    clips: ClipSet  # all of them
    train: Windows  # windows to train on
    val: Windows | None  # windows to choose the best model by; None if no clip is for validation
    notes: tuple[str, ...]  # what a person should know, a sentence each
    items: TrainedOn  # as in `open_training_clips`
    inputs: Mapping[str, str]  # likewise


def open_data(
    names: Sequence[str],  # files and folders, or ``starter`` alone
    fps: float,  # frames per second to bring the clips to; 0 keeps their own
    windows: WindowSettings,  # sizes; if the network reads further back than the known frames, there are more of them
    model: PredictorSettings,  # the network's settings
    *,
    furthest: float,  # seconds that validation looks ahead
    retarget: str = "",  # which of the names has the skeleton that the others are brought to, or ``first``
) -> TrainingData:
    """Read clips and cut them into windows."""
    clips, notes, items, inputs = open_training_clips(names, fps, retarget)
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
    return TrainingData(clips, train, val, (*notes, *train.notes("training clips")), items, inputs)


def read_clip_set(paths: Sequence[Path], *, fps: float, retarget: str = "") -> ClipSet:
    """Read motion files, such as the folder that ``motionkit convert --to mpl`` made.

    Args:
        paths: Files and folders in any format with rotations.
        fps: Frames per second to bring the clips to; 0 keeps the one that they all have.
        retarget: Which of the paths has the skeleton that clips of other skeletons are brought to, or ``first``;
            empty refuses several skeletons.
    """
    opened = open_sources(paths)
    clips: list[ReadClip] = []
    for source in opened.sources:
        loaded = load_clips(source)
        for key, clip in zip(clip_keys(source, loaded), loaded, strict=True):
            if clip.fault is not None:
                raise clip.fault
            clips.append(ReadClip(key, clip, Path(source.origin)))
    notes: list[str] = []
    pairs = [(entry.key, entry.clip) for entry in clips]
    if retarget:
        pairs, notes = on_one_skeleton(clips, paths, retarget, fps)
    return clip_set(", ".join(map(str, paths)), pairs, fps, notes=notes)


def starter_clip_set(fps: float, splits: Sequence[Split] = ("train", "val", "test")) -> ClipSet:
    """Perform clips of every class of movements, at any rate: 2 to train on, 1 to validate, 1 to test.

    They last 2 to 6 seconds. Unlike the features of the starter dataset they keep the rotations that made them, the
    steps of the root and the contacts of the feet.
    """
    return clip_set("starter", _starter_clips(fps, splits), fps)


def _starter_clips(fps: float, splits: Sequence[Split]) -> Iterator[tuple[str, Clip]]:
    for split in splits:
        planned = plan(split, _ROUNDS[split] * len(CATALOGUE), seed=0, lengths=_LENGTHS, unseen=0.0)
        orders = [Order(item.order.name, round(item.order.frames * fps / 20), item.order.seed) for item in planned]
        for item, made in zip(planned, perform(orders, fps=fps), strict=True):
            yield item.key, Clip(_motion(made), captions=(Caption(item.order.name),), split=split)


def _motion(made: StarterClip) -> Motion:
    offsets = torch.from_numpy(OFFSETS.copy())
    translations = offsets.repeat(len(made.root), 1, 1)
    translations[:, 0] = torch.from_numpy(made.root)
    # Ankle and ball of the left foot, then of the right one; a foot stands on either.
    contacts = torch.from_numpy(made.contacts).unflatten(-1, (2, 2)).any(dim=-1).double()
    rotations = torch.from_numpy(made.rotations)
    return Motion(HUMANML.joint_names, PARENTS, offsets, rotations, translations, made.fps, {"contacts": contacts})


@dataclass(frozen=True)
class ReadClip:
    """A clip with the file that it came from."""

    key: str
    clip: Clip
    file: Path

    @property
    def skeleton(self) -> str:
        """Return what tells its skeleton apart; see `skeleton_mark`."""
        motion = self.clip.motion
        return skeleton_mark(motion.names, motion.parents) + (
            "" if isinstance(motion, Motion) else " without rotations"
        )


def on_one_skeleton(
    clips: Sequence[ReadClip], paths: Sequence[Path], retarget: str, fps: float
) -> tuple[list[tuple[str, Clip]], list[str]]:
    """Bring clips to the skeleton that most clips of a folder have.

    Clips of rigs that cannot be brought to it are left out. Copies of one recording, which share a group or a file
    name, get one split: the last that any of them has, so that nothing held out is trained on. Also returns notes.

    Args:
        clips: Clips that were read from `paths`.
        paths: Files and folders.
        retarget: One of them, or `FIRST`.
        fps: Frames per second of the result; 0 keeps those of each clip.
    """
    folder = _chosen(paths, retarget)
    if len({entry.skeleton for entry in clips}) < 2:
        return [(entry.key, entry.clip) for entry in clips], []
    inside = [entry for entry in clips if Path(os.path.realpath(entry.file)).is_relative_to(os.path.realpath(folder))]
    counts = Counter(entry.skeleton for entry in inside if isinstance(entry.clip.motion, Motion))
    if not counts:
        raise MotionkitError(f"{folder} has no clip with rotations to take the skeleton of.", fix="--retarget FOLDER")
    mark = counts.most_common(1)[0][0]
    target = _learned([entry.clip.motion for entry in clips if entry.skeleton == mark], fps, folder)
    kept: list[ReadClip] = []
    brought: dict[str, list[str]] = {}
    failed: dict[str, tuple[MotionkitError, list[str]]] = {}
    for entry in clips:
        if entry.skeleton == mark:
            kept.append(entry)
            continue
        try:
            motion = target.motion(entry.clip.motion.resample(fps or entry.clip.motion.fps))
        except MotionkitError as error:
            failed.setdefault(entry.skeleton, (error, []))[1].append(entry.key)
            continue
        kept.append(replace(entry, clip=replace(entry.clip, motion=motion, features=None)))
        brought.setdefault(entry.skeleton, []).append(entry.key)
    notes = [
        f"{_clips(keys)} of {skeleton.partition(' ')[0]} joints {_were(keys)} brought to the skeleton of {folder}, "
        f"which has {mark.partition(' ')[0]}."
        for skeleton, keys in brought.items()
    ]
    notes += [f"{_clips(keys)} {_were(keys)} left out: {error.message}" for error, keys in failed.values()]
    groups = _recordings(kept)
    splits, moved = _splits(kept, groups)
    if moved:
        notes.append(
            f"{_clips(moved)} {_were(moved)} moved to the later split (train, val, test) of a copy of the recording."
        )
    return [
        (entry.key, replace(entry.clip, split=splits[entry.key], group=groups[entry.key], splits=())) for entry in kept
    ], notes


def _chosen(paths: Sequence[Path], retarget: str) -> Path:
    if retarget == FIRST:
        return paths[0]
    for path in paths:
        if os.path.realpath(path) == os.path.realpath(retarget):
            return path
    raise MotionkitError(
        f"--retarget {retarget} is none of --data.",
        why=f"the skeleton is that of its clips; --data is {', '.join(map(str, paths))}.",
        fix=f"--retarget {paths[0]}, or --retarget {FIRST}.",
    )


def _learned(motions: Sequence[object], fps: float, folder: Path) -> Retarget:
    usable = [motion for motion in motions if isinstance(motion, Motion) and motion.frames]
    sample = usable[:: max(1, len(usable) // _LEARNT_FROM)]
    try:
        return Retarget.of([motion.resample(fps or motion.fps) for motion in sample])
    except MotionkitError as error:
        raise MotionkitError(
            f"no clips can be brought to the skeleton of {folder}: {error.message}", why=error.why,
            fix="--retarget another of --data.",
        ) from error  # fmt: skip


def _recordings(clips: Sequence[ReadClip]) -> dict[str, str]:
    """Return the recording of each clip, named after its first one: clips of one group or of one file name share it."""
    leader: dict[str, str] = {}

    def first(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    for entry in clips:
        for name in (f"file {entry.file.stem}", *([f"group {entry.clip.group}"] if entry.clip.group else [])):
            leader[first(f"clip {entry.key}")] = first(name)
    names: dict[str, str] = {}
    return {entry.key: names.setdefault(first(f"clip {entry.key}"), entry.clip.group or entry.key) for entry in clips}


def _splits(clips: Sequence[ReadClip], recordings: Mapping[str, str]) -> tuple[Mapping[str, str], list[str]]:
    """Return the split of each clip, empty if no copy has one, and the clips that had another one."""
    last: dict[str, str] = {}
    for entry in clips:
        if split := entry.clip.split:
            known = last.get(recordings[entry.key], split)
            last[recordings[entry.key]] = max(split, known, key=SPLITS.index)
    splits = {entry.key: last.get(recordings[entry.key], "") for entry in clips}
    return splits, [entry.key for entry in clips if entry.clip.split and entry.clip.split != splits[entry.key]]


def _were(keys: Sequence[str]) -> str:
    return "were" if len(keys) > 1 else "was"


def _clips(keys: Sequence[str]) -> str:
    return f"{len(keys)} clips ({keys[0]}, ...)" if len(keys) > 1 else f"clip {keys[0]}"
