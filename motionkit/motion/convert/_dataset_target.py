"""Writing clips as HumanML3D or KIT features: parts, mirror images, captions with tags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels import physics_sums
from motionkit.motion._clip import Clip
from motionkit.motion._skeleton import HUMANML, KIT, Skeleton
from motionkit.motion.convert._outcome import Piece
from motionkit.motion.corpus._captions import Caption, clean_caption
from motionkit.motion.corpus._folder import write_clip
from motionkit.motion.corpus._tagger import tag_caption
from motionkit.motion.features import joints_to_features, mirror, mirror_text
from motionkit.motion.rigs import kit_bones, to_body

MIN_FRAMES = {"humanml": 40, "kit": 24}
"""Shortest clip in feature frames that HumanML3D's loaders take."""

MAX_FRAMES = 199
"""Longest; longer clips are cut into parts."""


@dataclass(frozen=True)
class FeatureTarget:
    """A dataset folder in HumanML3D's layout.

    Each clip is put onto the format's target bones, onto the floor, at the origin and facing +Z; features are
    computed in float64. Clips that came as features of the same body are written as they are.

    Attributes:
        body: ``humanml`` (22 joints, 20 fps) or ``kit`` (21 joints, 12.5 fps).
        mirrored: Also write each clip's mirror image as ``M<id>``, its captions mirrored (as HumanML3D does).
    """

    body: Literal["humanml", "kit"] = "humanml"
    mirrored: bool = False

    for_training: ClassVar[bool] = True

    @property
    def skeleton(self) -> Skeleton:
        """The body of the features."""
        return HUMANML if self.body == "humanml" else KIT

    def describe(self) -> dict[str, Any]:
        """Return body and mirroring."""
        return {"to": self.body, "mirrored": self.mirrored}

    def write(self, clip: Clip, key: str, folder: Path) -> Sequence[Piece]:
        """Write a clip's parts, then their mirror images; parts that are too short are returned without files."""
        ready = clip.features if clip.features is not None and clip.features.shape[-1] == self.skeleton.width else None
        joints = to_body(clip.motion, self.skeleton, self.skeleton.fps)
        if len(joints) < 2:
            raise MotionkitError("the motion has a single frame.")
        pieces = list(self._pieces(clip, key, joints, ready, self._captions(clip, mirrored=False), folder))
        if self.mirrored:
            turned = mirror(joints, self.skeleton)
            pieces += self._pieces(clip, f"M{key}", turned, None, self._captions(clip, mirrored=True), folder)
        return pieces

    def _pieces(
        self, clip: Clip, key: str, joints: Tensor, ready: Tensor | None, captions: Sequence[Caption], folder: Path
    ) -> Iterator[Piece]:
        """Cut into parts of at most `MAX_FRAMES` rows and write each."""
        frames = len(joints) - 1 if ready is None else len(ready)
        count = max(1, -(-frames // MAX_FRAMES))
        bones = kit_bones() if self.skeleton is KIT else None
        for part in range(count):
            start, end = frames * part // count, frames * (part + 1) // count
            # A part keeps the frame after its last one, which its velocities need; ready features have used it already.
            features = (
                joints_to_features(joints[start : end + 1].double(), self.skeleton, bones=bones).float()
                if ready is None
                else ready[start:end]
            )
            texts = tuple(_within(captions, start / self.skeleton.fps, end / self.skeleton.fps))
            yield self._put(f"{key}_p{part}" if count > 1 else key, features, texts, clip, folder)

    def _captions(self, clip: Clip, *, mirrored: bool) -> tuple[Caption, ...]:
        texts = [Caption(text) for text in clip.captions] + list(clip.timed)
        out = []
        for caption in texts:
            text = clean_caption(mirror_text(caption.text) if mirrored else caption.text)
            if text:
                tokens = caption.tokens if caption.tokens and not mirrored else tag_caption(text)
                out.append(Caption(text, tokens, caption.start, caption.end))
        return tuple(out)

    def _put(self, key: str, features: Tensor, captions: tuple[Caption, ...], clip: Clip, folder: Path) -> Piece:
        """Write one part, unless it is too short."""
        if not bool(torch.isfinite(features).all()):
            raise MotionkitError("its features are not finite.")
        if len(features) < MIN_FRAMES[self.body]:
            return Piece(key, len(features), split=clip.split, group=clip.group, captions=len(captions))
        files, joints = write_clip(folder, key, features, captions, self.skeleton)
        skate, jerk = physics_sums(
            joints[None], torch.tensor([len(joints)]), fps=self.skeleton.fps, feet=self.skeleton.feet
        )
        figures = {"skate": float(skate), "jerk": float(jerk)}
        return Piece(key, len(joints), files, clip.split, clip.group, len(captions), figures)


def _within(captions: Sequence[Caption], start: float, end: float) -> Iterator[Caption]:
    """Yield the captions of a part of a clip: timed ones shifted, and dropped where the part has none of them."""
    for caption in captions:
        if caption.whole:
            yield caption
        elif caption.start < end and caption.end > start:
            shifted = max(caption.start - start, 0.0), min(caption.end, end) - start
            yield Caption(caption.text, caption.tokens, *shifted)
