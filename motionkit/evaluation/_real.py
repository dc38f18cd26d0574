"""Real motions of a dataset with what they show, as rewards take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.config import choose_one
from motionkit.datasets.base import Split, TextClip, TextMotionDataset
from motionkit.datasets.composite.api import reference_features, reference_joints
from motionkit.errors import MotionkitError
from motionkit.motion import HasActions, MotionBatch, RealActions, Skeleton
from motionkit.text import Prompt

_STARTER = "starter"


def real_motions(
    dataset: TextMotionDataset, split: Split, count: int, *, device: torch.device, prompts: Sequence[Prompt] = ()
) -> tuple[MotionBatch, list[Prompt]] | None:
    """Return clips spread over a split, cut to the dataset's longest motion.

    Args:
        dataset: The dataset.
        split: Its split.
        count: Most clips.
        device: Where to put them.
        prompts: Prompts of the split: in composite data the prompt of the same key says which actions a clip shows.

    Returns:
        The motions, and a prompt each: the one of the same key, else the first caption. None where the split has no
        clip.
    """
    clips = dataset.clips(split)
    if not len(clips):
        return None
    chosen = [clips[i] for i in range(0, len(clips), max(1, len(clips) // count))][:count]
    features = [clip.features[: dataset.max_length].to(device) for clip in chosen]
    lengths = torch.tensor([len(each) for each in features], device=device)
    asked = {prompt.key: prompt for prompt in prompts}
    shown = [
        asked.get(clip.key) or Prompt((clip.captions[0],), (len(each),), clip.key)
        for clip, each in zip(chosen, features, strict=True)
    ]
    motions = MotionBatch(pad_sequence(features, True), lengths, skeleton=dataset.skeleton, fps=dataset.fps)
    return motions, shown


def single_clips(dataset: TextMotionDataset) -> TextMotionDataset | None:
    """Return the dataset of the single clips behind a composite set, where it is known; None for other data."""
    source: TextMotionDataset | None = getattr(dataset, "source", None)
    if source is None and getattr(dataset, "source_name", "") == _STARTER:
        source = choose_one("datasets", _STARTER, {}).build()
    return source


@dataclass(frozen=True)
class RealAnswers:
    """Real motions that do what prompts ask for.

    Attributes:
        places: Number of the prompt that each motion answers, ascending; prompts without real clips have none.
        motions: The motions.
        prompts: What each of them shows: the prompt's texts with the motion's own lengths.
    """

    places: tuple[int, ...]
    motions: MotionBatch
    prompts: list[Prompt]


class RealMotions:
    """The real motions of a split, by what they do; read at their first use.

    Args:
        dataset: The dataset. Of composite data the single clips count where they are known, else the parts of the
            reference motions of `prompts`.
        split: Its split.
        prompts: Prompts of the split; of composite data only.
    """

    def __init__(self, dataset: TextMotionDataset, split: Split, prompts: Sequence[Prompt] = ()) -> None:
        self._dataset, self._split, self._prompts = dataset, split, prompts
        self._clips: Sequence[TextClip] = ()
        self._actions: RealActions | None = None

    @property
    def actions(self) -> RealActions:
        """What the real clips of an action do."""
        if self._actions is None:
            clips, source = self._read()
            self._clips = clips
            self._actions = RealActions(
                clips,
                self._dataset.skeleton,
                self._dataset.fps,
                action=source.action if isinstance(source, HasActions) else None,
            )
        return self._actions

    def answers(self, prompts: Sequence[Prompt], *, device: torch.device | str = "cpu") -> RealAnswers | None:
        """Return a real motion for each prompt: clips of its actions, one after the other.

        Of the clips of a segment's action (of its source clip alone, where the prompt names it) the one whose length is
        nearest to the segment's is taken, its middle where it is longer. Several are joined as the reference motions
        of a composite set are: each starts where the one before it ends, blended at the seam.

        Args:
            prompts: Prompts of the split.
            device: Where the motions go.

        Returns:
            The motions; None where no prompt has one.
        """
        actions, keys = self.actions, {clip.key: number for number, clip in enumerate(self._clips)}
        found, shown, places = [], [], []
        for place, prompt in enumerate(prompts):
            windows = [
                self._window(actions, keys, prompt, number, frames) for number, frames in enumerate(prompt.frames)
            ]
            parts = [window for window in windows if window is not None]
            if len(parts) < len(windows):
                continue
            places.append(place)
            found.append(_joined(parts, self._dataset.skeleton, self._dataset.fps).to(device))
            lengths = tuple(len(part) for part in parts)
            shown.append(Prompt(prompt.segments, lengths, prompt.key, prompt.source_ids))
        if not found:
            return None
        counts = torch.tensor([len(one) for one in found], device=device)
        padded = pad_sequence(found, batch_first=True)
        motions = MotionBatch(padded, counts, skeleton=self._dataset.skeleton, fps=self._dataset.fps)
        return RealAnswers(tuple(places), motions, shown)

    def _window(
        self, actions: RealActions, keys: Mapping[str, int], prompt: Prompt, number: int, frames: int
    ) -> Tensor | None:
        """Return the features of a real clip that does what a segment asks for, at most `frames` long."""
        # A prompt of one caption is called after its clip; the source of a segment may be in the split.
        names = (
            f"{prompt.key}/{number}",
            *((prompt.key.rpartition("#")[0],) if len(prompt.segments) == 1 else ()),
            *(prompt.source_ids[number : number + 1] if len(prompt.source_ids) == len(prompt.segments) else ()),
        )
        own = [keys[name] for name in names if name in keys]
        clips = own[:1] or [one for one in actions.of(prompt.segments[number]).clips if len(self._clips[one].features)]
        if not clips:
            return None
        features = min((self._clips[one].features for one in clips), key=lambda one: abs(len(one) - frames))
        start = max(0, (len(features) - frames) // 2)
        return features[start : start + frames].float()

    def _read(self) -> tuple[Sequence[TextClip], TextMotionDataset]:
        """Return the clips of single actions, and the dataset that they are of."""
        source = single_clips(self._dataset)
        if source is not None:
            try:
                return source.clips(self._split), source
            except MotionkitError:  # the folder of the single clips has no such split
                pass
        clips = self._dataset.clips(self._split)
        if not hasattr(self._dataset, "splits"):
            return clips, self._dataset
        asked = {prompt.key: prompt for prompt in self._prompts}
        parts = [
            TextClip(f"{clip.key}/{number}", clip.features[start:end], (text,))
            for clip in clips
            if (prompt := asked.get(clip.key)) is not None
            for number, (text, (start, end)) in enumerate(zip(prompt.segments, prompt.bounds, strict=True))
        ]
        return parts, self._dataset


def _joined(windows: Sequence[Tensor], skeleton: Skeleton, fps: float) -> Tensor:
    """Return the features of clips that follow each other, ``[T, D]``."""
    if len(windows) == 1:
        return windows[0]
    return reference_features(reference_joints(windows, skeleton, fps), skeleton)
