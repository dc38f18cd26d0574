"""Crops of motions, encoded together in a few padded batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from motionkit.motion import DataRecord
from motionkit.nn import zeroed
from motionkit.text import Prompt, TextEncoder

_SMALLEST = 16
_SLACK = 1.25
_MOST_FRAMES = 32768
_CHUNK = 64


@dataclass(frozen=True)
class Crop:
    """Frames ``start .. start + length - 1`` of motion `row`."""

    row: int
    start: int
    length: int


@dataclass(frozen=True)
class CropLatents:
    """Encoded crops."""

    mu: Tensor  # [S, D] latent means, not normalised; zeros if a crop could not be encoded
    finite: Tensor  # [S] bool, False if a crop has too few frames for the encoder, or values that are not finite
    clamped: Tensor  # [S] share of the crop's values that were clamped


def buckets(lengths: Sequence[int]) -> list[list[int]]:
    """Group indices by similar length, to keep padding small.

    A bucket ends if it has 16 items and the next is a quarter longer than its shortest, or if it would have more than
    32768 padded frames (which bounds memory). Shortest items come first.
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        group = groups[-1] if groups else []
        longer = bool(group) and len(group) >= _SMALLEST and lengths[index] > _SLACK * lengths[group[0]]
        if not group or longer or (len(group) + 1) * lengths[index] > _MOST_FRAMES:
            groups.append([index])
        else:
            group.append(index)
    return groups


def encode_crops(
    features: Tensor,
    crops: Sequence[Crop],
    *,
    normalize: Callable[[Tensor], Tensor],
    encode: Callable[[Tensor, Tensor], Tensor],
    latent: int,
    clamp: float = 0.0,
    least: int = 1,
) -> CropLatents:
    """Encode crops of a batch of motions in length buckets; differentiable in `features`.

    Args:
        features: ``[N, T, F]`` unnormalised; frames outside all crops may hold anything.
        crops: S crops; one of fewer than `least` frames is not encoded.
        normalize: Normalises features ``[C, L, F]``.
        encode: Encodes ``[C, L, F]`` normalised features, zeros past a crop's end, with ``[C]`` lengths as ``[C, D]``
            latents.
        latent: Width D.
        clamp: Clamp normalised values to [-clamp, clamp]; 0 does not.
        least: Fewest frames that can be encoded.
    """
    device, count = features.device, len(crops)
    filled = [index for index, crop in enumerate(crops) if crop.length >= least]
    order: list[int] = []
    mus, oks, cuts = [], [], []
    for group in buckets([crops[index].length for index in filled]):
        chosen = [filled[index] for index in group]
        order += chosen
        table = torch.tensor([(crops[i].row, crops[i].start, crops[i].length) for i in chosen], device=device)
        # [C] each for the C crops of a bucket, of which the longest has L frames.
        rows, starts, lengths = table.unbind(1)
        frames = torch.arange(max(crops[i].length for i in chosen), device=device)
        mask = frames < lengths[:, None]
        # Gather [C, L, F]; indices past a crop's end are valid frames that the mask removes.
        raw = features[rows[:, None], (starts[:, None] + frames).clamp(max=features.shape[1] - 1)]
        x = zeroed(normalize(raw.float()), mask)
        size = x.detach().abs()
        largest = size.amax((1, 2))
        # A crop with NaN is encoded as zeros, which keeps its gradient finite, and reported in `finite`.
        ok = largest.isfinite()
        if not bool(ok.all()):
            x, size = (torch.where(ok[:, None, None], part, 0.0) for part in (x, size))
        cut = x.new_zeros(len(chosen))
        if clamp and not bool((largest <= clamp).all()):  # two passes that most crops do without
            cut = (size > clamp).sum((1, 2)) / (lengths * x.shape[2])
            x = x.clamp(-clamp, clamp)
        mus.append(encode(x, lengths))
        oks.append(ok)
        cuts.append(cut)
    if not order:
        nothing = torch.zeros(count, device=device)
        return CropLatents(features.new_zeros(count, latent), nothing.bool(), nothing)
    # back[i] is crop i's row among the encoded ones; crops that are too short get the row of zeros appended below.
    back = torch.full((count,), len(order), dtype=torch.int64)
    back[torch.tensor(order)] = torch.arange(len(order))
    back = back.to(device)
    mu, ok, cut = torch.cat(mus), torch.cat(oks), torch.cat(cuts)
    return CropLatents(
        torch.cat([mu, mu.new_zeros(1, latent)])[back],
        torch.cat([ok, ok.new_zeros(1)])[back],
        torch.cat([cut, cut.new_zeros(1)])[back],
    )


class JointSpace(nn.Module):
    """A network that maps texts and motions to one space of D dimensions: a TMR, or a text-to-motion evaluator.

    Attributes:
        mean: ``[F]`` mean of the features that it reads.
        trained_on: Dataset it was trained on, if known.
        text_model: What encodes its texts, if that is another network.
    """

    mean: Tensor
    trained_on: DataRecord | None
    text_model: TextEncoder | None

    def fingerprint(self) -> str:
        """Return the fingerprint of weights and statistics."""
        raise NotImplementedError

    def check_width(self, features: Tensor) -> None:
        """Refuse features that it cannot read."""
        raise NotImplementedError

    def encode_crops(self, features: Tensor, crops: Sequence[Crop], *, clamp: float = 0.0) -> CropLatents:
        """Encode crops of ``[N, T, F]`` unnormalised features."""
        raise NotImplementedError

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return ``[N, D]``."""
        raise NotImplementedError

    def whole_text(self, prompt: Prompt) -> str:
        """Return the text of a whole prompt."""
        raise NotImplementedError


def encode_clips(
    model: JointSpace,
    clips: Sequence[Tensor],  # N clips [T, F], unnormalised
    crops: Sequence[Crop] = (),  # part of each clip, with any row; empty: whole clips
    *,
    progress: Callable[[int], None] | None = None,  # called with the number of clips done since the last call
) -> Tensor:
    """Return latents ``[N, D]`` of clips of any lengths, a few clips at a time."""
    crops = crops or [Crop(0, 0, len(clip)) for clip in clips]
    latents = []
    for first in range(0, len(clips), _CHUNK):
        part = clips[first : first + _CHUNK]
        batch = torch.nn.utils.rnn.pad_sequence(list(part), batch_first=True)
        rows = [Crop(i, crop.start, crop.length) for i, crop in enumerate(crops[first : first + _CHUNK])]
        latents.append(model.encode_crops(batch.to(model.mean.device), rows).mu)
        if progress is not None:
            progress(len(part))
    return torch.cat(latents)
