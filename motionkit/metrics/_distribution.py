"""Frechet distance, diversity and multimodality of sets of embeddings."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.errors import MotionkitError

_EIGEN_NOISE = 1e-9


def moments(embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean ``[D]`` and unbiased covariance ``[D, D]`` of ``[N, D]`` embeddings, float64.

    Raises:
        MotionkitError: Fewer than two rows, or a value that is not finite.
    """
    x = embeddings.double()
    if x.ndim != 2 or len(x) < 2:
        raise MotionkitError(f"a covariance needs at least two embeddings, got {list(x.shape)}.")
    if not bool(x.isfinite().all()):
        raise MotionkitError("an embedding holds a value that is not finite.", fix="drop that motion and say so.")
    mean = x.mean(0)
    centred = x - mean
    return mean, centred.T @ centred / (len(x) - 1)


def frechet(first: Tensor, second: Tensor) -> float:
    """Frechet distance of two sets of embeddings, taken as Gaussians.

    ``|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2))``. The trace of the root is the sum of the roots of the eigenvalues
    of the symmetric ``C1^(1/2) C2 C1^(1/2)``, which needs no general matrix root and stays real.

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
    if first.shape[-1] != second.shape[-1]:
        raise MotionkitError(f"embeddings of width {first.shape[-1]} and {second.shape[-1]} cannot be compared.")
    (m1, c1), (m2, c2) = moments(first), moments(second)
    values, vectors = torch.linalg.eigh(c1)
    # Eigenvalues of a singular covariance are rounding noise of either sign; their roots would add up.
    values = torch.where(values > _EIGEN_NOISE * values.amax().clamp(min=0.0), values, values.new_zeros(()))
    root = (vectors * values.sqrt()) @ vectors.T
    # Similar to C1 C2, but symmetric: its eigenvalues are those of C1 C2.
    product = root @ c2 @ root
    inner = torch.linalg.eigvalsh((product + product.T) / 2)
    inner = torch.where(inner > _EIGEN_NOISE**2 * inner.amax().clamp(min=0.0), inner, inner.new_zeros(()))
    distance = (m1 - m2).square().sum() + c1.trace() + c2.trace() - 2 * inner.sqrt().sum()
    return max(0.0, float(distance))


def diversity(embeddings: Tensor, first: Tensor, second: Tensor) -> float:
    """Mean distance of random pairs.

    Args:
        embeddings: ``[N, D]``.
        first: ``[P]`` row indices.
        second: ``[P]`` row indices; the field draws both sets without replacement, P = 300.
    """
    return float((embeddings[first] - embeddings[second]).norm(dim=-1).mean())


def multimodality(embeddings: Tensor, first: Tensor, second: Tensor) -> float:
    """Mean distance of random pairs among the repeats of one text.

    Args:
        embeddings: ``[C, R, D]`` for C texts with R motions each.
        first: ``[P]`` indices into the repeats, shared by all texts; the field takes P = 10.
        second: ``[P]``.
    """
    return float((embeddings[:, first] - embeddings[:, second]).norm(dim=-1).mean())


def random_pairs(count: int, pairs: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """Draw two sets of `pairs` indices below `count`, each without replacement.

    Raises:
        MotionkitError: There are not that many.
    """
    if pairs > count:
        raise MotionkitError(f"{pairs} pairs cannot be drawn from {count} motions.", fix="evaluate more motions.")
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(count, generator=generator)[:pairs], torch.randperm(count, generator=generator)[:pairs]


def interval(values: Tensor) -> tuple[float, float]:
    """Mean and half-width ``1.96 std / sqrt(n)`` (population std) over replications, as the field's tables give it."""
    values = values.double()
    return float(values.mean()), float(1.96 * values.std(correction=0) / len(values) ** 0.5)
