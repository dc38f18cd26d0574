"""``motionkit predict``: a clip continued by a motion predictor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from motionkit.config import Cli, Settings
from motionkit.contracts.console import Command, Console
from motionkit.errors import MotionkitError
from motionkit.formats import FORMATS, kind_of, refuse_existing, refuse_foreign
from motionkit.formats.table import endings
from motionkit.page.wording import count
from motionkit.plugins import either
from motionkit_predictor.data.own import clips_of, retarget_of

if TYPE_CHECKING:
    from torch import Tensor

    from motionkit.motion import Motion
    from motionkit_predictor.data.clips import ClipSet, StateClip
    from motionkit_predictor.policy import Predictor

_OWN = "own"

_ENDINGS = endings("html", "bvh", "glb", "npz", "mp4", "gif")

_GLIDES = 0.25
"""Share of the seconds of a prediction from which gliding is warned of."""


class PredictSettings(Settings):
    """Settings of `motionkit predict`."""

    start: Annotated[str, Cli("--start")] = Field(
        "", description="Clip that is continued: a motion file, a folder, or starter; default: the run's data."
    )
    clip: Annotated[str, Cli("--clip")] = Field(
        "",
        description="Id of the clip, where --start holds several; default: one that goes as --path does, else the "
        "first of the validation split.",
    )
    at: Annotated[float | None, Cli("--at")] = Field(
        None,
        ge=0,
        description="Second of the clip at which the known frames begin; default: 0, or where the clip that was found "
        "for --path goes as it does.",
    )
    warmup: Annotated[int, Cli("--warmup")] = Field(25, ge=2, le=10_000, description="Known frames.")
    seconds: Annotated[float, Cli("--seconds")] = Field(3.0, gt=0, le=3600, description="Seconds to predict.")
    path: Annotated[str, Cli("--path")] = Field(
        "", description="Path to follow: CSV with seconds, x, z (and yaw), or own for the clip's; default: none."
    )
    fps: Annotated[float, Cli("--fps")] = Field(
        0.0, ge=0, le=1000, description="Frames per second of OUT; 0: those of the predictor."
    )
    fix: Annotated[Literal["none", "feet"], Cli("--fix")] = Field(
        "none", description="feet: feet that stand stay in their places, by inverse kinematics of the legs."
    )
    device: Annotated[str, Cli("--device")] = Field("auto", description="auto, cpu, mps, cuda, cuda:N or N.")
    overwrite: Annotated[bool, Cli("--overwrite")] = Field(False, description="Replace OUT.")


def predict(
    settings: PredictSettings,
    console: Console,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Run of train-mpl, or a predictor's folder.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help=f"A {either(_ENDINGS)}.")],
) -> Mapping[str, Any]:
    """Continue a clip with a motion predictor, freely or along a path.

    A page (.html) or a film (.mp4, .gif) shows the clip itself beside the prediction, if it is long enough, and
    the path as a dashed line. A path begins from a clip that goes as it does, of the validation split, else of the
    training split; --clip and --at name another start. How far the root was from the path is printed; above 0.3 m in
    the mean it is a warning, and so are feet that glide. --fix feet holds feet where they stand, in the known frames
    too, and prints how fast they slid before and after.

    Example: motionkit predict runs/train-mpl/first walk.html --start walk.bvh --at 1 --path path.csv
    """
    from motionkit.clips.convert.targets import writer_of
    from motionkit.clips.motion_clip import save_clips
    from motionkit.contracts.device import resolve_device
    from motionkit.motion import Caption, Clip
    from motionkit_predictor.continuation import continue_clip, glides
    from motionkit_predictor.evaluation.data import find_predictor, open_predictor
    from motionkit_predictor.evaluation.long.result import FAR_OFF
    from motionkit_predictor.states import read_path

    kind = kind_of(out)
    assert kind is not None, "the check refuses it"
    console.say("predict: loading torch, model and clip")
    found = find_predictor(
        model,
        measures="predict continues clips with motion predictors",
        fix="give a run of motionkit train-mpl, or a predictor's folder.",
    )
    predictor = open_predictor(found, None, device=resolve_device(settings.device))
    assert predictor is not None
    path = None
    if settings.path and settings.path != _OWN:
        path = read_path(Path(settings.path), predictor.fps, say=console.say)
    start, retarget = _start(settings, model)
    known = max(settings.warmup, predictor.past)
    clips, clip, first = _begin(settings, console, predictor, start, retarget, known, path)
    continued = continue_clip(
        predictor, clips, clip, start=first, known=known,
        frames=max(1, round(settings.seconds * predictor.fps)), path=path, own_path=settings.path == _OWN,
    )  # fmt: skip
    motions = [continued.predicted]
    if writer_of(kind).most > 1 and continued.truth is not None:
        motions.append(continued.truth)
    titles = (f"predicted after {continued.known:.2g} s", "the clip itself")
    fps = settings.fps or predictor.fps
    if fps != predictor.fps:
        motions = [motion.resample(fps) for motion in motions]
    feet, fixed_feet = None, ""
    if settings.fix == "feet":
        motions[0], feet, fixed_feet = _fixed(motions[0])
    shown = [Clip(motion, captions=(Caption(title),)) for motion, title in zip(motions, titles, strict=False)]
    save_clips(shown, out, overwrite=settings.overwrite)
    error = continued.path
    console.say(
        f"wrote {out}: {continued.known:.2g} s of {clip.key}, then {settings.seconds:g} s predicted, at {fps:g} fps"
        + ("" if settings.fps else ", the predictor's; --fps changes that")
    )
    if fixed_feet:
        console.say(fixed_feet)
    if error is not None:
        console.say(
            f"path: {error.mean:.2f} m from the timed point in the mean of {error.seconds:.3g} s, {error.end:.2f} "
            f"m at its end; it faces {error.heading:.0f} degrees off"
        )
        if error.mean > FAR_OFF:
            console.warn(
                f"the path was not followed: {error.mean:.2f} m off in the mean, above {FAR_OFF:g} m. It goes at "
                f"{error.wanted_speed:.1f} m/s in the mean, the root at {error.speed:.1f} m/s. Predictors follow "
                "paths like those of the clips they were trained on."
            )
    glide = glides(continued.predicted, known)
    if glide is not None and glide.seconds >= _GLIDES * glide.of:
        console.warn(
            f"the body glides in {glide.seconds} of {count(glide.of, 'second')}: its standing foot slides at "
            f"{glide.slide:.1f} m/s where the root goes {glide.speed:.1f} m/s. A start or a path that moves more like "
            "the training clips may help."
        )
    return {
        "model": model, "file": str(out), "clip": clip.key, "at": first / predictor.fps, "fps": fps, "known": known,
        "frames": continued.predicted.frames - known, "path": settings.path or None,
        "path_error": None if error is None else error._asdict(), "feet": feet,
        "glide": None if glide is None else glide._asdict(),
    }  # fmt: skip


def _fixed(motion: Motion) -> tuple[Motion, Mapping[str, Any] | None, str]:
    """Return a motion with fixed feet, the figures for the document, and a sentence."""
    from motionkit.rigs import fix_feet

    fixed = fix_feet(motion)
    if math.isnan(fixed.before):
        return motion, None, "feet: none stands, so none was fixed."
    words = (
        f"feet: while they stood they slid at {fixed.before:.2f} m/s, now at {fixed.after:.2f} m/s ({fixed.stands} "
        f"stands; a leg was too short in {fixed.short:.0%} of the time"
    )
    if fixed.left:
        words += f"; {fixed.left} left as they were, as they glide further than a leg reaches"
    done = {key: value for key, value in fixed._asdict().items() if key != "motion"}
    return fixed.motion, done, f"{words})"


def _start(settings: PredictSettings, model: str) -> tuple[tuple[str, ...], str]:
    """Return the files or folders of the start clip, and ``--retarget`` for them."""
    given = (settings.start,) if settings.start else ()
    return clips_of(model, given, flag="--start"), retarget_of(model, given)


def _begin(
    settings: PredictSettings,
    console: Console,
    predictor: Predictor,
    start: Sequence[str],
    retarget: str,
    known: int,  # known frames
    path: Tensor | None,  # a path of the user's; None without one
) -> tuple[ClipSet, StateClip, int]:
    """Return the set of clips, the clip that is continued and its first known frame.

    Along a path it is the start that goes as the path does, unless the user named another; where none does, or the one
    that was named does not, a warning says so.
    """
    from motionkit_predictor.data.files import open_clip_set
    from motionkit_predictor.path_start import SPLITS, find_start, first_way, start_at

    fps = predictor.fps
    splits = ("val",) if path is None else SPLITS
    clips = open_clip_set(start, fps, splits, retarget=retarget).in_order(predictor.names)
    if settings.clip and settings.clip not in [clip.key for clip in clips.clips]:
        keys = ", ".join(clip.key for clip in clips.clips[:5])
        raise MotionkitError(f"{', '.join(start)} has no clip {settings.clip}.", why=f"it has {keys}, ...")
    usual = next((clip for clip in clips.clips if clip.split == "val"), clips.clips[0])
    clip = next((clip for clip in clips.clips if clip.key == settings.clip), usual)
    first = round((settings.at or 0.0) * fps)
    if path is None:
        return clips, clip, first
    wanted = first_way(path, fps)
    nearest = find_start(clips, wanted, known)
    named = bool(settings.clip) or settings.at is not None or len(clips.clips) == 1
    if nearest is not None and not named:
        clip, first = nearest.clip, nearest.frame
        where = "" if clip.split == "val" else ", as no validation clip goes so"
        console.say(
            f"start: {clip.key} from {first / fps:.2f} s, of the {clip.split} split{where}: it {nearest.way.words()}, "
            f"the path {wanted.words()} at first; --clip and --at name another"
        )
    if first + known > clip.state.frames:
        return clips, clip, first  # which is refused
    way = start_at(clips, clip, first, known).way
    if not way.fits(wanted):
        advice = "no validation or training clip goes so."
        if len(clips.clips) == 1:
            advice = "another --start or --at may go so."
        elif nearest is not None and nearest.way.fits(wanted):
            advice = f"--clip {nearest.clip.key} --at {nearest.frame / fps:.2f} goes so."
        console.warn(f"the start {way.words()}, the path {wanted.words()} at first, so the body may glide: {advice}")
    return clips, clip, first


def _refuse(settings: PredictSettings, model: str, out: Path) -> None:
    """Refuse a file that cannot be written, before anything is read."""
    refuse_foreign(out)
    if (kind := kind_of(out)) is None:
        raise MotionkitError(f"{out} is not a motion file.", fix=f"end the name in {either(_ENDINGS)}.")
    FORMATS[kind].require({})
    refuse_existing(out, overwrite=settings.overwrite)


PREDICT = Command(
    predict,
    PredictSettings,
    check=_refuse,
    plan=lambda settings, model, out: {"start": _start(settings, model)[0]},
)
