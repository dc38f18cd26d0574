"""Skate and jerk against closed forms, a slow loop and finite differences."""

from __future__ import annotations

import math

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.kernels import physics_sums, physics_terms
from motionkit.kernels.definitions import physics_definition

FEET = (1, 2)


def lengths(*values):
    return torch.tensor(values, dtype=torch.int64)


def slide(speed, height, frames=20, fps=20.0):
    """Three joints; all move along x at `speed`, all at `height`."""
    joints = torch.zeros(1, frames, 3, 3, dtype=torch.float64)
    joints[..., 0] = torch.arange(frames)[:, None] * speed / fps
    joints[..., 1] = height
    return joints


def loop(joints, length, fps, feet, height):
    """The definition, one scalar at a time."""
    points = joints[:length].tolist()
    top = bottom = 0.0
    for foot in feet:
        for t in range(length - 1):
            a, b = points[t][foot], points[t + 1][foot]
            c = 1.0
            for point in (a, b):
                c *= 1 / (1 + math.exp(-(height - point[1]) / 0.02))
            top += c * math.sqrt((b[0] - a[0]) ** 2 + (b[2] - a[2]) ** 2 + 1e-14) * fps
            bottom += c
    total, count = 0.0, 0
    for joint in range(joints.shape[1]):
        for t in range(length - 3):
            q = 0.0
            for axis in range(3):
                x = [points[t + i][joint][axis] for i in range(4)]
                q += (x[3] - 3 * x[2] + 3 * x[1] - x[0]) ** 2
            total += math.sqrt(q + 1e-14) * fps**3
            count += 1
    return top / (bottom + 1e-6), total / count if count else 0.0


def test_a_slide_of_one_metre_per_second():
    for fps in (12.5, 20.0, 60.0):
        skate, jerk = physics_sums(slide(1.0, -0.2, fps=fps), lengths(20), fps=fps, feet=FEET)
        assert float(skate) == pytest.approx(1.0, abs=1e-6)
        assert float(jerk) == pytest.approx(0.0, abs=0.1)


def test_a_foot_in_the_air_does_not_skate():
    skate, _ = physics_sums(slide(1.0, 1.0), lengths(20), fps=20.0, feet=FEET)
    assert float(skate) < 1e-6


def test_contact_height_of_each_foot():
    joints = slide(1.0, 0.5)
    low, _ = physics_sums(joints, lengths(20), fps=20.0, feet=FEET, heights=0.05)
    high, _ = physics_sums(joints, lengths(20), fps=20.0, feet=FEET, heights=(0.05, 0.9))
    assert float(low) < 1e-3
    assert float(high) == pytest.approx(1.0, abs=1e-4)
    with pytest.raises(MotionkitError, match="2 feet"):
        physics_sums(joints, lengths(20), fps=20.0, feet=FEET, heights=(0.1, 0.2, 0.3))


def test_cubic_motion_has_constant_jerk():
    """x = a t^3 / 6 has third derivative a; the third difference of a cubic is exact."""
    time = torch.arange(12, dtype=torch.float64) / 30.0
    joints = torch.zeros(1, 12, 3, 3, dtype=torch.float64)
    joints[..., 2] = (7.0 * time**3 / 6)[:, None]
    _, jerk = physics_sums(joints, lengths(12), fps=30.0, feet=FEET)
    assert float(jerk) == pytest.approx(7.0, rel=1e-3)


def test_equals_the_loop_for_every_length():
    generator = torch.Generator().manual_seed(0)
    joints = torch.randn(7, 14, 5, 3, generator=generator, dtype=torch.float64) * 0.05
    sizes = [14, 13, 5, 4, 3, 1, 0]
    skate, jerk = physics_sums(joints, lengths(*sizes), fps=20.0, feet=(0, 3), heights=0.05)
    for i, size in enumerate(sizes):
        expected = loop(joints[i], size, 20.0, (0, 3), 0.05) if size > 1 else (0.0, 0.0)
        assert (float(skate[i]), float(jerk[i])) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_padding_may_hold_nan_and_changes_nothing():
    generator = torch.Generator().manual_seed(1)
    joints = torch.randn(3, 16, 4, 3, generator=generator) * 0.1
    sizes = lengths(16, 9, 2)
    clean = joints.clone().requires_grad_()
    dirty = torch.where((torch.arange(16) < sizes[:, None])[..., None, None], joints, torch.nan).requires_grad_()
    results = []
    for x in (clean, dirty):
        skate, jerk = physics_sums(x, sizes, fps=20.0, feet=FEET)
        (skate.sum() + jerk.sum()).backward()
        results.append((skate.detach(), jerk.detach(), x.grad))
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)
    assert bool((results[1][2][1, 9:] == 0).all())


