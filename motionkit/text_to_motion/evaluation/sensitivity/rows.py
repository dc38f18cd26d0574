"""The rows of an audit: what is changed, in a motion, in a caption, or in two clips one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import torch
from torch import Tensor

from motionkit.motion.changes.place_and_time import clip_features, one_after_another
from motionkit.motion.changes.registry import CHANGES, Change
from motionkit.text import CAPTION_CHANGES, CaptionChange, Prompt
from motionkit.text_to_motion.evaluation.sensitivity.bench import Clips

_CAPTIONS = 3
"""Captions of a clip among which one is looked for that a change applies to."""


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        name: Name of the change.
        family: What it takes away.
        meaning: What it does.
        where: Where it applies; empty for everywhere.
    """

    name: str
    family: str
    meaning: str
    where: str


@dataclass(frozen=True)
class Example:
    """A clip with its change, and what each is scored against.

    Attributes:
        place: Number of the clip.
        caption: What is said of it.
        real: ``[T, D]`` features of the clip.
        changed: ``[T', D]`` features of the changed clip, or the clip itself where its caption is changed.
        own: Prompt of the clip.
        asked: Prompt that the changed one is scored against.
        unrelated: Prompt of another action.
    """

    place: int
    caption: str
    real: Tensor
    changed: Tensor
    own: Prompt
    asked: Prompt
    unrelated: Prompt


class Source(Protocol):
    """Makes the examples of a row."""

    row: Row

    def examples(self, clips: Clips, generator: torch.Generator, limit: int) -> list[Example]:
        """Return examples that are spread over the clips: at most `limit`, as many as there are for 0."""
        ...


class OfMotion:
    """Examples of a change of motions."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self.row = Row(change.name, change.family, change.meaning, change.where)

    def examples(self, clips: Clips, generator: torch.Generator, limit: int) -> list[Example]:
        """Return clips that the change applies to."""
        found = list(islice(self._changed(clips, generator), limit or None))
        made = clip_features([joints for _, _, joints in found], clips.skeleton)
        return [
            _example(clips, place, caption, rows)
            for (place, caption, _), rows in zip(found, made, strict=True)
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
    """Examples of two clips one after another: the clips in the other order, or their captions.

    Args:
        texts: Whether the captions change places, and not the clips.
    """

    def __init__(self, *, texts: bool) -> None:
        self._texts = texts
        if texts:
            self.row = Row("text-segments", "text", "the captions of two segments in the other order", _PAIRS)
        else:
            self.row = Row("swapped-segments", "order", "the segments of a prompt in the other order", _PAIRS)

    def examples(self, clips: Clips, generator: torch.Generator, limit: int) -> list[Example]:
        """Return pairs of clips that are not too long together."""
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
            real, *made = clip_features(joints, clips.skeleton)
            own = Prompt(texts, frames, clips.clips[place].key)
            away = Prompt((clips.unrelated(other), clips.unrelated(clips.others[other])), frames, own.key)
            asked = Prompt(texts[::-1], frames, own.key) if self._texts else own
            yield Example(place, " | ".join(texts), real, made[0] if made else real, own, asked, away)


def _example(clips: Clips, place: int, caption: str, changed: Tensor | None = None, *, asked: str = "") -> Example:
    key, real = clips.clips[place].key, clips.features(place)
    changed = real if changed is None else changed
    own, away = (Prompt((text,), (len(real),), key) for text in (caption, clips.unrelated(place)))
    return Example(place, caption, real, changed, own, Prompt((asked or caption,), (len(changed),), key), away)


_PAIRS = "two clips that are short enough together"

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

SOURCES: Mapping[str, Source] = {source.row.name: source for source in _SOURCES}
"""Every row, in the order of the table."""

QUICK = (
    "mean-pose", "held-frame", "swing-0.3", "shuffled-pieces", "tempo-2", "no-path", "other-direction", "mirrored",
    "smaller-body",
)  # fmt: skip
"""Rows that a run looks at before it trains."""
