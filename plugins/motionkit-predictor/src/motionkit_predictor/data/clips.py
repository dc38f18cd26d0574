"""Clips as states for the motion predictor: sets with one skeleton, their fingerprints, and windows cut from them.

Fingerprints are compared when a run is resumed, and tell which clips an evaluation leaves out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from motionkit.clips.bodies import skeleton_mark
from motionkit.errors import MotionkitError
from motionkit.geometry import rotate_yaw, yaw_matrix
from motionkit.motion import Clip, JointMotion, Motion
from motionkit.motion.corpus.ids import Split, complete_splits
from motionkit.motion.motion import END
from motionkit.rigs import GAITS, body_yaw, find_feet, leg_length, soft_contacts, soft_gait
from motionkit.runs import Kept, TrainedOn, fingerprint
from motionkit_predictor.states import MotionState

_UNKNOWN = 0.5

_GRID = 1e4  # steps per metre, radian and unit: the last bits of computed values differ between machines


@dataclass(frozen=True)
class StateClip:
    """One clip."""

    key: str  # its id
    state: MotionState  # [T, ...] float64
    offsets: Tensor  # [J, 3] metres from the parent joint
    split: str  # ``train``, ``val`` or ``test``
    contacts_known: bool  # whether its foot contacts are real; they are 0.5 otherwise
    # [T, 4] in [0, 1] share of idle, walk, run and jump that its file gives each frame: rows sum to 1, or to 0 for a
    # frame without a label; None if there are no labels
    gait: Tensor | None = None
    label: str = ""  # its first caption in lower case; empty without one
    take: str = ""  # its group: the recording that it is a part of, named after its first clip; empty if it is alone


@dataclass(frozen=True)
class ClipSet:
    """Clips of one skeleton at one rate."""

    name: str  # what a person calls it
    names: tuple[str, ...]  # joint names, without end sites
    parents: tuple[int, ...]  # parent of each joint, -1 for the root
    fps: float  # frames per second
    clips: tuple[StateClip, ...]
    notes: tuple[str, ...] = ()  # what a person should know, a sentence each

    def in_order(self, names: Sequence[str]) -> ClipSet:
        """Return the set with its joints in the order of `names`; itself if these are other joints.

        Files of one body differ in the order: a BVH file goes through it limb by limb.
        """
        if sorted(names) != sorted(self.names) or tuple(names) == self.names:
            return self
        order = [self.names.index(name) for name in names]
        place = {joint: row for row, joint in enumerate(order)}
        clips = tuple(
            replace(
                clip,
                state=replace(clip.state, rotations=clip.state.rotations[..., order, :, :]),
                offsets=clip.offsets[order],
            )
            for clip in self.clips
        )
        parents = tuple(place.get(self.parents[joint], -1) for joint in order)
        return replace(self, names=tuple(names), parents=parents, clips=clips)

    def split(self, split: Split) -> tuple[StateClip, ...]:
        """Return the clips of a split."""
        if clips := tuple(clip for clip in self.clips if clip.split == split):
            return clips
        counts = Counter(clip.split for clip in self.clips)
        counted = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise MotionkitError(f"{self.name} has no {split} clip.", why=f"clips per split: {counted}.")

    def gait_of(self, clip: StateClip) -> Tensor:
        """Return the share of each gait in the frames of a clip, ``[T, 4]`` in the order of `motionkit.rigs.GAITS`.

        Frames without a label get the soft gait of contacts and speed, 0 if the skeleton has no known feet.
        """
        state = clip.state
        leg = leg_length(self.names, self.parents, clip.offsets)
        measured = state.steps.new_zeros(state.frames, len(GAITS))
        if leg > 0:
            contacts = state.contacts if clip.contacts_known else None
            measured = soft_gait(state.steps, contacts, self.fps, leg).to(measured)
        if clip.gait is None:
            return measured
        return torch.where(clip.gait.sum(-1, keepdim=True) > 0, clip.gait.to(measured), measured)


def motion_state(motion: Motion) -> tuple[MotionState, bool]:
    """Return the state of a motion, ``[T, ...]``, of its joints without end sites, and whether its contacts are known.

    The heading is where hips and shoulders face (`motionkit.rigs.body_yaw`). The step to the first frame, which is not
    known, is that to the second. Contacts are the motion's own track, else made from height and speed of its feet.
    """
    joints = _joints(motion)
    positions = motion.positions()
    yaw = body_yaw(motion, positions)
    assert yaw is not None, "a motion with rotations has a heading"
    rotations = motion.rotations[:, joints].clone()
    rotations[:, 0] = yaw_matrix(-yaw) @ rotations[:, 0]
    moved = rotate_yaw(positions[:, 0].diff(dim=0), -yaw[:-1])
    steps = torch.cat([moved[:, ::2], yaw.diff()[:, None]], dim=-1)
    steps = torch.cat([steps[:1] if len(steps) else steps.new_zeros(1, 3), steps])
    contacts = motion.tracks.get("contacts")
    if contacts is None and (feet := find_feet(motion.names, motion.parents)) is not None:
        contacts = soft_contacts(positions, motion.fps, feet)
    known = contacts is not None
    if contacts is None:
        contacts = steps.new_full((len(steps), 2), _UNKNOWN)
    return MotionState(rotations, steps, positions[:, 0, 1], contacts.double()), known


def _gait(motion: Motion) -> Tensor | None:
    """Return the gait ``[T, 4]`` of a motion's ``action`` track; None if it has none or names other actions."""
    action = motion.tracks.get("action")
    if action is None or action.ndim != 2 or action.shape[1] != len(GAITS) or not bool(action.any()):
        return None
    action = action.double().clamp_min(0.0)
    return action / action.sum(-1, keepdim=True).clamp_min(1.0)  # several bits of one frame share it


