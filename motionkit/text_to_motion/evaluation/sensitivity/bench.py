"""Rewards under audit (`Bench`), the reference clips that they score (`Clips`), and the rows of an audit (`SOURCES`).

A row is one change of motions or captions. Its source makes examples: a clip, its change, and an unrelated caption.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit import plugins
from motionkit.config import Chosen
from motionkit.contracts.dataset import TextMotionDataset
from motionkit.contracts.reward import Reward
from motionkit.documents import read_json, value_at
from motionkit.errors import MotionkitError
from motionkit.motion import MotionBatch, Skeleton
from motionkit.motion.changes.place_and_time import clip_features, clip_joints, one_after_another
from motionkit.motion.changes.registry import CHANGES, Change, Scene
from motionkit.motion.corpus.ids import Split
from motionkit.starter import weights_path
from motionkit.text import CAPTION_CHANGES, CaptionChange, Prompt, words_of
from motionkit.text_to_motion.evaluation.real_motions import single_clips
from motionkit.text_to_motion.rewards.ask import ask
from motionkit.weights import located

Scores = NDArray[np.float64]

_BATCH = 64
_FOLDERS = ("", "tmr", "evaluator")  # folders of a reward's weights below its option ``weights``
_TRIES = 16  # candidates for the unrelated caption, the one that shares the fewest words, if actions are unknown
_CAPTIONS = 3  # captions of a clip that are tried for a change that applies to some
_PAIRS = "two clips that are short enough together"


@dataclass(frozen=True)
class Audited:
    """One reward under audit."""

    name: str  # unique in an audit
    reward: Reward
    weight: float = 1.0  # weight in the sum of all rewards
    summed: bool = True  # whether it is part of that sum; a judge and an evaluator are not
    # Changes that its weights were trained against (`motionkit.motion.changes.registry.CHANGES`,
    # `motionkit.text.CAPTION_CHANGES`), by their config.
    kinds: frozenset[str] = frozenset()
    own: bool = True  # whether it is part of motionkit, so that its cost is known
    shipped: bool = False  # whether it has the weights of the starter, or needs none

    @classmethod
    def of(cls, chosen: Chosen, reward: Reward) -> Audited:
        """Return a chosen reward, as part of the sum."""
        kinds = kinds_of_reward(chosen.label, str(chosen.get("weights", "")))
        own = plugins.is_own(chosen.kind, chosen.name)
        shipped = own and str(chosen.get("weights", "starter")) in ("starter", "")
        return cls(chosen.label, reward, chosen.weight, kinds=kinds, own=own, shipped=shipped)


@dataclass
class Bench:
    """Asks rewards for scores; NaN if a reward gives none."""

    audited: Sequence[Audited]
    skeleton: Skeleton
    fps: float
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    unread: dict[str, dict[str, str]] = field(default_factory=dict)
    """Why a text could not be scored, by reward and text."""
    not_finite: dict[str, int] = field(default_factory=dict)
    """Number of scores that were NaN or infinite though the reward applied, by reward."""
    reading: set[str] = field(default_factory=set)
    """Rewards that have scored a batch, so that a text that one cannot read is the text's fault."""

    @property
    def names(self) -> list[str]:
        """The rewards, and their weighted sum if several are summed."""
        return [item.name for item in self.audited] + ([self.sum] if self.sum else [])

    @property
    def sum(self) -> str:
        """The name of the weighted sum; empty for fewer than two rewards."""
        parts = [
            f"{item.weight:g} {item.name}" if item.weight != 1 else item.name for item in self.audited if item.summed
        ]
        return " + ".join(parts) if len(parts) > 1 else ""

    @torch.no_grad()
    def score(self, features: Sequence[Tensor], prompts: Sequence[Prompt]) -> dict[str, Scores]:
        """Return the scores ``[N]`` for each of `names`."""
        result = {item.name: np.full(len(features), np.nan) for item in self.audited}
        # Batches of similar lengths need little padding.
        order = sorted(range(len(features)), key=lambda place: len(features[place]))
        for start in range(0, len(order), _BATCH):
            places = order[start : start + _BATCH]
            motions = self._batch([features[place] for place in places])
            asked = [prompts[place] for place in places]
            for item in self.audited:
                result[item.name][places] = self._ask(item, motions, asked)
        if self.sum:
            result[self.sum] = np.sum([item.weight * result[item.name] for item in self.audited if item.summed], axis=0)
        return result

    def _batch(self, features: Sequence[Tensor]) -> MotionBatch:
        lengths = torch.tensor([len(rows) for rows in features], device=self.device)
        padded = pad_sequence(list(features), batch_first=True).to(self.device)
        return MotionBatch(padded, lengths, skeleton=self.skeleton, fps=self.fps)

    def _ask(self, item: Audited, motions: MotionBatch, prompts: Sequence[Prompt]) -> Scores:
        unread = self.unread.setdefault(item.name, {})
        known = [place for place, prompt in enumerate(prompts) if prompt.text not in unread]
        try:
            scores = self._scores(item, motions, prompts, known)
            self.reading |= {item.name} if known else set()
            return scores
        except MotionkitError as error:
            if len(known) < 2:
                unread.update({prompts[place].text: error.message for place in known})
                return np.full(len(prompts), np.nan)
        # Some text cannot be encoded: each is scored alone, so that the others keep their scores.
        result = np.full(len(prompts), np.nan)
        for place in known:
            try:
                result[place] = self._scores(item, motions, prompts, [place])[place]
            except MotionkitError as error:
                unread[prompts[place].text] = error.message
        if item.name not in self.reading and all(prompts[place].text in unread for place in known):
            # No text of the first batch could be scored: the error is the reward's, and is raised.
            self._scores(item, motions, prompts, known)
        return result

    def _scores(self, item: Audited, motions: MotionBatch, prompts: Sequence[Prompt], places: Sequence[int]) -> Scores:
        """Return the scores of `places`; NaN elsewhere, and if the reward does not apply or is not finite."""
        result = np.full(len(prompts), np.nan)
        if not places:
            return result
        part = motions
        if len(places) < len(prompts):
            index = torch.tensor(places, device=motions.device)
            lengths = motions.lengths[index]
            part = MotionBatch(
                motions.features[index, : int(lengths.max())], lengths, skeleton=motions.skeleton, fps=motions.fps
            )
        scores = ask(item.reward, part, [prompts[place] for place in places])
        finite = scores.total.isfinite()
        if lost := int((scores.applying & ~finite).sum()):
            self.not_finite[item.name] = self.not_finite.get(item.name, 0) + lost
        total = torch.where(scores.applying & finite, scores.total, torch.nan)
        result[list(places)] = total.double().cpu().numpy()
        return result


