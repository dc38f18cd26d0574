"""Write a HumanML3D or KIT dataset: features in parts, mirror images, tagged captions, splits, statistics."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.clips.convert.report import ConvertReport
from motionkit.clips.convert.targets import Piece
from motionkit.errors import MotionkitError
from motionkit.kernels import physics_sums
from motionkit.motion import joints_to_features, mirror, mirror_text, with_frame_after
from motionkit.motion.clip import Clip, ClipSource
from motionkit.motion.corpus.captions import Caption, caption_lines, captions_within, clean_caption
from motionkit.motion.corpus.ids import SPLITS, complete_splits, original, plain_id
from motionkit.motion.corpus.tagger import tag_caption
from motionkit.motion.features.layout import feature_stats, read_features
from motionkit.motion.features.recover import features_to_joints
from motionkit.motion.skeleton import HUMANML, KIT, Skeleton
from motionkit.rigs import kit_bones, to_body
from motionkit.runs import write_bytes_atomic
from motionkit.text import reads_sides

# The files of a folder in HumanML3D's layout, for any of its bodies.


def write_clip(
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


MIN_FRAMES = {"humanml": 40, "kit": 24}
"""Shortest clip in feature frames that HumanML3D's loaders take."""

MAX_FRAMES = 199
"""Longest; longer clips are cut into parts."""


