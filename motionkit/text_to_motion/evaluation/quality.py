"""Real motions beside a policy's: what they show, how near they are, and which are kept to be looked at."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.config import choose_one
from motionkit.contracts.dataset import Split, TextClip, TextMotionDataset
from motionkit.contracts.generating import sample
from motionkit.contracts.policy import DiffusionPolicy
from motionkit.contracts.reward import Reward
from motionkit.errors import MotionkitError
from motionkit.metrics import body_positions, frechet, kinetic_features
from motionkit.motion import HasActions, MotionBatch, RealActions, Skeleton
from motionkit.rl import NoiseSource, StepPlan
from motionkit.runs import Run, disk_errors, write_bytes_atomic
from motionkit.text import Prompt
from motionkit.text_to_motion.crops import Crop
from motionkit.text_to_motion.data.joined import reference_features, reference_joints
from motionkit.text_to_motion.rewards.mix import RewardMix, Scored
from motionkit.text_to_motion.tmr.model import TMR

# Motions of a held-out measurement that are kept to be looked at, before training and after it.


@dataclass(frozen=True)
class Shown:
    """P motions, one per prompt, as they were measured."""

    features: list[NDArray[np.float32]]  # each [T, D] float32, unnormalised
    texts: list[str]  # text of each; `` | `` between segments
    bounds: list[list[tuple[int, int]]]  # first and last frame + 1 of each segment
    rewards: list[float]  # total of the training rewards, NaN if one could not be computed
    segments: list[list[float]]  # reward of each segment, as many as `bounds` has
    skeleton: str  # name of the body
    fps: float

    @classmethod
    def first(
        cls, motions: MotionBatch, prompts: Sequence[Prompt], scored: Scored, per_prompt: int, count: int
    ) -> Shown:
        """Keep the first sample of the first `count` prompts."""
        rows = range(0, min(len(prompts), count * per_prompt), per_prompt)
        asked = [prompts[row] for row in rows]
        features = motions.features.float().cpu().numpy()
        totals = np.where(scored.finite.cpu().numpy(), scored.total.cpu().numpy(), np.nan)
        segments = scored.segments.cpu().numpy()
        return cls(
            features=[features[row, : prompt.length] for row, prompt in zip(rows, asked, strict=True)],
            texts=[" | ".join(prompt.segments) for prompt in asked],
            bounds=[list(prompt.bounds) for prompt in asked],
            rewards=[float(totals[row]) for row in rows],
            segments=[
                [float(value) for value in segments[row, : len(prompt.segments)]]
                for row, prompt in zip(rows, asked, strict=True)
            ],
            skeleton=motions.skeleton.name,
            fps=motions.fps,
        )

    def keep(self, run: Run, name: str) -> None:
        """Write the motions to ``RUN/heldout/NAME.npz``, as output of the run."""
        folder = run.artifact("heldout")
        with disk_errors("write the held-out motions", folder):
            folder.mkdir(exist_ok=True)
            self.save(folder / f"{name}.npz")

    def save(self, path: Path) -> None:
        """Write an .npz file: ``features`` ``[sum of T, D]``, motion after motion, and the rest as JSON in ``about``.

        Raises:
            OSError: It cannot be written.
        """
        about = {
            "texts": self.texts,
            "bounds": self.bounds,
            "rewards": [value if value == value else None for value in self.rewards],
            "segments": self.segments,
            "skeleton": self.skeleton,
            "fps": self.fps,
        }
        buffer = io.BytesIO()
        np.savez_compressed(buffer, features=np.concatenate(self.features), about=np.array(json.dumps(about)))
        write_bytes_atomic(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that `save` wrote."""
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                rows, about = file["features"].astype(np.float32), json.loads(str(file["about"]))
            texts = [str(text) for text in about["texts"]]
            bounds = [[(int(start), int(end)) for start, end in one] for one in about["bounds"]]
            rewards = [float("nan") if value is None else float(value) for value in about["rewards"]]
            segments = [[float(value) for value in one] for one in about["segments"]]
            skeleton, fps = str(about["skeleton"]), float(about["fps"])
        except FileNotFoundError as error:
            raise MotionkitError(f"{path} is missing.") from error
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise MotionkitError(f"{path} cannot be read as held-out motions.", why=str(error)) from error
        ends = np.cumsum([spans[-1][1] if spans else 0 for spans in bounds])
        sizes = {len(texts), len(bounds), len(rewards), len(segments)}
        fits = rows.ndim == 2 and len(texts) > 0 and len(sizes) == 1 and ends[-1] == len(rows)
        if not fits or any(len(one) != len(two) or not one for one, two in zip(bounds, segments, strict=True)):
            raise MotionkitError(f"{path} cannot be read as held-out motions.", why="its parts do not fit each other.")
        return cls(np.split(rows, ends[:-1]), texts, bounds, rewards, segments, skeleton, fps)


