"""Sets of embeddings: Frechet and kernel distance, diversity, multimodality; and the kinetic features of motions.

Kinetic features are embeddings without a network: three numbers per joint for its speed and acceleration.
"""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.errors import MotionkitError

_EIGEN_NOISE = 1e-9
_LEAST = 1e-6  # least standard deviation by which a kinetic feature is divided


def moments(embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean ``[D]`` and unbiased covariance ``[D, D]`` of ``[N, D]`` embeddings, float64."""
    if embeddings.ndim != 2 or len(embeddings) < 2:
        raise MotionkitError(f"a covariance needs at least two embeddings, got {list(embeddings.shape)}.")
    mean = embeddings.mean(0, dtype=torch.float64)
    centred = embeddings - mean  # becomes float64 here, in one pass
    covariance = centred.T @ centred / (len(embeddings) - 1)
    # A value that is not finite makes its column's variance not finite.
    if not bool(covariance.diagonal().isfinite().all()):
        raise MotionkitError("an embedding holds a value that is not finite.", fix="leave that motion out.")
    return mean, covariance


class FrechetReference:
    """One side of Frechet distances; its mean, covariance and root of the covariance are computed once.

    Args:
        embeddings: ``[N, D]``, usually of reference motions.
    """

    def __init__(self, embeddings: Tensor) -> None:
        self._mean, covariance = moments(embeddings)
        self._trace = covariance.trace()
        values, vectors = torch.linalg.eigh(covariance)
        # Eigenvalues of a singular covariance are rounding noise of either sign; their roots would add up.
        values = torch.where(values > _EIGEN_NOISE * values.amax().clamp(min=0.0), values, values.new_zeros(()))
        self._root = (vectors * values.sqrt()) @ vectors.T

    def distance(self, embeddings: Tensor) -> float:
        """Return the Frechet distance to ``[M, D]`` embeddings, both taken as Gaussians.

        ``|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2))``. The trace of the root is the sum of the roots of the
        eigenvalues of the symmetric ``C1^(1/2) C2 C1^(1/2)``, which needs no general matrix root and stays real.
        """
        if embeddings.shape[-1] != len(self._mean):
            raise MotionkitError(
                f"embeddings of width {len(self._mean)} and {embeddings.shape[-1]} cannot be compared."
            )
        mean, covariance = moments(embeddings)
        # Similar to C1 C2, but symmetric: its eigenvalues are those of C1 C2.
        product = self._root @ covariance @ self._root
        inner = torch.linalg.eigvalsh((product + product.T) / 2)
        inner = torch.where(inner > _EIGEN_NOISE**2 * inner.amax().clamp(min=0.0), inner, inner.new_zeros(()))
        distance = (self._mean - mean).square().sum() + self._trace + covariance.trace() - 2 * inner.sqrt().sum()
        return max(0.0, float(distance))


def frechet(first: Tensor, second: Tensor) -> float:
    """Return the Frechet distance of two sets of embeddings; see `FrechetReference.distance`.

    Args:
        first: ``[N, D]``.
        second: ``[M, D]``. Estimates are biased upwards when N or M is not much larger than D.

    Returns:
        The distance, at least 0.

    Example:
        >>> embeddings = torch.randn(64, 4, dtype=torch.float64)
        >>> abs(frechet(embeddings, embeddings)) < 1e-6
        True
    """
    return FrechetReference(first).distance(second)


def kid(first: Tensor, second: Tensor) -> float:
    """Return the kernel distance of two sets of embeddings, which is unbiased for any number of them.

    The squared maximum mean discrepancy with the kernel ``(a.b / D + 1)^3`` (Binkowski et al., ICLR 2018, "KID"),
    pairs of an item with itself left out. It can be below 0 by chance.

    Args:
        first: ``[N, D]``, at least two.
        second: ``[M, D]``, at least two.

    Example:
        >>> kid(torch.zeros(2, 1), torch.ones(2, 1))
        7.0
    """
    return KernelDistance(first, second).of(torch.ones(len(first)))


class KernelDistance:
    """`kid` of parts of one set of embeddings to another set; the kernels are computed once, for resampling.

    Args:
        embeddings: ``[N, D]``, at least two.
        real: ``[M, D]``, at least two.
    """

    def __init__(self, embeddings: Tensor, real: Tensor) -> None:
        x, y = embeddings.double(), real.double()
        self._own, self._cross = _cubic(x, x), _cubic(x, y).mean(1)  # [N, N], [N]
        other = _cubic(y, y)
        self._real = (other.sum() - other.diagonal().sum()) / (len(y) * (len(y) - 1))

    def of(self, counts: Tensor) -> float:
        """Return the distance of embeddings that count ``[N]`` times each; pairs of an item with itself are left out.

        NaN where fewer than two different ones count.
        """
        n = counts.to(self._own)
        pairs = n.sum().square() - n.square().sum()
        within = (n @ self._own @ n - (n.square() * self._own.diagonal()).sum()) / pairs
        return float(within + self._real - 2 * (n @ self._cross) / n.sum())


def _cubic(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b.T / a.shape[1] + 1) ** 3


def diversity(embeddings: Tensor, first: Tensor, second: Tensor) -> float:
    """Return the mean distance of random pairs.

    Args:
        embeddings: ``[N, D]``.
        first: ``[P]`` row indices.
        second: ``[P]`` row indices; the field draws both sets without replacement, P = 300.
    """
    return float((embeddings[first] - embeddings[second]).norm(dim=-1).mean())


def multimodality(embeddings: Tensor, first: Tensor, second: Tensor) -> float:
    """Return the mean distance of random pairs among the repeats of one text.

    Args:
        embeddings: ``[C, R, D]`` for C texts with R motions each.
        first: ``[P]`` indices into the repeats, shared by all texts; the field takes P = 10.
        second: ``[P]``.
    """
    return float((embeddings[:, first] - embeddings[:, second]).norm(dim=-1).mean())


def random_pairs(count: int, pairs: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """Draw two sets of `pairs` indices below `count`, each without replacement."""
    if pairs > count:
        raise MotionkitError(f"{pairs} pairs cannot be drawn from {count} motions.", fix="evaluate more motions.")
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(count, generator=generator)[:pairs], torch.randperm(count, generator=generator)[:pairs]


def interval(values: Tensor) -> tuple[float, float]:
    """Return mean and half-width ``1.96 std / sqrt(n)`` (population std) over replications, as published tables do."""
    values = values.double()
    return float(values.mean()), float(1.96 * values.std(correction=0) / len(values) ** 0.5)


def kinetic_features(joints: Tensor, lengths: Tensor, fps: float) -> Tensor:
    """Return the kinetic features of motions, per joint: kinetic energy along the ground and upwards, and expenditure.

    The mean over frames of ``vx^2 + vz^2`` (m^2/s^2), of ``vy^2`` (m^2/s^2), and of the length of the acceleration
    (m/s^2), which stands for the energy that a body spends: Onuma et al., "FMDistance" (Eurographics 2008), the
    features of FID_k in Li et al., "AI Choreographer" (ICCV 2021). Velocities and accelerations are central
    differences of the joints in the world; other code averages velocities over more frames, so figures compare with
    each other only.

    Args:
        joints: ``[N, T, J, 3]`` metres, Y up; frames past a length may hold anything.
        lengths: ``[N]`` int64 frames.
        fps: Frames per second.

    Returns:
        ``[N, 3 J]``: the first energy of all joints, then the second, then the expenditure; NaN with fewer than 3
        frames.

    Example:
        >>> still = torch.zeros(1, 5, 1, 3)
        >>> falls = torch.stack([0 * torch.arange(5.0), -torch.arange(5.0), 0 * torch.arange(5.0)], dim=-1)
        >>> kinetic_features(still + falls[None, :, None], torch.tensor([5]), fps=1.0)
        tensor([[0., 1., 0.]])
    """
    velocity = (joints[:, 2:] - joints[:, :-2]) * (fps / 2)  # [N, T - 2, J, 3]
    acceleration = (joints[:, 2:] - 2 * joints[:, 1:-1] + joints[:, :-2]) * fps**2
    valid = torch.arange(2, joints.shape[1], device=joints.device) < lengths[:, None]
    count = valid.sum(1, keepdim=True)
    terms = torch.cat(
        [velocity[..., [0, 2]].square().sum(-1), velocity[..., 1].square(), acceleration.norm(dim=-1)], dim=-1
    )  # [N, T - 2, 3 J]
    total = torch.where(valid[..., None], terms, 0.0).sum(1)
    return torch.where(count > 0, total / count.clamp(min=1), torch.nan)


class KineticReference:
    """Kinetic features of reference motions, for Frechet distances of features over their standard deviation.

    Without that division the accelerations of the hands would be nearly all of the distance.

    Args:
        real: ``[M, F]`` `kinetic_features` of reference motions.
    """

    def __init__(self, real: Tensor) -> None:
        self._scale = real.double().std(0).clamp(min=_LEAST)
        self._reference = FrechetReference(real.double() / self._scale)

    def distance(self, made: Tensor) -> float:
        """Return the Frechet distance to ``[N, F]`` features, at least 0; biased upwards if N or M is near F."""
        return self._reference.distance(made.double() / self._scale)


def kinetic_fid(made: Tensor, real: Tensor) -> float:
    """Return the Frechet distance of kinetic features ``[N, F]`` and ``[M, F]``; see `KineticReference`."""
    return KineticReference(real).distance(made)
