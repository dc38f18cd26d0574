"""Write a HumanML3D or KIT dataset: features in parts, mirror images, tagged captions, splits, statistics."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.clips.convert.report import ConvertReport
from motionkit.clips.convert.targets import MAX_FRAMES, LongClips, Piece
from motionkit.errors import MotionkitError
from motionkit.kernels import physics_sums
from motionkit.motion import joints_to_features, mirror, mirror_text, with_frame_after
from motionkit.motion.clip import Clip, ClipSource
from motionkit.motion.corpus.captions import Caption, caption_lines, captions_within, clean_caption
from motionkit.motion.corpus.ids import SPLITS, complete_splits, plain_id
from motionkit.motion.corpus.tagger import tag_caption
from motionkit.motion.features.layout import feature_stats, read_features
from motionkit.motion.features.recover import features_to_joints
from motionkit.motion.skeleton import HUMANML, KIT, Skeleton
from motionkit.page.wording import count
from motionkit.rigs import kit_bones, to_body
from motionkit.runs import fingerprint, write_bytes_atomic
from motionkit.text import reads_sides

_HELD_OUT = 2
"""Fewest clips of the val split that `pretrain tmr` and `pretrain t2m-evaluator` take."""

MIN_FRAMES = {"humanml": 40, "kit": 24}
"""Shortest clip in feature frames that HumanML3D's loaders take."""


class _Part(NamedTuple):
    """Contents of the files of one id: features ``[T, D]`` and captions; `Piece.long` and `Piece.copied`."""

    key: str
    features: Tensor
    captions: tuple[Caption, ...]
    long: int = 0
    copied: int = 0