def common_fps(name: str, motions: Iterable[tuple[str, Motion | JointMotion]]) -> float:
    """Return the frames per second that all motions have."""
    rates: dict[float, list[str]] = {}
    for key, motion in motions:
        near = next((rate for rate in rates if math.isclose(rate, motion.fps, rel_tol=1e-4)), motion.fps)
        rates.setdefault(near, []).append(key)
    if len(rates) != 1:
        counted = "; ".join(f"{rate:g} fps: {len(keys)} clips ({keys[0]}, ...)" for rate, keys in sorted(rates.items()))
        raise MotionkitError(
            f"{name} has clips at {len(rates)} frame rates, and --fps 0 keeps the clips' own."
            if rates
            else f"{name} has no clip.",
            why=f"{counted}." if rates else "",
            fix="--fps 30 brings them to one." if rates else "",
        )
    return next(iter(rates))


def clip_set(name: str, clips: Iterable[tuple[str, Clip]], fps: float, *, notes: Iterable[str] = ()) -> ClipSet:
    """Make a set of clips with rotations, given with their ids, at one rate; `fps` 0 keeps the rate of the clips.

    Clips without a split get that of their group, or one by a hash of it, as `convert` gives them.
    """
    states: list[StateClip] = []
    pairs = list(clips)
    fps = fps or common_fps(name, [(key, clip.motion) for key, clip in pairs])
    groups = {key: clip.group or key for key, clip in pairs}
    given = {key: clip.split for key, clip in pairs}
    splits = complete_splits(given, groups)
    skeletons: dict[str, list[str]] = {}
    first: Motion | None = None
    for key, clip in pairs:
        motion = _with_rotations(key, clip)
        skeletons.setdefault(skeleton_mark(motion.names, motion.parents), []).append(key)
        if len(skeletons) == 1:
            first = motion if first is None else first
            motion = motion.resample(fps)
            state, known = motion_state(motion)
            label = clip.captions[0].text.strip(" .").lower() if clip.captions else ""
            offsets = motion.offsets[_joints(motion)]
            states.append(StateClip(key, state, offsets, splits[key], known, _gait(motion), label, groups[key]))
    if first is None:
        raise MotionkitError(f"{name} has no clip.")
    _refuse_mixed(name, skeletons)
    sentences = [*notes]
    if unknown := sum(not clip.contacts_known for clip in states):
        sentences.append(
            f"{unknown} of {len(states)} clips have no foot contacts: they do not count for figures of the feet."
        )
    if not any(given.values()):
        sentences.append("no clip says its split: they were drawn by the clips' ids.")
    joints = _joints(first)
    place = {joint: index for index, joint in enumerate(joints)}
    parents = tuple(place.get(first.parents[joint], -1) for joint in joints)
    return ClipSet(name, tuple(first.names[j] for j in joints), parents, fps, tuple(states), tuple(sentences))


def _joints(motion: Motion) -> list[int]:
    return [joint for joint, name in enumerate(motion.names) if joint == 0 or not name.endswith(END)]


