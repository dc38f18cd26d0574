"""Random numbers of a run: no draw depends on the batch, or the process, that it is drawn in.

The noise of samples (`NoiseSource`) is counter-based. Its key is a 64-bit hash of (seed, step, prompt, sample,
timestep); element i of a sample hashes key + counter with splitmix64 (Steele et al. 2014) and turns the two halves of
the hash into a pair of normals (Box and Muller 1958). With a `LowPass`, the samples of a prompt differ in the low
frequencies of the step noise alone. `RowNoise` draws numbers for the rows of an update, and `categorical` turns
uniform numbers into classes.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.nn import zeroed
from motionkit.rl._rollout import StepNoise

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_ALL = (1 << 64) - 1
_INITIAL = -1
_GROUP = -1  # number of a sample that no prompt has: the noise that all samples of a prompt share
_LANE = 64  # normals come in blocks of 64 cosines, 64 sines: a longer motion only appends blocks, never changes one
_CHUNK = 1 << 17  # hashes worked on at a time on the CPU, so that the dozen passes stay in cache


def _signed(value: int) -> int:
    """Read the low 64 bits as two's complement, which is how torch holds them."""
    value &= _ALL
    return value - (1 << 64) if value >> 63 else value


def stable_hash(text: str) -> int:
    """Return a signed 64-bit hash of `text` that is the same in every process and version (BLAKE2b)."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _mix_number(value: int) -> int:
    value &= _ALL
    value = ((value ^ (value >> 30)) * _FIRST) & _ALL
    value = ((value ^ (value >> 27)) * _SECOND) & _ALL
    return value ^ (value >> 31)


def _mix(z: Tensor) -> Tensor:
    """splitmix64's finaliser, in place on int64; torch's >> keeps the sign, so the copied sign bits are masked off."""
    for shift, factor in ((30, _FIRST), (27, _SECOND), (31, None)):
        moved = z >> shift
        moved &= (1 << (64 - shift)) - 1
        z ^= moved
        if factor is not None:
            z *= _signed(factor)
    return z


def _absorb(key: Tensor, value: Tensor) -> Tensor:
    return _mix(key + value + _signed(_GOLDEN))


def noise_key(seed: int, step: int, timestep: int, prompts: Tensor, samples: Tensor) -> Tensor:
    """Hash (seed, step, timestep, prompt, sample) to ``[N]`` int64 keys.

    Args:
        seed: Run seed.
        step: Training step; any integer.
        timestep: Trained index the step leaves, or -1 for initial noise.
        prompts: ``[N]`` int64, `stable_hash` of the prompt's key.
        samples: ``[N]`` int64, number of the sample within its prompt.
    """
    key = 0
    for value in (seed, step, timestep):
        key = _mix_number(key + value + _GOLDEN)
    start = torch.full_like(prompts, _signed(key))
    return _absorb(_absorb(start, prompts), samples)


def _normals(keys: Tensor, counters: Tensor) -> Tensor:
    """Turn ``[R]`` keys and ``[B * 64]`` scaled counters into ``[R, B, 128]`` normals."""
    # [R, C] 64-bit hashes, seen as [R, 2 C] 32-bit halves.
    bits = _mix(keys[:, None] + counters).view(torch.int32)  # low and high halves, neighbours in memory
    low, high = bits[..., 0::2], bits[..., 1::2]
    # 31 bits keep small uniforms finely spaced, which is where the tail comes from; + 1/2 keeps log finite.
    radius = ((low & 0x7FFFFFFF).to(torch.float32) + 0.5).mul_(2.0**-31).log_().mul_(-2.0).sqrt_()
    # Box-Muller: radius sqrt(-2 log u) with u in (0, 1), angle in [-pi, pi).
    angle = high.to(torch.float32).mul_(math.pi * 2.0**-31)
    shape = (len(keys), -1, _LANE)
    radius = radius.view(shape)
    return torch.cat([radius * angle.cos().view(shape), radius * angle.sin().view(shape)], dim=-1)


def gaussian(keys: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Draw a standard normal tensor per key.

    A longer leading dimension of `shape` only appends: the first frames of a sample do not depend on the padding.

    Args:
        keys: ``[N]`` int64 from `noise_key`.
        shape: Shape of one sample, such as ``(T, D)``.

    Returns:
        ``[N, *shape]`` float32 on the device of `keys`.
    """
    count = math.prod(shape)
    # Each hash gives two normals; a block is 64 hashes, so 128 normals.
    blocks = -(-count // (2 * _LANE))
    counters = torch.arange(1, blocks * _LANE + 1, device=keys.device) * _signed(_GOLDEN)
    rows = max(1, _CHUNK // len(counters)) if keys.device.type == "cpu" else max(1, len(keys))
    width = max(_LANE, _CHUNK // _LANE * _LANE) if keys.device.type == "cpu" else len(counters)
    out = torch.empty(len(keys), blocks, 2 * _LANE, device=keys.device)
    for row in range(0, len(keys), rows):
        for column in range(0, len(counters), width):
            part = _normals(keys[row : row + rows], counters[column : column + width])
            out[row : row + rows, column // _LANE : column // _LANE + part.shape[1]] = part
    return out.view(len(keys), -1)[:, :count].reshape(len(keys), *shape)


@dataclass(frozen=True)
class LowPass:
    """Low-pass filter: projection of each sample, over its valid frames, on the cosines below a frequency.

    Row k of the orthonormal DCT-II over L frames has ``k / (2 L)`` periods per frame. With B the rows below the
    frequency, the projection is ``B'B``: symmetric, and applying it twice is applying it once.

    Args:
        frequency: Hz; the first ``2 L frequency / fps`` rows are kept, rounded, at least one.
        fps: Frames per second.

    Example:
        >>> still = torch.ones(1, 8, 1)
        >>> trembling = torch.tensor([1.0, -1.0] * 4).view(1, 8, 1)
        >>> low = LowPass(3.0, fps=20.0)
        >>> low(still + trembling, torch.tensor([8])).flatten().double().numpy().round(2).tolist()
        [1.25, 1.21, 1.14, 1.05, 0.95, 0.86, 0.79, 0.75]
    """

    frequency: float
    fps: float
    _bases: dict[tuple[int, int, torch.device], Tensor] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0.0 < self.frequency < self.fps / 2:
            raise MotionkitError(
                f"a low-pass at {self.frequency:g} Hz does not fit motions of {self.fps:g} frames per second.",
                why=f"they contain no frequency above {self.fps / 2:g} Hz.",
                fix=f"rollout.low_pass takes more than 0 and less than {self.fps / 2:g}; 0 switches it off.",
            )

    def rows(self, length: int) -> int:
        """Return how many cosines a motion of `length` frames keeps."""
        return max(1, round(2 * length * self.frequency / self.fps))

    def __call__(self, values: Tensor, lengths: Tensor) -> Tensor:
        """Project.

        Args:
            values: ``[N, T, D]``.
            lengths: ``[N]`` int64 valid frames, at most T.

        Returns:
            ``[N, T, D]``, 0 from each sample's length on.
        """
        frames = values.shape[1]
        # [N, R, T]: the rows of each sample, zeros behind its last row and its last frame.
        basis = torch.stack([self._basis(length, frames, values.device) for length in lengths.tolist()])
        inside = torch.arange(frames, device=values.device) < lengths[:, None]
        values = zeroed(values, inside)  # 0 * NaN of the padding would be NaN
        return basis.transpose(1, 2) @ (basis @ values)

    def _basis(self, length: int, frames: int, device: torch.device) -> Tensor:
        key = (length, frames, device)
        if key not in self._bases:
            k, n = torch.arange(self.rows(length), dtype=torch.float64), torch.arange(length, dtype=torch.float64)
            cosines = (2 / length) ** 0.5 * torch.cos(math.pi / length * k[:, None] * (n + 0.5))
            cosines[0] = length**-0.5
            table = torch.zeros(self.rows(frames), frames, dtype=torch.float64)
            table[: len(k), :length] = cosines
            self._bases[key] = table.to(torch.float32).to(device)
        return self._bases[key]


@dataclass(frozen=True)
class NoiseSource:
    """All noise of a run, by seed.

    Args:
        seed: Run seed.
        initial: ``independent`` start per sample, one per ``group`` (all samples of a prompt), or ``antithetic``
            (sample 2k + 1 starts at minus sample 2k's).
        antithetic: Sample 2k + 1 gets minus the step noise of sample 2k. Each sample is still standard normal.
        low_pass: Samples of a prompt differ in the low frequencies of the step noise alone, and share the rest:
            ``eps_i = P e_i + (I - P) e_group``. The low frequencies of an antithetic pair are opposite. Each sample
            is still standard normal, since P is a projection.

    Example:
        >>> noise = NoiseSource(seed=0)
        >>> prompts, samples = torch.tensor([stable_hash("walk")] * 2), torch.tensor([0, 1])
        >>> both = noise.start(0, prompts, samples, (8, 3))
        >>> alone = noise.start(0, prompts[1:], samples[1:], (8, 3))
        >>> torch.equal(both[1:], alone)  # a draw does not depend on the batch it is drawn in
        True
    """

    seed: int
    initial: Literal["independent", "group", "antithetic"] = "independent"
    antithetic: bool = False
    low_pass: LowPass | None = None

    def __post_init__(self) -> None:
        if self.initial not in ("independent", "group", "antithetic"):
            raise MotionkitError(
                f"unknown initial noise {self.initial!r}.", fix="use independent, group or antithetic."
            )

    def start(self, step: int, prompts: Tensor, samples: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Draw x_T.

        Args:
            step: Training step.
            prompts: ``[N]`` int64 prompt hashes (`stable_hash`).
            samples: ``[N]`` int64 sample numbers within the prompt.
            shape: ``(T, D)``.

        Returns:
            ``[N, T, D]`` float32 on the device of `prompts`.
        """
        mirrored = self.initial == "antithetic"
        ids = samples // 2 if mirrored else torch.zeros_like(samples) if self.initial == "group" else samples
        drawn = gaussian(noise_key(self.seed, step, _INITIAL, prompts, ids), shape)
        return _flip_odd(drawn, samples) if mirrored else drawn

    def at(self, step: int, prompts: Tensor, samples: Tensor, timestep: int, shape: tuple[int, ...]) -> Tensor:
        """Draw the noise of the sampler step that leaves `timestep`; otherwise as `start`."""
        ids = samples // 2 if self.antithetic else samples
        drawn = gaussian(noise_key(self.seed, step, timestep, prompts, ids), shape)
        return _flip_odd(drawn, samples) if self.antithetic else drawn

    def steps(
        self, step: int, prompts: Tensor, samples: Tensor, shape: tuple[int, ...], lengths: Tensor | None = None
    ) -> StepNoise:
        """Return the ``noise(timestep) -> [N, T, D]`` of `rollout`; arguments as in `start`.

        A low-pass needs `lengths`, the ``[N]`` int64 valid frames.
        """

        def draw(timestep: int) -> Tensor:
            drawn = self.at(step, prompts, samples, timestep, shape)
            if self.low_pass is None:
                return drawn
            assert lengths is not None
            key = noise_key(self.seed, step, timestep, prompts, torch.full_like(samples, _GROUP))
            common = gaussian(key, shape)
            return self.low_pass(drawn, lengths) + (common - self.low_pass(common, lengths))

        return draw


def _flip_odd(drawn: Tensor, samples: Tensor) -> Tensor:
    sign = (1 - 2 * (samples % 2)).to(drawn.dtype)
    return drawn * sign.view(-1, *[1] * (drawn.ndim - 1))


class RowNoise:
    """Random numbers for the samples of a training step, the same for any number of processes.

    Numbers are drawn for the samples of all processes, and each process takes its rows.

    Args:
        key: Seed of the numbers, such as run seed, step and loop.
        rows: Samples over all processes.
        share: Which of them are this process's; all by default.
        device: Where the numbers go.
    """

    def __init__(
        self, key: tuple[int, ...], rows: int, share: slice = slice(None), device: torch.device | str = "cpu"
    ) -> None:
        seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
        self._draw = torch.Generator().manual_seed(seed)  # on the CPU: the same numbers on every device
        self._rows, self._share, self._device = rows, share, device

    def uniform(self, columns: int) -> Tensor:
        """Return ``[N, columns]`` uniform numbers from 0 to 1."""
        return torch.rand(self._rows, columns, generator=self._draw)[self._share].to(self._device)

    def normal(self, columns: int) -> Tensor:
        """Return ``[N, columns]`` standard normal numbers; rows 2k and 2k + 1 (over all processes) are antithetic."""
        half = torch.randn((self._rows + 1) // 2, columns, generator=self._draw)
        both = torch.stack([half, -half], 1).flatten(0, 1)[: self._rows]
        return both[self._share].to(self._device)


def categorical(logits: Tensor, uniform: Tensor) -> Tensor:
    """Draw one class per row: the first whose cumulative probability is above the row's uniform number.

    A row's class depends on that row alone, however the batch is split.

    Args:
        logits: ``[N, K]``; a class with minus infinity is never drawn.
        uniform: ``[N]`` numbers from 0 to 1, 1 excluded.

    Returns:
        ``[N]`` int64.
    """
    chances = logits.double().softmax(-1)
    total = chances.cumsum(-1)
    # Rounding may leave the last sum below 1, so the uniform number is scaled by it.
    index = (total <= uniform[:, None].double() * total[:, -1:]).sum(-1)
    last = chances.shape[-1] - 1 - (chances.flip(-1) > 0).int().argmax(-1)
    return index.minimum(last)
