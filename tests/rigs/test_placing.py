"""Mirrored, scaled, turned and filtered motions, against what they must be."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.geometry import positions_from_bones
from motionkit.motion.motion import Motion
from motionkit.rigs import body_height, mirror_order, mirrored, scaled, turned, without_jitter
from motionkit.rigs._placing import _fitted

from .test_loops import swinging


def test_a_mirror_image_is_one_in_every_joint_and_frame():
    motion = swinging(30, 40.0, turn=0.5)
    image = mirrored(motion)
    order = list(mirror_order(motion.names))
    expected = motion.positions()[:, order] * torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64)
    assert float((image.positions() - expected).abs().max()) < 1e-12
    assert float((image.offsets - motion.offsets).abs().max()) < 0.02  # a body is nearly symmetric
    assert float((torch.linalg.det(image.rotations) - 1).abs().max()) < 1e-9
    assert float((mirrored(image).positions() - motion.positions()).abs().max()) < 1e-12


def test_a_rig_that_faces_sideways_keeps_its_rest_pose():
    motion = swinging(30, 40.0)
    quarter = torch.tensor([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]], dtype=torch.float64)  # +Z to +X
    sideways = replace(
        motion,
        offsets=motion.offsets @ quarter.T,
        rotations=torch.cat(
            [motion.rotations[:, :1] @ quarter.T, quarter @ motion.rotations[:, 1:] @ quarter.T], dim=1
        ),
        translations=torch.cat([motion.translations[:, :1], motion.translations[:, 1:] @ quarter.T], dim=1),
    )
    assert float((sideways.positions() - motion.positions()).abs().max()) < 1e-9
    image = mirrored(sideways)
    assert float((image.positions() - mirrored(motion).positions()).abs().max()) < 1e-9
    assert float((image.offsets - sideways.offsets)[1:].abs().max()) < 0.02


def test_end_sites_have_partners_of_their_own():
    names = ("Hips", "LeftFoot", "LeftFoot End", "RightFoot", "RightFoot End")
    assert mirror_order(names) == (0, 3, 4, 1, 2)


def test_a_rig_whose_sides_hang_differently_has_no_mirror_image():
    eye = torch.eye(3, dtype=torch.float64).expand(3, 3, 3, 3)
    offsets = torch.eye(3, dtype=torch.float64)
    odd = Motion(("root", "left_arm", "right_arm"), (-1, 0, 1), offsets, eye, offsets.expand(3, 3, 3), 30.0)
    with pytest.raises(MotionkitError, match="no mirror image"):
        mirrored(odd)


def test_a_body_is_made_as_tall_as_was_asked():
    motion = swinging(30, 40.0)
    tall = scaled(motion, 2.0)
    rest = positions_from_bones(tall.offsets, tall.parents)
    assert body_height(tall.names, tall.parents, rest) == pytest.approx(2.0)
    factor = 2.0 / body_height(motion.names, motion.parents, positions_from_bones(motion.offsets, motion.parents))
    assert float((tall.positions() - factor * motion.positions()).abs().max()) < 1e-12
    unknown = replace(motion, names=tuple(f"b{k}" for k in range(len(motion.names))))
    with pytest.raises(MotionkitError, match="height of the body is not known"):
        scaled(unknown, 2.0)


def test_a_turned_motion_is_turned_as_a_whole():
    motion = swinging(10, 40.0)
    left = turned(motion, math.pi / 2, torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)).positions()
    x, y, z = motion.positions().unbind(-1)
    expected = torch.stack([z + 1.0, y, -x + 2.0], dim=-1)
    assert float((left - expected).abs().max()) < 1e-12


def test_the_filter_keeps_cubics_and_takes_noise():
    time = torch.linspace(-1, 1, 41, dtype=torch.float64)[:, None]
    cubic = 1 + 2 * time - 3 * time**2 + 4 * time**3
    assert float((_fitted(cubic, 5) - cubic).abs().max()) < 1e-9
    noise = torch.randn(4000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    # Variance of the middle of a cubic through 2 m + 1 values: 3 (3 m^2 + 3 m - 1) / ((2 m + 3) (4 m^2 - 1)).
    m = 5
    expected = 3 * (3 * m * m + 3 * m - 1) / ((2 * m + 3) * (4 * m * m - 1))
    assert float(_fitted(noise, m)[m:-m].var()) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(("hertz", "least", "most"), [(2.0, 0.98, 1.01), (5.0, 0.85, 1.01), (20.0, 0.0, 0.25)])
def test_what_is_faster_than_the_cutoff_goes(hertz, least, most):
    motion = swinging(240, 1e9, fps=60.0)
    wave = 0.1 * torch.sin(2 * math.pi * hertz * torch.arange(240, dtype=torch.float64) / 60.0)
    motion.translations[:, 0, 0] = wave
    filtered = without_jitter(motion).translations[30:-30, 0, 0]
    assert least <= float(filtered.norm() / wave[30:-30].norm()) <= most
    assert float((without_jitter(motion).offsets - motion.offsets).abs().max()) == 0


def test_few_frames_stay_as_they_are():
    motion = swinging(4, 40.0)
    assert without_jitter(motion) is motion
