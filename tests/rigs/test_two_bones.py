from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from motionkit.rigs._fix_feet import two_bones

HINGE = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)


def limb(*places: tuple[float, float, float]) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(place, dtype=torch.float64) for place in places)


def moved(start: Tensor, middle: Tensor, end: Tensor, target: Tensor, hinge: Tensor) -> tuple[Tensor, Tensor]:
    """Return where knee and ankle are afterwards."""
    first, second = two_bones(start, middle, end, target, hinge)
    for turn in (first, second):
        eye = torch.eye(3, dtype=torch.float64).expand_as(turn)
        torch.testing.assert_close(turn @ turn.mT, eye, atol=1e-12, rtol=0)
    knee = start + (first @ (middle - start)[..., None])[..., 0]
    return knee, knee + (second @ (end - middle)[..., None])[..., 0]


@pytest.mark.parametrize(("upper", "lower", "distance"), [(0.5, 0.5, 0.8), (0.45, 0.4, 0.6), (0.4, 0.45, 0.3)])
def test_a_triangle_in_the_plane(upper: float, lower: float, distance: float) -> None:
    """A straight leg whose ankle is lifted under the hip: the law of cosines says where the knee is, ahead of it."""
    hip, knee, ankle, target = limb((0, 1, 0), (0, 1 - upper, 0), (0, 1 - upper - lower, 0), (0, 1 - distance, 0))
    found, end = moved(hip, knee, ankle, target, HINGE)
    down = (upper**2 + distance**2 - lower**2) / (2 * distance)
    ahead = math.sqrt(upper**2 - down**2)
    assert found.tolist() == pytest.approx([0.0, 1 - down, ahead], abs=1e-9)
    assert end.tolist() == pytest.approx(target.tolist(), abs=1e-9)


def test_any_limb_reaches_any_target_within_reach_and_bends_the_way_it_bent() -> None:
    torch.manual_seed(0)
    start, middle, end = (torch.randn(3, 400, 3, dtype=torch.float64)).unbind()
    hinge = torch.linalg.cross(middle - start, end - middle, dim=-1)
    upper, lower = (middle - start).norm(dim=-1), (end - middle).norm(dim=-1)
    least = (upper - lower).abs()
    distance = least + (upper + lower - least) * torch.rand(400, dtype=torch.float64)
    aim = torch.nn.functional.normalize(torch.randn(400, 3, dtype=torch.float64), dim=-1)
    target = start + aim * distance[:, None]
    knee, reached = moved(start, middle, end, target, hinge)
    torch.testing.assert_close(reached, target, atol=1e-9, rtol=0)
    torch.testing.assert_close((knee - start).norm(dim=-1), upper)
    torch.testing.assert_close((reached - knee).norm(dim=-1), lower)
    # The smallest turn of the whole limb carries the plane in which it bends.
    first, _ = two_bones(start, middle, end, target, hinge)
    bends = torch.linalg.cross(knee - start, reached - knee, dim=-1)
    carried = (first @ hinge[..., None])[..., 0]
    assert float(torch.nn.functional.cosine_similarity(bends, carried, dim=-1).min()) > 1 - 1e-9


def test_a_target_at_the_end_turns_nothing() -> None:
    hip, knee, ankle = limb((0, 1, 0), (0.1, 0.6, 0.1), (0.1, 0.2, -0.1))
    hinge = torch.linalg.cross(knee - hip, ankle - knee, dim=-1)
    for turn in two_bones(hip, knee, ankle, ankle, hinge):
        torch.testing.assert_close(turn, torch.eye(3, dtype=torch.float64), atol=1e-9, rtol=0)


@pytest.mark.parametrize(("far", "length"), [(3.0, 0.9), (0.01, 0.1)])
def test_out_of_reach_the_limb_goes_as_far_as_it_does(far: float, length: float) -> None:
    hip, knee, ankle = limb((0, 0, 0), (0, -0.5, 0.0), (0, -0.85, -0.19364916731))  # bones of 0.5 and 0.4
    aim = torch.tensor([0.6, -0.8, 0.0], dtype=torch.float64)
    _, end = moved(hip, knee, ankle, far * aim, HINGE)
    torch.testing.assert_close(end, length * aim, atol=1e-6, rtol=0)


def test_a_hinge_askew_still_reaches() -> None:
    hip, knee, ankle, target = limb((0, 1, 0), (0, 0.5, 0.1), (0, 0.05, 0), (0.1, 0.2, 0.1))
    _, end = moved(hip, knee, ankle, target, torch.tensor([1.0, 0.3, 0.2], dtype=torch.float64))
    torch.testing.assert_close(end, target, atol=1e-9, rtol=0)
