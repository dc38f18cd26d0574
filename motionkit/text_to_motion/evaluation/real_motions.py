"""Reference motions of a dataset, which generated ones are compared with: of a split, and of the actions of prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.config import choose_one
from motionkit.contracts.dataset import TextClip, TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.metrics import body_positions, kinetic_features
from motionkit.motion import MotionBatch, RealActions, Representation, Skeleton
from motionkit.motion.corpus.ids import Split
from motionkit.text import Prompt
from motionkit.text_to_motion.data.joined import reference_features, reference_joints

_STARTER = "starter"
_MOST = 512  # clips of a split that kinetic features are compared with
_CHUNK = 64  # motions of a batch


def real_motions(
    dataset: TextMotionDataset, split: Split, count: int, *, device: torch.device, prompts: Sequence[Prompt] = ()
) -> tuple[MotionBatch, list[Prompt]] | None:
    """Return clips spread over a split, cut to the dataset's longest motion.

    Args:
        dataset: The dataset.
        split: The split.
        count: Most clips.
        device: Where the motions go.
        prompts: Prompts of the split; for composite data they describe the clips of the same key.

    Returns:
        The motions, and a prompt each: the one of the same key, else the first caption. None if the split has no
        clip.
    """
    clips = dataset.clips(split)
    if not len(clips):
        return None
    chosen = [clips[i] for i in range(0, len(clips), max(1, len(clips) // count))][:count]
    features = [clip.features[: dataset.max_length].to(device) for clip in chosen]
    lengths = torch.tensor([len(rows) for rows in features], device=device)
    asked = {prompt.key: prompt for prompt in prompts}
    shown = [
        asked.get(clip.key) or Prompt((clip.captions[0],), (len(rows),), clip.key)
        for clip, rows in zip(chosen, features, strict=True)
    ]
    motions = MotionBatch(pad_sequence(features, True), lengths, skeleton=dataset.skeleton, fps=dataset.fps)
    return motions, shown


def single_clips(dataset: TextMotionDataset) -> TextMotionDataset | None:
    """Return the dataset of the single clips that a composite set was made from, None if it is unknown."""
    source = dataset.source
    if source is None and dataset.splits is not None and dataset.source_name == _STARTER:
        source = choose_one("datasets", _STARTER, {}).build()
    return source


def batches_of(features: Sequence[Tensor], skeleton: Representation, fps: float) -> Iterator[MotionBatch]:
    """Yield batches of clips ``[T, D]`` in their order."""
    for first in range(0, len(features), _CHUNK):
        part = [clip.float() for clip in features[first : first + _CHUNK]]
        lengths = torch.tensor([len(rows) for rows in part], device=part[0].device)
        yield MotionBatch(pad_sequence(part, True), lengths, skeleton=skeleton, fps=fps)


def bodies_of(features: Sequence[Tensor | None], skeleton: Representation, fps: float) -> list[Tensor | None]:
    """Return `motionkit.metrics.body_positions` of clips ``[T, D]``, each as ``[T, 3 J]``; None stays None."""
    result: list[Tensor | None] = [None] * len(features)
    rows = [row for row, clip in enumerate(features) if clip is not None]
    places = iter(rows)
    for batch in batches_of([clip for clip in features if clip is not None], skeleton, fps):
        body = body_positions(batch.joints, batch.headings).flatten(2)
        for positions, length in zip(body, batch.lengths.tolist(), strict=True):
            result[next(places)] = positions[:length]
    return result


@dataclass(frozen=True)
class RealAnswers:
    """Reference motions of the actions that prompts ask for."""

    places: tuple[int, ...]  # number of each motion's prompt, ascending; prompts without reference clips are left out
    motions: MotionBatch
    prompts: list[Prompt]  # the texts of each motion's prompt, with the motion's lengths
    clips: list[tuple[int, ...]]  # numbers of the clips that each is made of, among those of the split


class RealMotions:
    """The reference motions of a split by action; read at their first use.

    Composite data are represented by the single clips that they were made from if those are known, else by the segments
    of the reference motions of `prompts` (prompts of the split, for composite data only).
    """

    def __init__(self, dataset: TextMotionDataset, split: Split, prompts: Sequence[Prompt] = ()) -> None:
        self._dataset, self._split, self._prompts = dataset, split, prompts
        self._clips: Sequence[TextClip] = ()
        self._keys: dict[str, int] = {}
        self._actions: RealActions | None = None
        self._bodies: dict[tuple[str, int, int], Tensor | None] = {}

    @property
    def actions(self) -> RealActions:
        """The reference clips by action."""
        if self._actions is None:
            clips, source = self._read()
            self._clips = clips
            self._keys = {clip.key: number for number, clip in enumerate(clips)}
            self._actions = RealActions(
                clips,
                self._dataset.skeleton,
                self._dataset.fps,
                action=source.action,
            )
        return self._actions

    @property
    def clips(self) -> Sequence[TextClip]:
        """The reference clips of single actions."""
        _ = self.actions  # reads the clips
        return self._clips

    def answers(self, prompts: Sequence[Prompt], *, device: torch.device | str = "cpu") -> RealAnswers | None:
        """Return a reference motion for each prompt: clips of its actions, one after the other; None if none has one.

        For each segment the clip of its action with the nearest length is taken (its source clip if the prompt names
        it), and cut to its middle if it is longer. Clips are joined like the reference motions of a composite set:
        each starts where the previous one ends, blended at the seam.
        """
        actions = self.actions
        features, shown, places, used = [], [], [], list[tuple[int, ...]]()
        for place, prompt in enumerate(prompts):
            found = [self._clip_for(actions, prompt, number, frames) for number, frames in enumerate(prompt.frames)]
            clips = [clip for clip in found if clip is not None]
            if len(clips) < len(found):
                continue
            used.append(tuple(clips))
            parts = [
                _middle(self._clips[clip].features, frames).float()
                for clip, frames in zip(clips, prompt.frames, strict=True)
            ]
            places.append(place)
            features.append(_joined(parts, self._dataset.skeleton, self._dataset.fps).to(device))
            lengths = tuple(len(part) for part in parts)
            shown.append(Prompt(prompt.segments, lengths, prompt.key, prompt.source_ids))
        if not features:
            return None
        counts = torch.tensor([len(clip) for clip in features], device=device)
        padded = pad_sequence(features, batch_first=True)
        motions = MotionBatch(padded, counts, skeleton=self._dataset.skeleton, fps=self._dataset.fps)
        return RealAnswers(tuple(places), motions, shown, used)

    def spread(self) -> dict[int, Tensor]:
        """Return the features ``[T, D]`` of at most 512 clips of the split, evenly spread, by their numbers."""
        _ = self.actions  # reads the clips
        every = -(-len(self._clips) // _MOST) or 1
        return {row: self._clips[row].features for row in range(0, len(self._clips), every)}

    def kinetic(self, prompts: Sequence[Prompt] | None = None, samples: int = 1) -> Tensor:
        """Return kinetic features of reference clips, ``[M, F]`` (`motionkit.metrics.kinetic_features`).

        Args:
            prompts: Prompts to find clips for: for each sample of each segment a clip of its action, cut to the
                segment's length; clips repeat if the action has too few. None: the clips of the split, at most 512.
            samples: Samples of each prompt.
        """
        actions, wanted = self.actions, list[Tensor]()
        if prompts is None:
            wanted = [*self.spread().values()]
        for prompt in prompts or ():
            for text, frames in zip(prompt.segments, prompt.frames, strict=True):
                clips = [number for number in actions.of(text).clips if len(self._clips[number].features)]
                for index in range(samples if clips else 0):
                    wanted.append(_middle(self._clips[clips[index % len(clips)]].features, frames))
        parts = [
            kinetic_features(batch.joints, batch.lengths, batch.fps)
            for batch in batches_of(wanted, self._dataset.skeleton, self._dataset.fps)
        ]
        features = torch.cat(parts) if parts else torch.zeros(0, 1)
        return features[features.isfinite().all(1)].cpu()

    def own_bodies(self, prompts: Sequence[Prompt]) -> list[Tensor | None]:
        """Return the body positions ``[T, 3 J]`` (see `bodies_of`) of each segment's source clip, in order.

        None for segments whose source clip is unknown, or shorter than the segment.
        """
        _ = self.actions  # reads the clips
        asked = [(prompt, number, frames) for prompt in prompts for number, frames in enumerate(prompt.frames)]
        keys = [(prompt.key, number, frames) for prompt, number, frames in asked]
        new = {key: segment for key, segment in zip(keys, asked, strict=True) if key not in self._bodies}
        windows = []
        for prompt, number, frames in new.values():
            clip = self._source_clip(prompt, number)
            features = None if clip is None else self._clips[clip].features
            windows.append(None if features is None or len(features) < frames else _middle(features, frames))
        bodies = bodies_of(windows, self._dataset.skeleton, self._dataset.fps)
        self._bodies |= dict(zip(new, bodies, strict=True))
        return [self._bodies[key] for key in keys]

    def _clip_for(self, actions: RealActions, prompt: Prompt, number: int, frames: int) -> int | None:
        """Return the number of a reference clip for a segment, that of the nearest length; None if there is none."""
        source = self._source_clip(prompt, number)
        clips = actions.of(prompt.segments[number]).clips if source is None else (source,)
        lengths = {clip: len(self._clips[clip].features) for clip in clips if len(self._clips[clip].features)}
        return min(lengths, key=lambda clip: abs(lengths[clip] - frames)) if lengths else None

    def _source_clip(self, prompt: Prompt, number: int) -> int | None:
        """Return the number of the clip that a segment was taken from; None if it is unknown."""
        # A prompt of one caption is named after its clip; the source of a segment may be in the split.
        names = (
            f"{prompt.key}/{number}",
            *((prompt.key.rpartition("#")[0],) if len(prompt.segments) == 1 else ()),
            *(prompt.source_ids[number : number + 1] if len(prompt.source_ids) == len(prompt.segments) else ()),
        )
        return next((self._keys[name] for name in names if name in self._keys), None)

    def _read(self) -> tuple[Sequence[TextClip], TextMotionDataset]:
        """Return the clips of single actions, and their dataset."""
        source = single_clips(self._dataset)
        if source is not None:
            try:
                return source.clips(self._split), source
            except MotionkitError:  # the folder of the single clips has no such split
                pass
        clips = self._dataset.clips(self._split)
        if self._dataset.splits is None:
            return clips, self._dataset
        asked = {prompt.key: prompt for prompt in self._prompts}
        parts = [
            TextClip(f"{clip.key}/{number}", clip.features[start:end], (text,))
            for clip in clips
            if (prompt := asked.get(clip.key)) is not None
            for number, (text, (start, end)) in enumerate(zip(prompt.segments, prompt.bounds, strict=True))
        ]
        return parts, self._dataset


def _middle(features: Tensor, frames: int) -> Tensor:
    """Return the middle `frames` frames; all if there are fewer."""
    start = max(0, (len(features) - frames) // 2)
    return features[start : start + frames]


def _joined(windows: Sequence[Tensor], skeleton: Skeleton, fps: float) -> Tensor:
    """Return the features of clips one after another, ``[T, D]``."""
    if len(windows) == 1:
        return windows[0]
    return reference_features(reference_joints(windows, skeleton, fps), skeleton)