class _Part(NamedTuple):
    """Contents of the files of one id: features ``[T, D]`` and captions."""

    key: str
    features: Tensor
    captions: tuple[Caption, ...]


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

    for_training: ClassVar[bool] = True

    @property
    def skeleton(self) -> Skeleton:
        """The body of the features."""
        return HUMANML if self.body == "humanml" else KIT

    @property
    def rate(self) -> float:
        """Return the format's frames per second."""
        return self.skeleton.fps

    def describe(self) -> dict[str, Any]:
        """Return body and mirroring."""
        return {"to": self.body, "mirrored": self.mirrored}

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
        groups = {piece.key: piece.group for piece in pieces}
        splits = complete_splits({piece.key: piece.split for piece in pieces}, groups)
        splits_of: dict[str, set[str]] = {}
        for key, group in groups.items():
            splits_of.setdefault(group, set()).add(splits[key])
        if leaks := sorted(group for group, names in splits_of.items() if len(names) > 1):
            report.warnings.append(
                f"{len(leaks)} group(s) are in several splits, so held-out figures will flatter: {', '.join(leaks[:5])}"
            )
        report.uncaptioned = [piece.key for piece in pieces if not piece.captions]
        report.splits = {split: sum(value == split for value in splits.values()) for split in SPLITS}
        if not report.splits["train"]:
            report.warnings.append("the train split is empty: Mean and Std were taken over all clips.")
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
        """Cut into parts of at most `MAX_FRAMES` rows."""
        frames = len(joints) - 1 if ready is None else len(ready)
        count = max(1, -(-frames // MAX_FRAMES))
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
            yield _Part(f"{key}_p{part}" if count > 1 else key, features, texts)

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
        """Write one part, unless it is too short."""
        key, features, captions = part
        if len(features) < MIN_FRAMES[self.body]:
            return Piece(key, len(features), split=clip.split, group=clip.group, captions=len(captions))
        files, joints = write_clip(folder, key, features, captions, self.skeleton)
        skate, jerk = physics_sums(
            joints[None], torch.tensor([len(joints)]), fps=self.skeleton.fps, feet=self.skeleton.feet
        )
        figures = {"skate": float(skate), "jerk": float(jerk)}
        return Piece(key, len(joints), files, clip.split, clip.group, len(captions), figures)


# Console messages and tables of a report.


Message = tuple[Literal["info", "warning"], str]

_FIT_MEAN, _FIT_MOST = 15.0, 60.0
"""Millimetres between joints and the fitted skeleton's, mean and largest, up to which no message is shown."""

_FIGURES = {
    "skate": "median foot skate, m/s",
    "jerk": "median jerk, m/s^3",
    "residual_mean": "joints to rotations: median of mean residuals, mm",
    "residual_max": "joints to rotations: largest residual, mm",
    "flips": "joints to rotations: flips",
}


_EDITED = ("loop_start", "loop_stop", "seam", "seam_max", "seam_cut", "seam_inside", "moved_mean", "moved_max",
           "skate_before", "skate_after", "jerk_before", "jerk_after",
           "rig_hands", "rig_feet", "rig_head", "rig_scale", "rig_contacts")  # fmt: skip
"""Figures of edits, which have rows of their own."""


def check_messages(report: ConvertReport) -> list[Message]:
    """Return the messages of a check: what was not read, and warnings."""
    return [("warning", f"not used: {reason}") for reason in report.reasons()] + _grouped(report, report.warnings)


def messages(report: ConvertReport, *, fixed: bool) -> list[Message]:
    """Return the messages of a conversion: clips left out, cut or changed, and warnings.

    Args:
        report: Its result.
        fixed: Whether clips are cut to their longest clean run (``--fix``).
    """
    rows = check_messages(report)
    rows += _grouped(
        report,
        [
            f"{clip['clip']}: {finding['detail']}"
            for clip in report.clips
            for finding in clip["findings"]
            if finding["severity"] == "error" and finding["kind"] != "rest-pose" and clip["clip"] not in report.fixed
        ],
    )
    if report.short:
        some = listed([f"{key} ({frames})" for key, frames in report.short.items()])
        rows.append(("warning", f"{_counted(report, report.short)} are too short and were left out: {some}"))
    if fixed:
        frames = {clip["clip"]: clip["frames"] for clip in report.clips}
        cuts = listed([f"{key} ({a}-{b - 1} of {frames[key]})" for key, (a, b) in report.fixed.items()])
        rows.append(
            ("info", f"{len(report.fixed)} clip(s) were cut to their longest clean run: {cuts or 'none had to be'}")
        )
    if report.cut:
        some = listed(list(report.cut))
        rows.append(("info", f"{len(report.cut)} clip(s) were longer than {MAX_FRAMES} frames and were cut: {some}"))
    if report.resumed:
        rows.append(("info", f"{report.resumed} clip(s) were done before the last run was interrupted."))
    if report.uncaptioned:
        text = f"{_counted(report, report.uncaptioned)} have no caption; training on text needs one (--captions CSV)."
        rows.append(("warning", text))
    if report.motionless:
        rows.append(("warning", f"{len(report.motionless)} caption row(s) have no clip: {listed(report.motionless)}"))
    return rows


def summary_line(report: ConvertReport, *, always: bool = False) -> str:
    """Return a line on a single clip: its length, and the fit of solved rotations as `fit_text` returns it."""
    return ", ".join(filter(None, (f"{report.frames} frames", fit_text(report, always=always))))


def fit_text(report: ConvertReport, *, always: bool = False) -> str:
    """Return a text on the residuals of solved rotations; empty if they are small, unless `always`."""
    if "residual_max" not in report.figures:
        return ""
    mean, most = (1000 * report.figures[name] for name in ("residual_mean", "residual_max"))
    flips = report.figures["flips"]
    if mean <= _FIT_MEAN and most <= _FIT_MOST and not flips and not always:
        return ""
    return f"skeleton fit: {mean:.0f} mm mean, {most:.0f} mm max{f', {flips:.0f} flips' if flips else ''}"


def edit_rows(figures: Mapping[str, float]) -> list[tuple[str, object]]:
    """Return rows on changes: repairs before and after, and the seam of a loop; lengths in millimetres.

    Args:
        figures: Of `motionkit.clips.edits.edited`, or medians of such.
    """
    rows: list[tuple[str, object]] = []
    for name, label, places in (("skate", "foot skate, m/s", 3), ("jerk", "jerk, m/s^3", 0)):
        if f"{name}_before" in figures:
            before, after = (f"{figures[f'{name}_{when}']:.{places}f}" for when in ("before", "after"))
            rows.append((label, f"{before} before, {after} after"))
    if "moved_mean" in figures:
        mean, most = (1000 * figures[name] for name in ("moved_mean", "moved_max"))
        rows.append(("joints moved, mm", f"{mean:.1f} mean, {most:.0f} at most"))
    if "seam" in figures:
        seam, most, cut, inside = (1000 * figures[name] for name in ("seam", "seam_max", "seam_cut", "seam_inside"))
        rows.append(("joints at the seam, mm", f"{seam:.1f} apart (one {most:.0f}); {cut:.1f} without blending"))
        rows.append(("from frame to frame, mm", f"{inside:.1f} in the same measure"))
    if "rig_scale" in figures:
        hands, feet, head = (1000 * figures[f"rig_{end}"] for end in ("hands", "feet", "head"))
        rows.append(("on the rig: off by, mm", f"hands {hands:.0f}, feet {feet:.1f}, head {head:.0f}"))
        rows.append(("on the rig: legs", f"{figures['rig_scale']:.2f} times as long"))
    if "rig_contacts" in figures:
        rows.append(("on the rig: contacts kept", f"{100 * figures['rig_contacts']:.1f} %"))
    return rows


def summary_rows(report: ConvertReport) -> list[tuple[str, object]]:
    """Return the rows of a table of a conversion's numbers; residuals in millimetres."""
    plain = {name: value for name, value in report.figures.items() if name not in _EDITED}
    return [
        ("clips", len(report.written)),
        *report.splits.items(),
        ("frames", report.frames),
        ("left out", len(report.short) + len(report.failed)),
        *(
            (_FIGURES.get(name, name), 1000 * value if name.startswith("residual") else value)
            for name, value in plain.items()
        ),
        *edit_rows(report.figures),
        ("seconds", round(report.seconds, 1)),
        ("CPU-seconds", round(report.cpu_seconds, 1)),
    ]


def _grouped(report: ConvertReport, warnings: Sequence[str]) -> list[Message]:
    """Return warnings; equal warnings of several clips are merged into one with their ids."""
    clips = {clip["clip"] for clip in report.clips}
    groups: dict[str, list[str]] = {}
    for warning in warnings:
        key, _, text = warning.partition(": ")
        key, text = (key, text) if key in clips else ("", warning)
        groups.setdefault(text, []).append(key)
    return [
        (
            "warning",
            f"{len(keys)} clips ({listed(keys)}): {text}" if len(keys) > 1 else ": ".join(filter(None, (*keys, text))),
        )
        for text, keys in groups.items()
    ]


def _counted(report: ConvertReport, keys: Collection[str]) -> str:
    """Return the numbers of clips, mirror images and parts of long clips among ids, in words."""
    clips = {clip["clip"] for clip in report.clips}
    whole_clips = sum(key in clips for key in keys)
    images = sum(key not in clips and original(key, clips) in clips for key in keys)
    counts = ((whole_clips, "clip(s)"), (images, "mirror image(s)"), (len(keys) - whole_clips - images, "part(s)"))
    return " and ".join(f"{count} {name}" for count, name in counts if count)


def listed(names: Sequence[object], most: int = 10) -> str:
    """Return names joined by commas, with an ellipsis if not all are shown."""
    return ", ".join(map(str, [*names[:most], *(["..."] if len(names) > most else [])]))


def finding_text(report: ConvertReport) -> str:
    """Return the findings of all clips: a block for each clip that has some, then the clips without any."""
    faulty = [clip for clip in report.clips if clip["findings"]]
    clean = [clip["clip"] for clip in report.clips if not clip["findings"]]
    blocks = []
    for clip in faulty:
        about = f"{clip['frames']} frames, {clip['fps']:g} fps"
        blocks.append(f"{clip['clip']}: {', '.join(filter(None, (about, clip.get('format'))))}")
        blocks += [f"  {finding['severity']}, {finding['kind']}: {finding['detail']}" for finding in clip["findings"]]
    if clean:
        blocks.append(f"nothing found in {len(clean)} of {len(report.clips)} clip(s): {listed(clean)}")
    return "\n".join(blocks)
