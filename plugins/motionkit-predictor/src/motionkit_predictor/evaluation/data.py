"""The clips that a motion predictor is measured on, and opening the predictor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from motionkit.config import Chosen, choose_one
from motionkit.contracts.open_model import FoundModel, open_giving
from motionkit.errors import MotionkitError
from motionkit.motion.corpus.ids import Split
from motionkit.runs import TrainedOn
from motionkit_predictor.data.clips import ClipSet, Windows, cut_windows, leave_out
from motionkit_predictor.data.files import STARTER, open_clip_set
from motionkit_predictor.policy import Predictor


@dataclass(frozen=True)
class EvalData:
    """Clips in windows."""

    clips: ClipSet  # the clips of all splits
    windows: Windows  # windows to measure on
    train: Windows | None  # windows to fit baselines to; None if no clip is for training
    notes: tuple[str, ...]  # what a person should know, a sentence each


def open_eval_data(
    names: Sequence[str],  # files and folders, or the word ``starter`` alone
    split: Split,
    *,
    fps: float,  # frames per second to bring the clips to
    past: int,  # known frames of a window
    future: int,  # frames to predict
    stride: int,  # frames between windows to measure on
    train_stride: int,  # frames between windows that baselines are fitted to
    joints: Sequence[str] = (),  # joint names of the predictor, in its order
    trained: TrainedOn | None = None,  # what the predictor was trained on, which is left out of the split
    retarget: str = "",  # which of the names has the skeleton that the others are brought to; see `read_clip_set`
) -> EvalData:
    """Read clips and cut them into windows."""
    splits: tuple[Split, ...] = ("train", split) if split != "train" else ("train",)
    clips = open_clip_set(names, fps, splits, retarget=retarget).in_order(joints)
    sentence = ""
    if trained is not None:
        clips, kept = leave_out(clips, split, trained)
        kept.require(
            "clips",
            f"the {split} split of {clips.name}",
            "give --data with other clips, or the folder that the predictor was trained on: it has clips of its own "
            "to measure on.",
        )
        sentence = "" if STARTER in names and not kept.left_out else kept.sentence("clips")
    windows = cut_windows(clips.split(split), past=past, future=future, stride=stride)
    fitting = [clip for clip in clips.clips if clip.split == "train"]
    train = cut_windows(fitting, past=past, future=future, stride=train_stride) if fitting else None
    notes = [*([sentence] if sentence else []), *clips.notes, *windows.notes()]
    if train is None or not len(train.whole()):
        notes.append("no training clip is as long as a window: there is no ridge and no nearest row.")
    return EvalData(clips, windows, train, tuple(notes))


def find_predictor(
    path: str,
    *,
    measures: str = "eval mpl measures motion predictors",
    fix: str = "motionkit eval mpl without a model measures the baselines.",
) -> FoundModel:
    """Say which motion predictor a run, a checkpoint or a folder holds.

    Args:
        path: What the user named.
        measures: What the command does with predictors, for the message.
        fix: What to give instead, for the message.
    """
    return open_giving(path, "predictor", measures=measures, fix=fix)


def open_predictor(model: FoundModel | None, chosen: Chosen | None, *, device: torch.device | str) -> Predictor | None:
    """Open the predictor of `find_predictor` or of ``--policy``; None if neither was given."""
    if model is not None and chosen is not None:
        raise MotionkitError(f"MODEL ({model.path}) and --policy were both given.", fix="leave one of them out.")
    if model is not None:
        chosen = choose_one("policies", model.plugin, {"checkpoint": model.path})
    if chosen is None:
        return None
    predictor: Predictor = chosen.build(device=device, dataset=None)
    return predictor


def require_fit(predictor: Predictor, clips: ClipSet, past: int, *, flag: str = "--data") -> None:
    """Refuse a predictor of another skeleton, or one that reads more than the `past` known frames of a window."""
    if tuple(predictor.names) != clips.names:
        other = [name for name in clips.names if name not in predictor.names]
        among = f", among them {other[0]}, which it does not know" if other else ""
        raise MotionkitError(
            f"the predictor is for another skeleton than that of {clips.name}.",
            why=f"it knows {len(predictor.names)} joints; {clips.name} has {len(clips.names)}{among}.",
            fix=f"{flag} with clips of the skeleton that it was trained on.",
        )
    if predictor.past > past:
        raise MotionkitError(
            f"the predictor reads {predictor.past} frames, and {past} are known.", fix=f"--warmup {predictor.past}"
        )
