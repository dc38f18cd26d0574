"""Hard negatives: changed copies of the clips of a batch, and of their captions.

A copy depends on the seed, its clip and its number alone, so that it can be cached: every clip gets a few, which take
turns from pass to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.contracts.dataset import TextClip
from motionkit.errors import MotionkitError, did_you_mean
from motionkit.motion import Skeleton
from motionkit.motion.changes.place_and_time import clip_features, clip_joints
from motionkit.motion.changes.registry import CHANGES, Scene
from motionkit.rl import stable_hash
from motionkit.text import CAPTION_CHANGES, is_english
from motionkit.text_to_motion.pairs.data import PairBatch, below, crop_of
from motionkit.text_to_motion.pairs.settings import FAMILIES

_COPIES = 6  # most copies of a clip, over all its captions; at least one per caption
_MEMORY = 1 << 30  # largest cache of copies, in bytes; if not even one per clip fits, each step makes new ones
_TRIES = 8  # draws of a clip with another caption
_OTHER = "lively-statue"  # the change that needs another clip

Copy = tuple[int, int, int]  # number of the clip, of its caption and of the copy


class ChangedMotions(NamedTuple):
    """Changed copies of some clips of a batch."""

    features: Tensor  # [K, T, F], not normalised, zeros past an end
    lengths: Tensor  # [K] int64
    places: list[int]  # K rows of the batch
    generator: torch.Generator  # for further draws


class ChangedCaptions(NamedTuple):
    """Changed captions of some clips of a batch."""

    captions: list[str]  # K texts
    places: list[int]  # K rows of the batch
    generator: torch.Generator  # for further draws


class Negatives:
    """Draws and makes changed copies.

    Args:
        clips: The training clips.
        kinds: Weight of each kind, of `CHANGES` and `CAPTION_CHANGES`. A kind is drawn by weight among those that apply
            to the clip, or to the caption.
        share: Share of the clips of a batch with a changed copy; captions are changed whenever possible.
        skeleton: Body of the clips.
        fps: Frames per second.
        max_length: Longest copy in frames.
        seed: Seed of the run.
        random_crop: As in `PairBatches`.
        crop_share: As in `PairBatches`.
        crop_min: As in `PairBatches`.
        name: As in `PairBatches`.
    """

    def __init__(
        self,
        clips: Sequence[TextClip],
        kinds: Mapping[str, float],
        *,
        share: float,
        skeleton: Skeleton,
        fps: float,
        max_length: int,
        seed: int,
        random_crop: bool = True,
        crop_share: float = 0.0,
        crop_min: int = 32,
        name: str = "tmr",
    ) -> None:
        self._clips = clips
        self.kinds = _known(kinds)  # weight of each kind
        self._motion = {name: weight for name, weight in kinds.items() if name in CHANGES}
        self._text = {name: weight for name, weight in kinds.items() if name in CAPTION_CHANGES}
        self._share, self._skeleton, self._fps, self._max = share, skeleton, fps, max_length
        self._random_crop, self._crop_share, self._crop_min = random_crop, crop_share, crop_min
        self._seed, self._name = seed, name
        size = sum(clip.features.numel() * clip.features.element_size() for clip in clips)
        captions = max((len(clip.captions) for clip in clips), default=1)
        # Copies per caption, at least one if the cache is large enough.
        self._count = min(max(_COPIES // captions, 1), _MEMORY // max(size * captions, 1))
        self._cache: dict[Copy, Tensor | None] = {}
        # Changed captions that the text model cannot encode; see `settle`
        self.unreadable: Set[str] = frozenset()

    @property
    def of_motions(self) -> bool:
        """Whether motions are changed."""
        return bool(self._motion) and self._share > 0

    @property
    def of_captions(self) -> bool:
        """Whether captions are changed."""
        return bool(self._text)

    def settle(self, captions: Sequence[str], label: str, readable: Callable[[Sequence[str]], Set[str]]) -> list[str]:
        """Find the kinds and captions that cannot be changed, and return notes about them.

        Args:
            captions: All captions of training, mirrored ones included.
            label: The dataset's name for messages.
            readable: Returns those of the texts that the text model can encode.
        """
        absent = [name for name in self._motion if not self._applies_somewhere(name)]
        changed = {name: self._changed_captions(name, captions) for name in self._text}
        absent += [name for name, texts in changed.items() if not texts]
        if len(absent) == len(self.kinds):
            raise MotionkitError(
                f"no change of --negatives applies to a clip of {label}: {', '.join(absent)}.",
                why="clips are too short or hardly move, or captions name nothing of the kind (in English).",
                fix="choose other kinds, or --negatives none.",
            )
        texts = list(dict.fromkeys(text for texts_of_kind in changed.values() for text in texts_of_kind))
        known = readable(texts)
        self.unreadable = frozenset(texts) - known
        notes = []
        if absent:
            notes.append(
                f"no clip or caption of {label} can be changed in these ways of --negatives: {', '.join(absent)} "
                "(clips are too short or hardly move, or captions name nothing of the kind in English). The other ways "
                "are used; there is nothing to do."
            )
        if foreign := [text for text in captions if not is_english(text)]:
            notes.append(
                f"{len(foreign)} of {len(captions)} captions are not English, such as {foreign[0][:60]!r}: no changed "
                "copies are made of them (of Chinese ones: left and right alone), and clips with captions in other "
                "languages are not mirrored."
            )
        if self.unreadable:
            notes.append(
                f"{len(self.unreadable)} of {len(texts)} changed captions are not used, because the text model cannot "
                "read them; MiniLM can (pip install motionkit[text], --text.encoder minilm)."
            )
        return notes

    def _applies_somewhere(self, name: str) -> bool:
        scenes = (
            self._scene(row, chosen, 0) for row, clip in enumerate(self._clips) for chosen in range(len(clip.captions))
        )
        return any(CHANGES[name].applies(scene) for scene in scenes)

    def _changed_captions(self, name: str, captions: Sequence[str]) -> list[str]:
        change = CAPTION_CHANGES[name]
        return [change.make(text) for text in captions if change.applies(text)]

    def motions(self, batch: PairBatch, rows: slice) -> ChangedMotions | None:
        """Return changed copies of clips in `rows` of a batch; None if there is none."""
        if not self.of_motions:
            return None
        generator = self._generator("motions", batch.step)
        drawn = (torch.rand(len(batch.rows), generator=generator) < self._share).tolist()
        number = batch.epoch % self._count if self._count else batch.epoch
        keys = {
            place: (batch.rows[place], batch.chosen[place], number)
            for place in range(len(batch.rows))[rows]
            if drawn[place]
        }
        copies = self._copies(list(keys.values()))
        result = {place: copy for place, key in keys.items() if (copy := copies[key]) is not None}
        if not result:
            return None
        lengths = torch.tensor([len(copy) for copy in result.values()])
        padded = torch.nn.utils.rnn.pad_sequence(list(result.values()), batch_first=True)
        if batch.varied is not None:
            padded = batch.varied.motions(padded, list(result))
        return ChangedMotions(padded, lengths, list(result), generator)

    def captions(self, batch: PairBatch, rows: slice) -> ChangedCaptions | None:
        """Return changed captions of clips in `rows` of a batch; None if there is none."""
        generator = self._generator("captions", batch.step)
        drawn = [self._changed_caption(caption, generator) for caption in batch.captions]
        result = {place: text for place in range(len(drawn))[rows] if (text := drawn[place])}
        return ChangedCaptions(list(result.values()), list(result), generator) if result else None

    def _changed_caption(self, caption: str, generator: torch.Generator) -> str:
        """Return a changed caption; empty if no kind applies, or if the text model cannot encode it."""
        weights = {name: weight for name, weight in self._text.items() if CAPTION_CHANGES[name].applies(caption)}
        if not weights:
            return ""
        changed = CAPTION_CHANGES[_drawn(weights, generator)].make(caption)
        return "" if changed in self.unreadable else changed

    def _copies(self, keys: Sequence[Copy]) -> dict[Copy, Tensor | None]:
        """Return copies, each ``[T, F]``, or None if no kind applies; those not in the cache are made together."""
        result = {key: self._cache[key] for key in keys if key in self._cache}
        joints = {key: self._change(*key) for key in keys if key not in result}
        changed = {key: value for key, value in joints.items() if value is not None}
        rows = clip_features(list(changed.values()), self._skeleton)
        # float32 like the clips: another precision would give the copies away.
        copies = dict.fromkeys(joints) | {key: value.float().clone() for key, value in zip(changed, rows, strict=True)}
        if self._count:
            self._cache |= copies
        return result | copies

    def _change(self, row: int, chosen: int, number: int) -> Tensor | None:
        """Return the joints of copy `number` of a clip under one of its captions; None if no kind applies."""
        scene = self._scene(row, chosen, number)
        weights = dict(self._motion)
        while weights:
            name = _drawn(weights, scene.generator)
            del weights[name]
            if CHANGES[name].applies(scene):
                return CHANGES[name].make(scene)
        return None

    def _scene(self, row: int, chosen: int, number: int) -> Scene:
        clip = self._clips[row]
        generator = self._generator(f"copy {row} {chosen}", number)
        start, length = crop_of(
            len(clip.features),
            generator,
            longest=self._max,
            shortest=self._crop_min,
            share=self._crop_share,
            random=self._random_crop,
        )
        return Scene(
            clip_joints([clip.features[start : start + length]], self._skeleton)[0],
            self._skeleton,
            self._fps,
            clip.captions[chosen],
            other=self._other(clip, generator) if _OTHER in self._motion else None,
            longest=self._max + 1,
            generator=generator,
        )

    def _other(self, clip: TextClip, generator: torch.Generator) -> Tensor | None:
        """Return the joints of a clip with other captions; None if none was drawn."""
        for _ in range(_TRIES):
            other = self._clips[below(len(self._clips), generator)]
            if not set(other.captions) & set(clip.captions):
                return clip_joints([other.features], self._skeleton)[0]
        return None

    def _generator(self, purpose: str, number: int) -> torch.Generator:
        key = f"{self._name}/negatives/{purpose}/{self._seed}/{number}"
        return torch.Generator().manual_seed(stable_hash(key) % 2**63)


def _known(kinds: Mapping[str, float]) -> dict[str, float]:
    """Refuse kinds that are unknown or that leave captions true."""
    useful = {name for name, change in CHANGES.items() if change.family != "harmless"} | CAPTION_CHANGES.keys()
    names = [*FAMILIES, *sorted(useful)]
    if odd := [name for name in kinds if name not in useful]:
        raise MotionkitError(
            f"--negatives names {odd[0]!r}, which "
            + ("leaves every caption true." if odd[0] in CHANGES else "is not a kind of change."),
            fix=f"{did_you_mean(odd[0], names)} available: {', '.join(names)}.".strip(),
            choices=names,
        )
    return dict(kinds)


def _drawn(weights: Mapping[str, float], generator: torch.Generator) -> str:
    """Draw a name by weight."""
    index = torch.multinomial(torch.tensor(list(weights.values())), 1, generator=generator)
    return list(weights)[int(index)]