def _with_rotations(key: str, clip: Clip) -> Motion:
    motion = clip.motion
    if not isinstance(motion, Motion):
        raise MotionkitError(
            f"{key} has joint positions only.",
            why="a motion predictor predicts rotations.",
            fix="motionkit convert FILES OUT --to mpl finds rotations; give OUT.",
        )
    if not motion.frames or not bool(motion.rotations.isfinite().all() and motion.translations.isfinite().all()):
        raise MotionkitError(
            f"{key} has no frames, or values that are not finite.", fix="motionkit convert --fix repairs or drops them."
        )
    return motion


def _refuse_mixed(name: str, skeletons: dict[str, list[str]]) -> None:
    if len(skeletons) < 2:
        return
    most = sorted(skeletons.items(), key=lambda item: -len(item[1]))
    counted = "; ".join(f"{mark.partition(' ')[0]} joints: {len(keys)} clips ({keys[0]}, ...)" for mark, keys in most)
    raise MotionkitError(
        f"{name} holds {len(skeletons)} skeletons, and a predictor is made for one.",
        why=f"{counted}.",
        fix="--retarget first brings them to one if a model is trained; or motionkit convert FILES OUT --to mpl, "
        "which makes a folder for each: give one of them.",
    )


def clip_fingerprint(clip: StateClip) -> str:
    """Return the fingerprint of a motion, to a tenth of a millimetre; key and body do not count."""
    return fingerprint(*(_rounded(part) for part in (clip.state.rotations, clip.state.steps, clip.state.heights)))


def set_fingerprint(clips: ClipSet) -> str:
    """Return the fingerprint of a set in its order: body, rate, motions, their splits, contacts and gaits."""
    parts: list[str | Tensor] = [" ".join(clips.names), f"{clips.parents} {clips.fps}"]
    for clip in clips.clips:
        parts += [clip.split, clip_fingerprint(clip), _rounded(clip.offsets), _rounded(clip.state.contacts)]
        parts += [f"contacts {clip.contacts_known}"] if clip.gait is None else [_rounded(clip.gait)]
    return fingerprint(*parts)


def leave_out(clips: ClipSet, split: Split, trained: TrainedOn) -> tuple[ClipSet, Kept]:
    """Return a set without those clips of a split that a model was trained on, and what was left out."""
    candidates = [place for place, clip in enumerate(clips.clips) if clip.split == split]
    kept = trained.leave_out([clip_fingerprint(clips.clips[place]) if trained.items else "" for place in candidates])
    left_out = {*candidates} - {candidates[place] for place in kept.places}
    return replace(clips, clips=tuple(clip for place, clip in enumerate(clips.clips) if place not in left_out)), kept


def _rounded(values: Tensor) -> Tensor:
    return (values * _GRID).round() + 0.0  # -0.0 becomes 0.0