def test_one_bad_motion_stays_alone():
    joints = torch.zeros(3, 10, 3, 3)
    joints[1, 4, 1, 0] = torch.nan
    skate, jerk = physics_sums(joints, lengths(10, 10, 10), fps=20.0, feet=FEET)
    assert skate.isnan().tolist() == [False, True, False]
    assert jerk.isnan().tolist() == [False, True, False]


def test_static_pose_has_a_finite_gradient():
    joints = torch.zeros(1, 8, 3, 3, requires_grad=True)
    skate, jerk = physics_sums(joints, lengths(8), fps=20.0, feet=FEET)
    (skate + jerk).sum().backward()
    assert bool(joints.grad.isfinite().all())
    assert float(jerk.detach()) == pytest.approx(1e-7 * 20.0**3, rel=1e-3)


def test_empty_batch_and_short_motions():
    skate, jerk = physics_sums(torch.zeros(0, 5, 3, 3), lengths(), fps=20.0, feet=FEET)
    assert skate.shape == jerk.shape == (0,)
    for frames in (0, 1, 2, 3):
        x = torch.randn(2, frames, 3, 3, requires_grad=True)
        skate, jerk = physics_sums(x, lengths(frames, 0), fps=20.0, feet=FEET)
        assert jerk.tolist() == [0.0, 0.0]
        assert skate.tolist()[1] == 0.0


def test_gradient_against_finite_differences():
    generator = torch.Generator().manual_seed(2)
    joints = (torch.randn(2, 6, 3, 3, generator=generator, dtype=torch.float64) * 0.1).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: physics_sums(x, lengths(6, 5), fps=5.0, feet=FEET), (joints,), eps=1e-7, atol=1e-4
    )


def test_wrong_shape():
    with pytest.raises(MotionkitError, match=r"\[N, T, J, 3\]"):
        physics_sums(torch.zeros(2, 5, 9), lengths(5, 5), fps=20.0, feet=FEET)


def test_large_batches_give_the_same_in_pieces():
    generator = torch.Generator().manual_seed(3)
    joints = torch.randn(150, 9, 3, 3, generator=generator, dtype=torch.float64) * 0.1
    sizes = torch.arange(150) % 10
    whole = joints.clone().requires_grad_()
    pieces = joints.clone().requires_grad_()
    whole_terms = physics_definition(whole, sizes, FEET, (0.05, 0.05))
    terms = physics_terms(pieces, sizes, feet=FEET)
    for a, b in zip(terms, whole_terms, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-15)
    (terms.skate.sum() + terms.jerk.sum()).backward()
    (whole_terms[0].sum() + whole_terms[1].sum()).backward()
    torch.testing.assert_close(pieces.grad, whole.grad, rtol=1e-12, atol=1e-15)


def test_large_batches_keep_their_inputs_only():
    """What the gradient needs is computed again, piece by piece."""
    joints, sizes = torch.randn(256, 9, 5, 3).requires_grad_(), torch.full((256,), 9)

    def ratio(function):
        kept = {}

        def note(tensor):
            kept[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no address is used twice
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            results = function()
        assert results
        return sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) / (joints.numel() * 4)

    assert ratio(lambda: physics_definition(joints, sizes, FEET, (0.05, 0.05))) > 1.5
    assert ratio(lambda: physics_terms(joints, sizes, feet=FEET)) < 1.1


def test_terms_are_per_frame():
    joints = slide(1.0, -0.2, fps=20.0)
    terms = physics_terms(joints, lengths(20), feet=FEET)
    assert float(terms.skate) == pytest.approx(0.05, abs=1e-6)
    assert float(terms.contact) == pytest.approx(2 * 19, rel=1e-4)
    assert float(terms.length) == 20
    skate, jerk = physics_sums(joints, lengths(20), fps=30.0, feet=FEET)
    assert float(skate) == pytest.approx(30 * float(terms.skate))
    assert float(jerk) == pytest.approx(27000 * float(terms.jerk))