def kinds_of_reward(name: str, weights: str) -> frozenset[str]:
    """Return the changes that a reward's weights were trained against; see `trained_kinds`."""
    return trained_kinds("starter:evaluator" if weights == "starter" and name.startswith("mdm-") else weights)


def trained_kinds(
    weights: str,  # a reward's option ``weights``: ``starter``, ``starter:judge``, a run or a folder
) -> frozenset[str]:
    """Return the changes that a model was trained against, from ``training.train.negatives`` of its config."""
    head, _, name = weights.partition(":")
    place = weights_path(name or "tmr") if head == "starter" else located(weights)
    for folder in _FOLDERS:
        file = place / folder / "config.json"
        if not weights or not file.is_file():
            continue
        try:
            result = value_at(read_json(file, dict), "training", "train", "negatives")
        except MotionkitError:
            return frozenset()
        if isinstance(result, str):
            result = [part.partition("=")[0].strip() for part in result.split(",")]
        if isinstance(result, (Mapping, Sequence)):
            return frozenset(str(kind) for kind in result if kind and kind != "none")
    return frozenset()


class Clips:
    """The clips of a split, for an audit."""

    def __init__(self, dataset: TextMotionDataset, split: Split, *, seed: int = 0) -> None:
        source = single_clips(dataset)
        dataset = dataset if source is None else source
        self.skeleton, self.fps, self.longest = dataset.skeleton, dataset.fps, dataset.max_length
        name = f"the {split} split of {dataset.name}"
        clips = list(dataset.clips(split))
        if not clips:
            raise MotionkitError(f"{name} has no clips to change.", fix="choose another split or dataset.")
        self.clips = [clip for clip in clips if any(text.strip() for text in clip.captions) and len(clip.features) > 1]
        self.left_out = len(clips) - len(self.clips)
        if not self.clips:
            raise MotionkitError(
                f"no clip of {name} has a caption.",
                why="a reward scores how well a motion fits its caption, and an unrelated one.",
                fix="choose another dataset, or give its clips captions: motionkit convert --captions CSV",
            )
        self.captions = [tuple(text for text in clip.captions if text.strip()) for clip in self.clips]
        if len({texts[0] for texts in self.captions}) < 2:
            who = f"all clips of {name} have the same" if len(self.clips) > 1 else f"{name} has one clip with a"
            raise MotionkitError(
                f"{who} caption: {self.captions[0][0]!r}.",
                why="what a reward sees is measured against an unrelated caption, and there is none.",
                fix="choose a dataset with several captions.",
            )
        self.actions = [dataset.action(texts[0]) for texts in self.captions]
        self.others = _others(self.captions, self.actions, np.random.default_rng(seed))
        self._joints: dict[int, Tensor] = {}
        self._features: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self.clips)

    def joints(self, place: int) -> Tensor:
        """Return all frames of a clip, ``[T + 1, J, 3]``."""
        if place not in self._joints:
            rows = self.clips[place].features[: self.longest]
            self._joints[place] = clip_joints([rows], self.skeleton)[0]
        return self._joints[place]

    def features(self, place: int) -> Tensor:
        """Return a clip ``[T, D]``, computed from its joints like the changed clips."""
        if place not in self._features:
            self._features[place] = clip_features([self.joints(place)], self.skeleton)[0]
        return self._features[place]

    def scene(self, place: int, caption: str, generator: torch.Generator) -> Scene:
        """Return a clip that is to be changed."""
        other = self.joints(self.others[place])
        return Scene(self.joints(place), self.skeleton, self.fps, caption, other, self.longest, generator)

    def unrelated(self, place: int) -> str:
        """Return a caption of another action."""
        return self.captions[self.others[place]][0]

    def spread(self) -> Iterator[int]:
        """Yield all clips in an order in which the first n are spread over the split, for every n."""
        # Steps of the golden ratio. A step that is coprime to the count reaches every clip.
        count = len(self)
        step = max(1, round(0.618 * count))
        while np.gcd(step, count) != 1:
            step += 1
        yield from ((number * step) % count for number in range(count))

    @cached_property
    def by_action(self) -> dict[str, list[int]]:
        """Clips by their action if it is known."""
        result: dict[str, list[int]] = {}
        for place, action in enumerate(self.actions):
            if action:
                result.setdefault(action, []).append(place)
        return result

    def other_wording(self, place: int) -> str:
        """Return another caption of the same motion or action; empty if there is none."""
        captions = self.captions[place]
        for text in captions[1:]:
            if text != captions[0]:
                return text
        same = self.by_action.get(self.actions[place], [place])
        start = same.index(place)
        return next((text for other in [*same[start:], *same] if (text := self.captions[other][0]) != captions[0]), "")