@dataclass(frozen=True)
class Windows:
    """Windows of ``past`` known frames and ``future`` frames after them, gathered from the clips when asked for.

    A clip shorter than a window gives one window, padded with its first and its last frame; the frames after its end
    do not count (`valid`).
    """

    frames: MotionState  # all clips one after the other, those of short clips filled up: [sum T, ...]
    keys: tuple[str, ...]  # id of each of the C clips
    offsets: Tensor  # [C, J, 3] of each clip
    contacts_known: Tensor  # [C] bool
    starts: Tensor  # [N] int64, first frame of each window
    clip: Tensor  # [N] int64, clip of each window
    valid: Tensor  # [N] int64, frames of the future that are real
    past: int  # known frames P
    future: int  # frames F to predict
    spans: Tensor  # [C, 2] int64, the first real frame of each clip and the one after its last
    short: tuple[str, ...]  # ids of the clips that were filled up
    left_out: tuple[str, ...]  # ids of the clips of a single frame, which give no window
    takes: Tensor  # [C] int64 number of each clip's take, from 0: clips of one recording are not independent

    def __len__(self) -> int:
        return len(self.starts)

    def notes(self, kind: str = "clips") -> list[str]:
        """Return a sentence about clips that were filled up, and one about those left out."""
        notes = []
        if self.short:
            notes.append(
                f"{len(self.short)} of {len(self.offsets)} {kind} are shorter than a window ({self.past} + "
                f"{self.future} frames) and were filled up: {', '.join(self.short[:3])}; what is filled up does not "
                "count."
            )
        if self.left_out:
            notes.append(f"{len(self.left_out)} clips of a single frame were left out: {', '.join(self.left_out[:3])}.")
        return notes

    def known(self, index: Tensor, *, shift: int = 0) -> MotionState:
        """Return the known frames of windows `index`, ``[N, P, ...]``; with `shift`, of windows so much later."""
        return self._gather(index, shift, self.past)

    def last_ways(self, frames: int) -> Tensor:
        """Return the mean step of the last `frames` of each clip, ``[C, 3]``."""
        spans = [(max(first, end - frames), end) for first, end in self.spans.tolist()]
        return torch.stack([self.frames.steps[first:end].mean(0) for first, end in spans])

    def onward(self, index: Tensor, frames: int, ways: Tensor) -> tuple[MotionState, Tensor]:
        """Return what follows the known frames of windows, beyond the window too, and how much of it is real.

        After the end of a clip its last pose is repeated and its root goes on by `ways` (``[C, 3]`` a step), so that a
        path read beyond the end leads on. Returns F' `frames`, ``[N, F', ...]``, and ``[N]``, how many are real: at
        least 1.
        """
        rows = self.starts[index, None] + self.past + torch.arange(frames)
        end = self.spans[self.clip[index], 1]
        state = self.frames.map(lambda values: values[rows.minimum(end[:, None] - 1)])
        steps = torch.where((rows < end[:, None])[..., None], state.steps, ways[self.clip[index], None])
        real = (end - self.starts[index] - self.past).clamp(1, frames)
        return MotionState(state.rotations, steps, state.heights, state.contacts), real

    def last(self, index: Tensor) -> MotionState:
        """Return the last known frame of windows `index`, ``[N, 1, ...]``."""
        return self._gather(index, self.past - 1, 1)

    def following(self, index: Tensor, *, shift: int = 0) -> MotionState:
        """Return the frames that follow, ``[N, F - shift, ...]``; with `shift`, without so many of the first."""
        return self._gather(index, self.past + shift, self.future - shift)

    def whole(self) -> Tensor:
        """Return the indices of the windows whose future is real to its end."""
        return (self.valid == self.future).nonzero()[:, 0]

    def _gather(self, index: Tensor, first: int, count: int) -> MotionState:
        rows = self.starts[index, None] + first + torch.arange(count)
        return self.frames.map(lambda values: values[rows])


def cut_windows(
    clips: Sequence[StateClip],  # clips of one skeleton and rate
    *,
    past: int,  # known frames P, at least 2
    future: int,  # frames F to predict
    stride: int,  # frames between the beginnings of two windows of a clip
) -> Windows:
    """Cut clips into windows."""
    states: list[MotionState] = []
    starts, owners, valid = [], [], []
    short, left_out = [], []
    spans: list[tuple[int, int]] = []
    used: list[StateClip] = []
    begin = 0
    for clip in clips:
        state, real = clip.state, clip.state.frames
        if real < 2:
            left_out.append(clip.key)
            continue
        missing, before = past + future - real, 0
        if missing > 0:
            short.append(clip.key)
            before = max(0, past - real + 1)
            state = _filled(state, before=before, total=past + future)
        first = torch.arange(0, state.frames - past - future + 1, stride)
        starts.append(begin + first)
        owners.append(torch.full_like(first, len(used)))
        valid.append(torch.full_like(first, future if missing <= 0 else max(1, real - past)))
        spans.append((begin + before, begin + before + real))
        states.append(state)
        used.append(clip)
        begin += state.frames
    if not used:
        raise MotionkitError("no clip has two frames or more.", fix="give longer clips.")
    names = {name: number for number, name in enumerate(dict.fromkeys(clip.take or clip.key for clip in used))}
    return Windows(
        MotionState.joined(states), tuple(clip.key for clip in used), torch.stack([clip.offsets for clip in used]),
        torch.tensor([clip.contacts_known for clip in used]), torch.cat(starts), torch.cat(owners), torch.cat(valid),
        past, future, torch.tensor(spans), tuple(short), tuple(left_out),
        torch.tensor([names[clip.take or clip.key] for clip in used]),
    )  # fmt: skip


def _filled(state: MotionState, *, before: int, total: int) -> MotionState:
    """Pad with the first and the last frame, at rest."""

    def still(frame: MotionState, count: int) -> MotionState:
        frames = frame.map(lambda values: values.expand(count, *values.shape[1:]))
        return MotionState(frames.rotations, torch.zeros_like(frames.steps), frames.heights, frames.contacts)

    after = total - before - state.frames
    return still(state.part(0, 1), before).then(state).then(still(state.part(state.frames - 1), after))
