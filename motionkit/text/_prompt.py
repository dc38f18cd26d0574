"""A prompt: one or several segments of text with a length each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from motionkit.errors import MotionkitError

SEPARATOR = " | "


@dataclass(frozen=True)
class Prompt:
    """A text request to a policy.

    Attributes:
        segments: K texts, one per segment, in order.
        frames: K lengths in frames, one per segment; their sum is the motion's length.
        key: Identity of the prompt in its dataset; two prompts with the same text keep different keys.
        source_ids: Clip ids the segments were taken from, where there are any.

    Example:
        >>> prompt = Prompt.parse("walk | wave", fps=20, durations=[3, 2])
        >>> prompt.segments, prompt.frames, prompt.bounds
        (('walk', 'wave'), (60, 40), ((0, 60), (60, 100)))
    """

    segments: tuple[str, ...]
    frames: tuple[int, ...]
    key: str = ""
    source_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.segments or len(self.segments) != len(self.frames):
            raise MotionkitError(
                f"{len(self.segments)} segment(s) need as many lengths, got {len(self.frames)}.",
                fix="give --durations one value per ' | '-separated segment.",
            )
        if any(frames < 1 for frames in self.frames):
            raise MotionkitError(f"segment lengths must be at least one frame, got {self.frames}.")
        if any(not text.strip() for text in self.segments):
            raise MotionkitError("a prompt has an empty segment.", fix="remove the extra ' | '.")

    @property
    def text(self) -> str:
        """The segments as one sentence, for an encoder that reads the whole text: ``"a, then b"``."""
        return (
            ", then ".join(text.strip().rstrip(".") for text in self.segments)
            if len(self.segments) > 1
            else self.segments[0]
        )

    @property
    def length(self) -> int:
        """Total number of frames."""
        return sum(self.frames)

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Half-open frame range of each segment."""
        ends, total = [], 0
        for frames in self.frames:
            ends.append((total, total + frames))
            total += frames
        return tuple(ends)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        fps: float,
        durations: Sequence[float] | None = None,
        frames: int | None = None,
        key: str = "",
    ) -> Prompt:
        """Split `text` at ``" | "`` and give each segment its share of the time.

        Args:
            text: One or several segments.
            fps: Frames per second.
            durations: Seconds per segment.
            frames: Total length, shared equally, when no durations are given.
            key: Identity; the text itself when empty.
        """
        segments = tuple(part.strip() for part in text.split(SEPARATOR))
        if durations is not None:
            lengths = tuple(int(seconds * fps) for seconds in durations)
        else:
            total, count = frames or int(6 * fps), len(segments)
            lengths = tuple(total * (k + 1) // count - total * k // count for k in range(count))
        return cls(segments, lengths, key or text)
