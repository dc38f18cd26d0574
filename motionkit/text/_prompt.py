"""A prompt: one or several segments of text with a length each; and the protocol and features of text encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.page.wording import count

SEPARATOR = " | "
"""Separates the segments of a prompt that is typed as one text."""


@dataclass(frozen=True)
class TextFeatures:
    """Features of texts, padded to the longest."""

    tokens: Tensor  # ``[B, L, F]`` float32; L = 1 for encoders that return one vector per text
    mask: Tensor  # ``[B, L]`` bool, True = valid

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def select(self, index: Tensor) -> TextFeatures:
        """Return the rows `index` (``[N]`` int64), repeats allowed."""
        return TextFeatures(self.tokens[index], self.mask[index])

    def to(self, device: torch.device | str) -> TextFeatures:
        """Move to `device`."""
        return TextFeatures(self.tokens.to(device), self.mask.to(device))


class TextEncoder(Protocol):
    """Turns texts into features; frozen and deterministic.

    An encoder that runs a model may also have ``source: str``, the folder or hub id of that model.
    """

    name: str  # Registry name: ``clip``, ``distilbert``, ``minilm``, ``stored``
    width: int  # F of the features
    # Changes if a text would get other features (model, revision, options). In the form ``name:digest`` it identifies a
    # model independently of its path; `motionkit.text.TextRecord` compares it when a trained model is opened.
    fingerprint: str

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Encode each text, in order. A row does not depend on the other texts."""
        ...


def source_of(encoder: TextEncoder) -> str:
    """Return the folder or hub id that an encoder was opened from; empty for one that was opened from none."""
    source: str = getattr(encoder, "source", "")
    return source


class CachedEncoder:
    """A `TextEncoder` that encodes each distinct text once; rows are those of the inner encoder bit for bit."""

    def __init__(self, encoder: TextEncoder) -> None:
        self.encoder = encoder
        self.name = encoder.name
        self.width = encoder.width
        self.fingerprint = encoder.fingerprint
        self.source = source_of(encoder)
        self._rows: dict[str, Tensor] = {}

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return features of `texts`, in order, padded with zeros to the longest."""
        if new := [text for text in dict.fromkeys(texts) if text not in self._rows]:
            features = self.encoder.encode(new)
            counts = features.mask.sum(1).tolist()
            for text, tokens, count in zip(new, features.tokens, counts, strict=True):
                self._rows[text] = tokens[:count].clone()
        return pad_rows([self._rows[text] for text in texts])


def pad_rows(rows: Sequence[Tensor]) -> TextFeatures:
    """Stack rows ``[L_i, F]`` into features, zeros past each row's end."""
    tokens = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
    lengths = torch.tensor([row.shape[0] for row in rows], device=tokens.device)
    return TextFeatures(tokens, torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None])


@dataclass(frozen=True)
class Prompt:
    """A text request to a policy.

    Example:
        >>> prompt = Prompt.parse("walk | wave", fps=20, durations=[3, 2])
        >>> prompt.segments, prompt.frames, prompt.bounds
        (('walk', 'wave'), (60, 40), ((0, 60), (60, 100)))
    """

    segments: tuple[str, ...]  # K texts, one per segment, in order
    frames: tuple[int, ...]  # K lengths in frames, one per segment; their sum is the motion's length
    key: str = ""  # Identity of the prompt in its dataset; two prompts with the same text have different keys
    source_ids: tuple[str, ...] = ()  # Ids of the clips that the segments were taken from, if any
    # What is asked for beside the text, by name, such as the first heading; plain values. A policy says what it reads.
    extras: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.segments or len(self.segments) != len(self.frames):
            raise MotionkitError(
                f"{count(len(self.frames), 'length')} for {count(len(self.segments), 'segment')}.",
                fix="give --durations one value per ' | '-separated segment.",
            )
        if any(frames < 1 for frames in self.frames):
            raise MotionkitError(
                f"segment lengths must be at least one frame, got {self.frames}.", fix="give each segment more time."
            )
        if any(not text.strip() for text in self.segments):
            raise MotionkitError("a prompt has an empty segment.", fix="remove the extra ' | '.")
        for text in self.segments:
            try:
                text.encode()
            except UnicodeEncodeError as error:  # what was typed or piped in had another encoding
                raise MotionkitError(
                    f"the text {text!a} is not UTF-8.",
                    fix="write it in UTF-8, such as by a terminal that is set to it.",
                ) from error

    @property
    def text(self) -> str:
        """The segments as one sentence, for an encoder that reads the whole text: ``"a, then b"``."""
        if len(self.segments) == 1:
            return self.segments[0]
        return ", then ".join(text.strip().rstrip(".") for text in self.segments)

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