_CHUNK = 64  # motions sampled at a time
_SHOWN = 12


@dataclass(frozen=True)
class Quality:
    """What `measure_quality` found."""

    # Frechet distance between the latents of generated motions and of the real clips; biased upwards when there are not
    # many more clips than dimensions, so only figures of the same number of clips compare.
    fid: float
    score: float  # the judge's mean score of the motions against their captions
    real: float  # its mean score of the real clips against the same captions: what can be reached
    count: int
    shown: Shown  # some of the motions
    # Mean ``movement``, ``statues`` and ``side`` of the motions, each beside that of the real clips (see
    # `motionkit.motion.RealActions.measure`); without those that say nothing.
    moving: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@torch.no_grad()
def measure_quality(
    policy: DiffusionPolicy,  # what is sampled
    clips: Sequence[TextClip],  # at least two real clips
    judge: Reward,  # scores motions
    tmr: TMR,  # the judge's encoder, whose latents are compared
    *,
    plan: StepPlan,  # reverse steps
    guidance: float,
    actions: RealActions | None = None,  # what real clips of an action do; None leaves `Quality.moving` empty
) -> Quality:
    """Sample the first caption of each clip at its length and compare with the clips.

    Each clip has noise of its own, so the figures do not depend on the batches.
    """
    mix = RewardMix([(judge, 1.0)])
    made, real, scores, truths = [], [], [], []
    moved: list[list[dict[str, Tensor]]] = [[], []]
    shown: Shown | None = None
    for first in range(0, len(clips), _CHUNK):
        chunk = clips[first : first + _CHUNK]
        prompts = [
            Prompt((clip.captions[0],), (min(len(clip.features), policy.max_length),), key=clip.key) for clip in chunk
        ]
        done = sample(policy, prompts, plan, NoiseSource(0), guidance=guidance, step=-1)
        scored = mix.score(done.motions, done.prompts)
        if shown is None:
            shown = Shown.first(done.motions, done.prompts, scored, 1, _SHOWN)
        crops = [Crop(row, 0, prompt.length) for row, prompt in enumerate(prompts)]
        features = torch.zeros_like(done.motions.features)
        for row, (clip, prompt) in enumerate(zip(chunk, prompts, strict=True)):
            features[row, : prompt.length] = clip.features[: prompt.length].to(features)
        truth = type(done.motions)(features, done.lengths, skeleton=policy.skeleton, fps=policy.fps)
        made.append(tmr.encode_crops(done.motions.features, crops).mu)
        real.append(tmr.encode_crops(features, crops).mu)
        if actions is not None:
            moved[0].append(actions.measure(done.motions, done.prompts))
            moved[1].append(actions.measure(truth, done.prompts))
        scores.append(scored.total)
        truths.append(mix.score(truth, done.prompts).total)
    assert shown is not None, "the caller gives at least two clips"
    return Quality(
        frechet(torch.cat(made), torch.cat(real)),
        float(torch.cat(scores).mean()),
        float(torch.cat(truths).mean()),
        len(clips),
        shown,
        _beside(*moved),
    )


def _beside(
    made: Sequence[Mapping[str, Tensor]], real: Sequence[Mapping[str, Tensor]]
) -> dict[str, tuple[float, float]]:
    """Return the means of both by name if both have one."""
    result = {}
    for name in made[0] if made else ():
        both = [float(torch.cat([one[name] for one in part]).nanmean()) for part in (made, real)]
        if all(map(math.isfinite, both)):
            result[name] = (both[0], both[1])
    return result


# Real motions of a dataset with what they show, as rewards take them.

_STARTER = "starter"
_MOST = 512  # clips of a split that kinetic features are compared with