@dataclass(frozen=True)
class FeatureTarget:
    """A dataset folder in HumanML3D's layout.

    Each clip gets the format's target bone lengths, stands on the floor and starts at the origin, facing +Z; features
    are computed in float64. Clips read from features of the same body are written unchanged.
    """

    body: Literal["humanml", "kit"] = "humanml"  # ``humanml`` (22 joints, 20 fps) or ``kit`` (21 joints, 12.5 fps)
    # Also write each clip's mirror image as ``M<id>``, its captions mirrored (as HumanML3D does). Captions whose sides
    # cannot be read (`motionkit.text.reads_sides`) are left out of it.
    mirrored: bool = False
    long: LongClips = "cut"  # What becomes of clips longer than `MAX_FRAMES`

    for_training: ClassVar[bool] = True

    @property
    def skeleton(self) -> Skeleton:
        """The body of the features."""
        return HUMANML if self.body == "humanml" else KIT

    @property
    def rate(self) -> float:
        """Return the format's frames per second."""
        return self.skeleton.fps

    @property
    def shortest(self) -> str:
        """The shortest clip that is written, in words; the loaders of the layout leave out shorter ones."""
        frames = MIN_FRAMES[self.body]
        return f"{frames} frames ({frames / self.rate:.3g} s at {self.rate:g} fps)"

    def describe(self) -> dict[str, Any]:
        """Return body, mirroring and what becomes of long clips."""
        return {"to": self.body, "mirrored": self.mirrored, "long": self.long}

    def check_names(self, sources: Sequence[ClipSource]) -> None:
        """Raise MotionkitError if the id of a clip is that of another clip's mirror image."""
        keys = {source.key for source in sources} if self.mirrored else set()
        if both := sorted(key for key in keys if f"M{key}" in keys):
            raise MotionkitError(
                f"the mirror image of {both[0]} would be called M{both[0]}, which is another clip.",
                fix="rename one of them, or leave out --mirror.",
            )

    def finish(self, folder: Path, pieces: Sequence[Piece], report: ConvertReport) -> None:
        """Assign splits without leaks; write split lists and statistics."""
        groups, report.copies = put_together(pieces)
        splits = complete_splits({piece.key: piece.split for piece in pieces}, groups)
        splits_of: dict[str, set[str]] = {}
        for key, group in groups.items():
            splits_of.setdefault(group, set()).add(splits[key])
        if leaks := sorted(group for group, names in splits_of.items() if len(names) > 1):
            report.warnings.append(
                f"{count(len(leaks), 'group')} in several splits, so held-out figures will flatter: "
                f"{', '.join(leaks[:5])}"
            )
        report.uncaptioned = [piece.key for piece in pieces if not piece.captions]
        report.splits = {split: sum(value == split for value in splits.values()) for split in SPLITS}
        if not report.splits["train"]:
            report.warnings.append("the train split is empty: Mean and Std were taken over all clips.")
        elif report.splits["val"] < _HELD_OUT and any(piece.split for piece in pieces):  # as the table has them
            report.warnings.append(
                f"the val split has {count(report.splits['val'], 'clip')}, and models of text and motion measure on "
                f"{_HELD_OUT} or more: move clips into it by the column split, or leave that column out."
            )
        finish_folder(folder, splits, self.skeleton)

    def write(self, clip: Clip, key: str, folder: Path) -> Sequence[Piece]:
        """Write a clip's parts, then their mirror images; a part that is too short is returned without files.

        If one cannot be written, none is.
        """
        ready = self._ready(clip)
        # T feature rows take T + 1 frames: without the last frame the mirror image would be one row shorter.
        joints = (
            to_body(clip.motion, self.skeleton, self.skeleton.fps)
            if ready is None
            else with_frame_after(ready.double(), self.skeleton)
        )
        if len(joints) < 2:
            raise MotionkitError("the motion has a single frame.")
        parts = list(self._parts(key, joints, ready, self._captions(clip, mirrored=False)))
        if self.mirrored:
            turned = mirror(joints, self.skeleton)
            parts += self._parts(f"M{key}", turned, None, self._captions(clip, mirrored=True))
        pieces: list[Piece] = []
        try:
            for part in parts:
                pieces.append(self._put(part, clip, folder))
        except BaseException:
            for name in (name for piece in pieces for name in piece.files):
                (folder / name).unlink(missing_ok=True)
            raise
        return pieces

    def _ready(self, clip: Clip) -> Tensor | None:
        """Return the features that the clip was read from if they fit this body and frame rate, else None."""
        features = clip.features
        fits = features is not None and features.shape[-1] == self.skeleton.width
        return features if fits and clip.motion.fps == self.skeleton.fps else None

    def _parts(self, key: str, joints: Tensor, ready: Tensor | None, captions: Sequence[Caption]) -> Iterator[_Part]:
        """Cut into parts of at most `MAX_FRAMES` rows, or keep the first part; one without rows is left out."""
        frames = len(joints) - 1 if ready is None else len(ready)
        long = frames if frames > MAX_FRAMES else 0
        if long and self.long == "drop":
            yield _Part(key, torch.zeros(0, self.skeleton.width), (), long)
            return
        if long and self.long == "first":
            frames = MAX_FRAMES
        count = max(1, -(-frames // MAX_FRAMES))
        copied = sum(caption.whole for caption in captions) if count > 1 else 0
        bones = kit_bones() if self.skeleton is KIT else None
        for part in range(count):
            start, end = frames * part // count, frames * (part + 1) // count
            # A part keeps one frame more, for the velocities of its last row; stored features were computed with it.
            features = (
                joints_to_features(joints[start : end + 1].double(), self.skeleton, bones=bones).float()
                if ready is None
                else ready[start:end]
            )
            if not bool(torch.isfinite(features).all()):
                raise MotionkitError("its features are not finite.")
            texts = captions_within(captions, start / self.skeleton.fps, end / self.skeleton.fps)
            yield _Part(f"{key}_p{part}" if count > 1 else key, features, texts, long, copied)

    def _captions(self, clip: Clip, *, mirrored: bool) -> tuple[Caption, ...]:
        out = []
        for caption in (*clip.captions, *clip.timed):
            if mirrored and not reads_sides(caption.text):
                continue  # it may name a side, which the mirror image would not show
            text = clean_caption(mirror_text(caption.text) if mirrored else caption.text)
            if text:
                tokens = caption.tokens if caption.tokens and not mirrored else tag_caption(text)
                out.append(Caption(text, tokens, caption.start, caption.end))
        return tuple(out)

    def _put(self, part: _Part, clip: Clip, folder: Path) -> Piece:
        """Write one part, unless it is too short or left out."""
        key, features, captions, long, copied = part
        piece = Piece(key, len(features), (), clip.split, clip.group, len(captions), long=long, copied=copied)
        if len(features) < MIN_FRAMES[self.body]:
            return piece
        files, joints = write_features(folder, key, features, captions, self.skeleton)
        skate, jerk = physics_sums(
            joints[None], torch.tensor([len(joints)]), fps=self.skeleton.fps, feet=self.skeleton.feet
        )
        figures = {"skate": float(skate), "jerk": float(jerk)}
        motion = fingerprint(features.float())
        return replace(piece, files=files, figures=figures, motion=motion)


def put_together(pieces: Sequence[Piece]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the group of each piece, one for all copies of a motion; and each clip that is a copy, with its original.

    The first clip by its id is the original; copies have the same features to the last bit.

    Example:
        >>> pieces = [Piece(key, 60, group=key, clip=key, motion=mark) for key, mark in ("ax", "by", "cx")]
        >>> put_together(pieces)
        ({'a': 'a', 'b': 'b', 'c': 'a'}, {'c': 'a'})
    """
    ordered = sorted(pieces, key=lambda piece: piece.key)
    first: dict[str, Piece] = {}
    joined = {piece.group: piece.group for piece in pieces}
    copies: dict[str, str] = {}
    for piece in ordered:
        twin = first.setdefault(piece.motion, piece)
        if twin.clip != piece.clip:
            copies.setdefault(piece.clip, twin.clip)
        old, new = joined[piece.group], joined[twin.group]
        if old != new:
            joined.update({group: new for group, name in joined.items() if name == old})
    return {piece.key: joined[piece.group] for piece in pieces}, copies


def write_features(
    folder: Path, key: str, features: Tensor, captions: Sequence[Caption], skeleton: Skeleton
) -> tuple[tuple[str, ...], Tensor]:
    """Write ``new_joint_vecs``, ``new_joints`` and, if there are captions, ``texts`` of one clip.

    Args:
        folder: The dataset's folder; sub-folders are made.
        key: Clip id.
        features: ``[T, D]`` of the body.
        captions: Its captions.
        skeleton: The body.

    Returns:
        Paths written, relative to `folder`, and the joints ``[T, J, 3]`` as written: float32, in the format's own
        unit for `new_joints` (metres for 22 joints), in metres here.
    """
    if plain_id(key) != key:
        raise MotionkitError(f"{key!r} is not a name for files.")
    vectors = features.float().contiguous()
    joints = features_to_joints(vectors, skeleton)
    files = {
        f"new_joint_vecs/{key}.npy": _npy(vectors.numpy()),
        f"new_joints/{key}.npy": _npy((joints / skeleton.unit).numpy()),
    }
    if captions:
        files[f"texts/{key}.txt"] = caption_lines(captions).encode()
    if (folder / "new_joint_vecs" / f"{key}.npy").exists():
        raise MotionkitError("another clip has this id already.")
    try:
        for name, data in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            write_bytes_atomic(folder / name, data)
    except BaseException:
        for name in files:
            (folder / name).unlink(missing_ok=True)
        raise
    return tuple(files), joints


def finish_folder(folder: Path, splits: Mapping[str, str], skeleton: Skeleton) -> None:
    """Write split lists and ``Mean.npy``, ``Std.npy`` over train (over everything if train is empty)."""
    (folder / "texts").mkdir(exist_ok=True)
    names = sorted(splits)
    lists = {split: [name for name in names if splits[name] == split] for split in SPLITS}
    lists["train_val"] = [name for name in names if splits[name] != "test"]
    lists["all"] = names
    for name, keys in lists.items():
        write_bytes_atomic(folder / f"{name}.txt", "".join(f"{key}\n" for key in keys).encode())
    chosen = lists["train"] or names
    files = (folder / "new_joint_vecs" / f"{name}.npy" for name in chosen)
    mean, std = feature_stats((read_features(file, skeleton) for file in files), skeleton)
    write_bytes_atomic(folder / "Mean.npy", _npy(mean.numpy()))
    write_bytes_atomic(folder / "Std.npy", _npy(std.numpy()))


def _npy(array: NDArray[np.float32]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()