def _others(captions: Sequence[tuple[str, ...]], actions: Sequence[str], rng: np.random.Generator) -> list[int]:
    """Return for each clip another one with an unrelated caption.

    If actions are known (``walk/slow``), the part before the slash differs; otherwise the caption that shares the
    fewest words among a few is taken.
    """
    count, result = len(captions), []
    words = [frozenset(words_of(texts[0])) for texts in captions]
    for place in range(count):
        drawn = [int(other) for other in rng.integers(count, size=_TRIES)]
        drawn = [other for other in drawn if captions[other][0] != captions[place][0]]
        if not drawn:
            drawn = [other for other in range(count) if captions[other][0] != captions[place][0]]
        action = actions[place].partition("/")[0]
        apart = [other for other in drawn if action and actions[other].partition("/")[0] not in ("", action)]
        result.append(apart[0] if apart else min(drawn, key=lambda other: _shared(words[place], words[other])))
    return result


def _shared(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / max(len(first | second), 1)


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    name: str  # name of the change
    family: str  # group of changes
    meaning: str  # what it does
    where: str  # condition for a clip; empty if it applies to all


@dataclass(frozen=True)
class Example:
    """A clip with its change and the prompts that they are scored with."""

    place: int  # number of the clip
    caption: str
    real: Tensor  # [T, D] features of the clip
    changed: Tensor  # [T', D] features of the changed clip, or of the clip itself if the caption is changed
    own: Prompt  # prompt of the clip
    asked: Prompt  # prompt of the changed clip
    unrelated: Prompt  # prompt of another action


class Source(Protocol):
    """Makes the examples of a row."""

    row: Row

    def examples(self, clips: Clips, generator: torch.Generator, limit: int) -> list[Example]:
        """Return examples that are spread over the clips: at most `limit`, all of them for 0."""
        ...


class OfMotion:
    """Examples of a change of motions."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self.row = Row(change.name, change.family, change.meaning, change.where)

    def examples(self, clips: Clips, generator: torch.Generator, limit: int) -> list[Example]:
        """Return clips that the change applies to."""
        result = list(islice(self._changed(clips, generator), limit or None))
        features = clip_features([joints for _, _, joints in result], clips.skeleton)
        return [
            _example(clips, place, caption, rows)
            for (place, caption, _), rows in zip(result, features, strict=True)
            if bool(rows.isfinite().all())
        ]

    def _changed(self, clips: Clips, generator: torch.Generator) -> Iterator[tuple[int, str, Tensor]]:
        for place in clips.spread():
            for caption in clips.captions[place][:_CAPTIONS]:
                scene = clips.scene(place, caption, generator)
                if self._change.applies(scene):
                    yield place, caption, self._change.make(scene)
                    break


class OfCaption:
    """Examples of a change of captions."""

    def __init__(self, change: CaptionChange) -> None:
        self._change = change
        self.row = Row(change.name, "text", change.meaning, "captions that name it")

    def examples(self, clips: Clips, generator: torch.Generator, limit: int) -> list[Example]:
        """Return clips with a caption that the change applies to."""
        return list(islice(self._changed(clips), limit or None))

    def _changed(self, clips: Clips) -> Iterator[Example]:
        for place in clips.spread():
            for caption in clips.captions[place][:_CAPTIONS]:
                if self._change.applies(caption):
                    yield _example(clips, place, caption, asked=self._change.make(caption))
                    break


class OtherWording:
    """Examples of another caption of the same motion, or of the same action."""

    row = Row("other-wording", "harmless", "another caption of the same motion or action", "where there is one")

    def examples(self, clips: Clips, generator: torch.Generator, limit: int) -> list[Example]:
        """Return clips that have another caption."""
        places = (place for place in clips.spread() if clips.other_wording(place))
        return [
            _example(clips, place, clips.captions[place][0], asked=clips.other_wording(place))
            for place in islice(places, limit or None)
        ]


class OfSegments:
    """Examples of two clips one after another: the clips in reverse order, or their captions."""

    def __init__(self, *, texts: bool) -> None:
        self._texts = texts
        if texts:
            self.row = Row("text-segments", "text", "the captions of two segments in the other order", _PAIRS)
        else:
            self.row = Row("swapped-segments", "order", "the segments of a prompt in the other order", _PAIRS)

    def examples(self, clips: Clips, generator: torch.Generator, limit: int) -> list[Example]:
        """Return pairs of clips that are short enough together."""
        return list(islice(self._pairs(clips), limit or None))

    def _pairs(self, clips: Clips) -> Iterator[Example]:
        for place in clips.spread():
            other = clips.others[place]
            pair = [clips.joints(place), clips.joints(other)]
            texts = clips.captions[place][0], clips.captions[other][0]
            frames = len(pair[0]) - 1, len(pair[1]) - 1
            if sum(frames) > clips.longest or texts[0] == texts[1]:
                continue
            joints = [one_after_another(pair, clips.skeleton, clips.fps)]
            if not self._texts:
                joints.append(one_after_another(pair[::-1], clips.skeleton, clips.fps))
            real, *changed = clip_features(joints, clips.skeleton)
            prompt = Prompt(texts, frames, clips.clips[place].key)
            away = Prompt((clips.unrelated(other), clips.unrelated(clips.others[other])), frames, prompt.key)
            asked = Prompt(texts[::-1], frames, prompt.key) if self._texts else prompt
            yield Example(place, " | ".join(texts), real, changed[0] if changed else real, prompt, asked, away)


def _example(clips: Clips, place: int, caption: str, changed: Tensor | None = None, *, asked: str = "") -> Example:
    key, real = clips.clips[place].key, clips.features(place)
    changed = real if changed is None else changed
    prompt, away = (Prompt((text,), (len(real),), key) for text in (caption, clips.unrelated(place)))
    return Example(place, caption, real, changed, prompt, Prompt((asked or caption,), (len(changed),), key), away)


_SOURCES: tuple[Source, ...] = (
    *(OfMotion(change) for change in CHANGES.values() if change.family in ("stillness", "order")),
    OfSegments(texts=False),
    *(OfMotion(change) for change in CHANGES.values() if change.family in ("tempo", "place", "side")),
    *(OfCaption(change) for change in CAPTION_CHANGES.values()),
    OfSegments(texts=True),
    *(OfMotion(change) for change in CHANGES.values() if change.family == "physics"),
    *(OfMotion(change) for change in CHANGES.values() if change.family == "harmless"),
    OtherWording(),
)

SOURCES: Mapping[str, Source] = {source.row.name: source for source in _SOURCES}  # every row, in the order of the table

QUICK = (
    "mean-pose", "held-frame", "swing-0.3", "shuffled-pieces", "tempo-2", "no-path", "other-direction", "mirrored",
    "smaller-body",
)  # fmt: skip
"""Rows of the audit at the start of a run."""
