"""Fingerprints of clips and prompts, which tell what a model was trained on, so that evaluations leave it out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from motionkit.contracts.dataset import TextClip, TextMotionDataset, is_generated
from motionkit.motion.corpus.ids import Split
from motionkit.runs import Kept, TrainedOn, fingerprint
from motionkit.text import Prompt


def count_takes(clips: Iterable[TextClip]) -> int:
    """Return the number of takes that clips are of: a clip, its mirror image ``M...`` and its parts ``..._p0`` are one.

    Clips of one take are not independent: a figure over them is one of so many items.
    """
    keys = [re.sub(r"_p\d+$", "", clip.key) or clip.key for clip in clips]
    present = set(keys)
    return len({key[1:] if key.startswith("M") and key[1:] in present else key for key in keys})


def clip_fingerprint(clip: TextClip) -> str:
    """Return the fingerprint of a motion, independent of its key and captions."""
    return fingerprint(clip.features)


def prompt_fingerprint(prompt: Prompt) -> str:
    """Return the fingerprint of a prompt and its source motions, independent of its key."""
    return fingerprint(*prompt.segments, *map(str, prompt.frames), "from", *prompt.source_ids)


def clips_fingerprint(clips: Iterable[TextClip]) -> str:
    """Return the fingerprint of clips in order: motions, captions and their stored tokens."""
    return fingerprint(
        *(part for clip in clips for part in (clip_fingerprint(clip), *clip.captions, *map(str, clip.tokens)))
    )


def trained_items(dataset: TextMotionDataset, split: Split, prompts: Iterable[Prompt]) -> TrainedOn:
    """Return what prompts of a split train a policy on: the motions behind them, or composite prompts."""
    if is_generated(dataset):
        return TrainedOn()
    if dataset.splits is not None:
        return TrainedOn.of(map(prompt_fingerprint, prompts))
    return TrainedOn.of(map(clip_fingerprint, dataset.clips(split)))


def leave_out_clips(trained: TrainedOn, dataset: TextMotionDataset, clips: Sequence[TextClip]) -> Kept:
    """Return which clips of a dataset a model was not trained on."""
    if is_generated(dataset):
        return TrainedOn().leave_out([""] * len(clips))
    return trained.leave_out([clip_fingerprint(clip) for clip in clips] if trained.items else [""] * len(clips))


def leave_out_prompts(trained: TrainedOn, dataset: TextMotionDataset, split: Split, prompts: Sequence[Prompt]) -> Kept:
    """Return which prompts of a split a model was not trained on, nor on a motion behind them.

    The motions behind composite prompts are known only with their dataset (``source``).
    """
    if is_generated(dataset) or not trained.items:
        return (TrainedOn() if is_generated(dataset) else trained).leave_out([""] * len(prompts))
    singles = dataset if dataset.splits is None else dataset.source
    seen: dict[str, str] = {}
    for clip in singles.clips(split) if singles is not None else ():
        if (mark := clip_fingerprint(clip)) in trained.items:
            seen[clip.source or clip.key] = mark
    return trained.leave_out(
        [
            next((seen[name] for name in prompt.source_ids if name in seen), prompt_fingerprint(prompt))
            for prompt in prompts
        ]
    )