def real_motions(
    dataset: TextMotionDataset,
    split: Split,
    count: int,  # most clips
    *,
    device: torch.device,
    # Prompts of the split: in composite data the prompt of the same key says which actions a clip shows
    prompts: Sequence[Prompt] = (),
) -> tuple[MotionBatch, list[Prompt]] | None:
    """Return clips spread over a split, cut to the dataset's longest motion.

    Returns:
        The motions, and a prompt each: the one of the same key, else the first caption. None if the split has no
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
    """Return the dataset of the single clips behind a composite set if it is known; None for other data."""
    source: TextMotionDataset | None = getattr(dataset, "source", None)
    if source is None and getattr(dataset, "source_name", "") == _STARTER:
        source = choose_one("datasets", _STARTER, {}).build()
    return source


def batches_of(features: Sequence[Tensor], skeleton: Skeleton, fps: float) -> Iterator[MotionBatch]:
    """Yield motions of features ``[T, D]`` each, some at a time, in their order."""
    for first in range(0, len(features), _CHUNK):
        part = [clip.float() for clip in features[first : first + _CHUNK]]
        lengths = torch.tensor([len(one) for one in part], device=part[0].device)
        yield MotionBatch(pad_sequence(part, True), lengths, skeleton=skeleton, fps=fps)


def bodies_of(features: Sequence[Tensor | None], skeleton: Skeleton, fps: float) -> list[Tensor | None]:
    """Return `motionkit.metrics.body_positions` of features ``[T, D]`` each, as ``[T, 3 J]``; None stays None."""
    result: list[Tensor | None] = [None] * len(features)
    rows = [row for row, clip in enumerate(features) if clip is not None]
    places = iter(rows)
    for batch in batches_of([clip for clip in features if clip is not None], skeleton, fps):
        body = body_positions(batch.joints, batch.headings).flatten(2)
        for one, length in zip(body, batch.lengths.tolist(), strict=True):
            result[next(places)] = one[:length]
    return result


@dataclass(frozen=True)
class RealAnswers:
    """Real motions that do what prompts ask for."""

    # Number of the prompt that each motion answers, ascending; prompts without real clips have none.
    places: tuple[int, ...]
    motions: MotionBatch  # the motions
    prompts: list[Prompt]  # what each of them shows: the prompt's texts with the motion's own lengths


class RealMotions:
    """The real motions of a split, by what they do; read at their first use.

    Args:
        dataset: The dataset. Of composite data the single clips count if they are known, else the parts of the
            reference motions of `prompts`.
        split: Its split.
        prompts: Prompts of the split; of composite data only.
    """

    def __init__(self, dataset: TextMotionDataset, split: Split, prompts: Sequence[Prompt] = ()) -> None:
        self._dataset, self._split, self._prompts = dataset, split, prompts
        self._clips: Sequence[TextClip] = ()
        self._keys: dict[str, int] = {}
        self._actions: RealActions | None = None
        self._bodies: dict[tuple[str, int, int], Tensor | None] = {}

    @property
    def actions(self) -> RealActions:
        """What the real clips of an action do."""
        if self._actions is None:
            clips, source = self._read()
            self._clips = clips
            self._keys = {clip.key: number for number, clip in enumerate(clips)}
            self._actions = RealActions(
                clips,
                self._dataset.skeleton,
                self._dataset.fps,
                action=source.action if isinstance(source, HasActions) else None,
            )
        return self._actions

    def answers(self, prompts: Sequence[Prompt], *, device: torch.device | str = "cpu") -> RealAnswers | None:
        """Return a real motion for each prompt: clips of its actions, one after the other.

        Of the clips of a segment's action (of its source clip alone if the prompt names it) the one whose length is
        nearest to the segment's is taken, its middle where it is longer. Several are joined as the reference motions
        of a composite set are: each starts where the one before it ends, blended at the seam.

        Returns:
            The motions; None if no prompt has one.
        """
        actions = self.actions
        features, shown, places = [], [], []
        for place, prompt in enumerate(prompts):
            windows = [self._window(actions, prompt, number, frames) for number, frames in enumerate(prompt.frames)]
            parts = [window for window in windows if window is not None]
            if len(parts) < len(windows):
                continue
            places.append(place)
            features.append(_joined(parts, self._dataset.skeleton, self._dataset.fps).to(device))
            lengths = tuple(len(part) for part in parts)
            shown.append(Prompt(prompt.segments, lengths, prompt.key, prompt.source_ids))
        if not features:
            return None
        counts = torch.tensor([len(clip) for clip in features], device=device)
        padded = pad_sequence(features, batch_first=True)
        motions = MotionBatch(padded, counts, skeleton=self._dataset.skeleton, fps=self._dataset.fps)
        return RealAnswers(tuple(places), motions, shown)

    def kinetic(self, prompts: Sequence[Prompt] | None = None, samples: int = 1) -> Tensor:
        """Return kinetic features of real clips, ``[M, F]`` (`motionkit.metrics.kinetic_features`).

        Args:
            prompts: What the clips are to show: for each sample of each segment another clip of its action, where it
                has so many, cut to the segment's length. None: the clips of the split, at most 512.
            samples: Samples of each prompt.
        """
        actions, wanted = self.actions, list[Tensor]()
        if prompts is None:
            every = -(-len(self._clips) // _MOST) or 1
            wanted = [self._clips[row].features for row in range(0, len(self._clips), every)]
        for prompt in prompts or ():
            for text, frames in zip(prompt.segments, prompt.frames, strict=True):
                clips = [one for one in actions.of(text).clips if len(self._clips[one].features)]
                for index in range(samples if clips else 0):
                    wanted.append(_middle(self._clips[clips[index % len(clips)]].features, frames))
        parts = [
            kinetic_features(batch.joints, batch.lengths, batch.fps)
            for batch in batches_of(wanted, self._dataset.skeleton, self._dataset.fps)
        ]
        features = torch.cat(parts) if parts else torch.zeros(0, 1)
        return features[features.isfinite().all(1)].cpu()

    def own_bodies(self, prompts: Sequence[Prompt]) -> list[Tensor | None]:
        """Return what each segment's own real clip does, ``[T, 3 J]`` (see `bodies_of`), segment after segment.

        Returns:
            None if a segment is of no clip that is known, or of one that is shorter than it.
        """
        _ = self.actions  # reads the clips
        asked = [(prompt, number, frames) for prompt in prompts for number, frames in enumerate(prompt.frames)]
        keys = [(prompt.key, number, frames) for prompt, number, frames in asked]
        new = {key: one for key, one in zip(keys, asked, strict=True) if key not in self._bodies}
        windows = []
        for prompt, number, frames in new.values():
            own = self._own(prompt, number)
            windows.append(None if own is None or len(own) < frames else _middle(own, frames))
        bodies = bodies_of(windows, self._dataset.skeleton, self._dataset.fps)
        self._bodies |= dict(zip(new, bodies, strict=True))
        return [self._bodies[key] for key in keys]

    def _window(self, actions: RealActions, prompt: Prompt, number: int, frames: int) -> Tensor | None:
        """Return the features of a real clip that does what a segment asks for, at most `frames` long."""
        own = self._own(prompt, number)
        clips = [self._clips[one].features for one in actions.of(prompt.segments[number]).clips] if own is None else []
        known = [one for one in (clips if own is None else [own]) if len(one)]
        return _middle(min(known, key=lambda one: abs(len(one) - frames)), frames).float() if known else None

    def _own(self, prompt: Prompt, number: int) -> Tensor | None:
        """Return the features of the clip that a segment is of; None if it is of none that is known."""
        # A prompt of one caption is called after its clip; the source of a segment may be in the split.
        names = (
            f"{prompt.key}/{number}",
            *((prompt.key.rpartition("#")[0],) if len(prompt.segments) == 1 else ()),
            *(prompt.source_ids[number : number + 1] if len(prompt.source_ids) == len(prompt.segments) else ()),
        )
        return next((self._clips[self._keys[name]].features for name in names if name in self._keys), None)

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


def _middle(features: Tensor, frames: int) -> Tensor:
    """Return the middle `frames` frames of features; all if there are fewer."""
    start = max(0, (len(features) - frames) // 2)
    return features[start : start + frames]


def _joined(windows: Sequence[Tensor], skeleton: Skeleton, fps: float) -> Tensor:
    """Return the features of clips that follow each other, ``[T, D]``."""
    if len(windows) == 1:
        return windows[0]
    return reference_features(reference_joints(windows, skeleton, fps), skeleton)
