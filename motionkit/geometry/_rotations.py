"""Rotations: matrices inside motionkit, 6D and w-first quaternions at its borders. The algebra itself is roma's."""

from __future__ import annotations

import torch
from torch import Tensor


def matrix_from_6d(six: Tensor) -> Tensor:
    """Turn 6D rotations into matrices by Gram-Schmidt (Zhou et al., CVPR 2019).

    Args:
        six: ``[..., 6]``: the first column of the matrix, then the second; they need not be orthonormal.

    Returns:
        ``[..., 3, 3]`` rotation matrices.

    Example:
        >>> matrix_from_6d(torch.tensor([1.0, 0, 0, 0, 1, 0]))
        tensor([[1., 0., 0.],
                [0., 1., 0.],
                [0., 0., 1.]])
    """
    import roma

    matrix: Tensor = roma.special_gramschmidt(six.unflatten(-1, (2, 3)).mT)
    return matrix


def matrix_to_6d(matrix: Tensor) -> Tensor:
    """Return the first two columns of ``[..., 3, 3]`` matrices, one after the other: ``[..., 6]``."""
    return matrix[..., :2].transpose(-1, -2).flatten(-2)


def matrix_from_quaternion(wxyz: Tensor) -> Tensor:
    """Turn quaternions ``[..., 4]`` in (w, x, y, z) order, of any length, into matrices ``[..., 3, 3]``."""
    import roma

    matrix: Tensor = roma.unitquat_to_rotmat(roma.quat_normalize(roma.quat_wxyz_to_xyzw(wxyz)))
    return matrix


def matrix_to_quaternion(matrix: Tensor) -> Tensor:
    """Turn matrices ``[..., 3, 3]`` into unit quaternions ``[..., 4]`` in (w, x, y, z) order."""
    import roma

    wxyz: Tensor = roma.quat_xyzw_to_wxyz(roma.rotmat_to_unitquat(matrix))
    return wxyz


def rotation_between(source: Tensor, target: Tensor) -> Tensor:
    """Return the smallest rotation that takes the direction of `source` to that of `target`.

    The half-angle quaternion ``[|u||v| + u.v, u x v]`` is used, as HumanML3D does. Opposite directions have no smallest
    rotation: half a turn about an axis at right angles to `source` is returned there (HumanML3D's code divides by
    zero). A zero vector gives the identity.

    Args:
        source: ``[..., 3]``, any length.
        target: ``[..., 3]``, any length; broadcasts with `source`.

    Returns:
        ``[..., 3, 3]`` matrices.

    Example:
        >>> up, forward = torch.tensor([0.0, 1, 0]), torch.tensor([0.0, 0, 1])
        >>> (rotation_between(up, forward) @ up).allclose(forward, atol=1e-6)
        True
    """
    import roma

    product = source * target
    source, target = source.expand_as(product), target.expand_as(product)
    lengths = (source.square().sum(-1) * target.square().sum(-1)).sqrt()
    axis = torch.linalg.cross(source, target, dim=-1)
    # (x, y, z, w) of half the angle: u x v and |u||v| + u.v, not yet of length 1.
    quaternion = torch.cat([axis, (lengths + product.sum(-1))[..., None]], dim=-1)
    opposite = (quaternion.norm(dim=-1) <= 1e-7 * lengths)[..., None]
    quaternion = torch.where(opposite, _half_turn(source), quaternion)
    quaternion = torch.where((lengths == 0)[..., None], quaternion.new_tensor([0.0, 0.0, 0.0, 1.0]), quaternion)
    matrix: Tensor = roma.unitquat_to_rotmat(roma.quat_normalize(quaternion))
    return matrix


def _half_turn(direction: Tensor) -> Tensor:
    """Return an (x, y, z, w) quaternion of half a turn about an axis at right angles to `direction`."""
    helper = torch.zeros_like(direction)
    # The coordinate axis that is furthest from `direction`; its cross product with it is at right angles.
    helper.scatter_(-1, direction.abs().argmin(dim=-1, keepdim=True), 1.0)
    axis = torch.linalg.cross(direction, helper, dim=-1)
    return torch.cat([axis, torch.zeros_like(axis[..., :1])], dim=-1)
