"""Fingerprints of what text-motion datasets hold: compared on resume, and left out of evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from motionkit.datasets.base import Split, TextClip, TextMotionDataset
from motionkit.runs import Kept, TrainedOn, fingerprint
from motionkit.text import Prompt


def is_generated(dataset: object) -> bool:
    """Whether a dataset reads nothing: it has ``inputs``, and they are empty. Its splits share nothing by design."""
    inputs = getattr(dataset, "inputs", None)
    return isinstance(inputs, Mapping) and not inputs


def clip_fingerprint(clip: TextClip) -> str:
    """Return the fingerprint of a motion, whatever its key and captions."""
    return fingerprint(clip.features)


def prompt_fingerprint(prompt: Prompt) -> str:
    """Return the fingerprint of a prompt with the motions that it comes from, whatever its key."""
    return fingerprint(*prompt.segments, *map(str, prompt.frames), "from", *prompt.source_ids)


def clips_fingerprint(clips: Iterable[TextClip]) -> str:
    """Return the fingerprint of clips in this order: motions, captions and their stored tokens."""
    return fingerprint(
        *(
            part
            for clip in clips
            for part in (clip_fingerprint(clip), *clip.captions, *map(str, getattr(clip, "tokens", ())))
        )
    )


def trained_items(dataset: TextMotionDataset, split: Split, prompts: Iterable[Prompt]) -> TrainedOn:
    """Return what a policy is trained on by prompts of a split: the motions behind them, or composite prompts."""
    if is_generated(dataset):
        return TrainedOn()
    if _is_composite(dataset):
        return TrainedOn.of(map(prompt_fingerprint, prompts))
    return TrainedOn.of(map(clip_fingerprint, dataset.clips(split)))


def leave_out_clips(trained: TrainedOn, dataset: TextMotionDataset, clips: Sequence[TextClip]) -> Kept:
    """Return which clips of a dataset a model was not trained on."""
    if is_generated(dataset):
        return TrainedOn().leave_out([""] * len(clips))
    return trained.leave_out([clip_fingerprint(clip) for clip in clips] if trained.items else [""] * len(clips))


def leave_out_prompts(trained: TrainedOn, dataset: TextMotionDataset, split: Split, prompts: Sequence[Prompt]) -> Kept:
    """Return which prompts of a split a model was not trained on: neither on themselves nor on a motion behind them.

    The motions behind composite prompts are known where their dataset is (``source``).
    """
    if is_generated(dataset) or not trained.items:
        return (TrainedOn() if is_generated(dataset) else trained).leave_out([""] * len(prompts))
    singles: TextMotionDataset | None = getattr(dataset, "source", None) if _is_composite(dataset) else dataset
    seen: dict[str, str] = {}
    for clip in singles.clips(split) if singles is not None else ():
        if (mark := clip_fingerprint(clip)) in trained.items:
            seen[getattr(clip, "source", "") or clip.key] = mark
    return trained.leave_out(
        [next((seen[name] for name in one.source_ids if name in seen), prompt_fingerprint(one)) for one in prompts]
    )


def _is_composite(dataset: object) -> bool:
    return getattr(dataset, "splits", None) is not None
