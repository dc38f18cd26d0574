"""Which axis is up, and how long a unit is, as far as a motion tells."""

from __future__ import annotations

from dataclasses import replace

import pytest
import roma
import torch

from motionkit.motion import Motion
from motionkit.rigs.detect import UNITS, find_unit, find_up, unit_called, z_up_to_y_up

from .test_kit import rig

TO_Z = torch.tensor([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]], dtype=torch.float64)
TO_X = torch.tensor([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]], dtype=torch.float64)


def still(name: str = "motionbuilder", scale: float = 1.0, frames: int = 5) -> Motion:
    """A rig that stands, Y up, its rest pose as it stands."""
    names, parents, places = rig(name, scale)
    index = [max(parent, 0) for parent in parents]
    offsets = places[0] - places[0, index]
    rotations = torch.eye(3, dtype=torch.float64).repeat(frames, len(names), 1, 1)
    return Motion(tuple(names), tuple(parents), offsets, rotations, offsets.repeat(frames, 1, 1), 30.0)


def turned(motion: Motion, bones: torch.Tensor, world: torch.Tensor) -> Motion:
    """Lay the bones of the rest pose along other axes, and turn the body as a whole, by the root's rotation."""
    rotations = motion.rotations.clone()
    rotations[:, 0] = world @ bones.T
    rotations[:, 1:] = bones @ rotations[:, 1:] @ bones.T
    translations = motion.translations @ bones.T
    translations[:, 0] = motion.translations[:, 0] @ world.T
    return replace(motion, offsets=motion.offsets @ bones.T, rotations=rotations, translations=translations)


EYE = torch.eye(3, dtype=torch.float64)


@pytest.mark.parametrize(
    ("bones", "world", "up", "said"),
    [
        (EYE, EYE, "y", ""),
        (TO_Z, TO_Z, "z", ""),
        (EYE, TO_Z, "y", "lies along Z for most of the clip: if its vertical is Z, pass --up z"),
        (TO_Z, EYE, "y", "its rest pose stands along Z and its motion along Y"),
        (TO_X, EYE, "y", ""),
        (TO_X, TO_Z, "y", "lies along Z"),
        (EYE, TO_X, "y", ""),
        (TO_Z, TO_X, "z", ""),
    ],
    ids=["y", "z", "y lying", "z in y", "x in y", "x lying", "y on its side", "z on its side"],
)
def test_the_rest_pose_decides(bones, world, up, said):
    found, warning = find_up(turned(still(), bones, world))
    assert found == up
    assert warning.startswith(said)
    assert bool(warning) == bool(said)


def test_legs_that_are_spread_still_go_down():
    motion = still()
    legs = [joint for joint, name in enumerate(motion.names) if "UpLeg" in name]
    offsets = motion.offsets.clone()
    for joint, name in enumerate(motion.names):
        if motion.parents[joint] in legs:
            side = 1.0 if name.startswith("Left") else -1.0
            offsets[joint] = roma.rotvec_to_rotmat(torch.tensor([0.0, 0.0, side * 0.7]).double()) @ offsets[joint]
    assert find_up(replace(motion, offsets=offsets)) == ("y", "")


def test_a_tool_is_taken_as_it_is():
    motion = Motion(
        ("Handle", "Blade", "Blade End"), (-1, 0, 1), 100 * torch.eye(3, dtype=torch.float64),
        EYE.repeat(2, 3, 1, 1), EYE.repeat(2, 1, 1), 30.0,
    )  # fmt: skip
    assert find_up(motion) == ("y", "")


def test_z_up_becomes_y_up():
    motion = turned(still(), TO_Z, TO_Z)
    upright = z_up_to_y_up(motion)
    torch.testing.assert_close(upright.positions(), still().positions())
    torch.testing.assert_close(upright.offsets, still().offsets)
    torch.testing.assert_close(upright.rotations, still().rotations)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("size", [0.8, 1.0, 1.2])
def test_legs_tell_the_unit(unit, size):
    assert find_unit(still(scale=size / UNITS[unit].metres)) == (unit, "")


@pytest.mark.parametrize("unit", ["m", "cm", "mm", "dm"])
def test_height_tells_the_unit_of_a_rig_without_legs(unit):
    motion = still(scale=1 / UNITS[unit].metres)
    nameless = replace(motion, names=tuple(f"bone{joint}" for joint in range(len(motion.names))))
    found, warning = find_unit(nameless)
    assert found == unit
    assert "no legs are known by name" in warning
    assert "--units" in warning


@pytest.mark.parametrize(("size", "words"), [(300.0, "not known: centimetres"), (0.0, "not known: centimetres")])
def test_what_has_no_size_of_a_person_is_in_centimetres(size, words):
    motion = Motion(
        ("Handle", "Blade"), (-1, 0), torch.tensor([[0.0, 0, 0], [0, size, 0]]).double(), EYE.repeat(2, 2, 1, 1),
        torch.zeros(2, 2, 3).double(), 30.0,
    )  # fmt: skip
    unit, warning = find_unit(motion)
    assert unit == "cm"
    assert words in warning


def test_a_giant_is_doubted():
    unit, warning = find_unit(still(scale=2.2))
    assert unit == "m"
    assert "legs are 1.8 m long if its unit is metres" in warning


@pytest.mark.parametrize(
    ("said", "metres"),
    [
        ("Meters", 1.0),
        (" cm ", 0.01),
        ("inch", 0.0254),
        ("Decimetre", 0.1),
        ("millimeters", 0.001),
        ("asf", 0.0254 / 0.45),
    ],
)
def test_units_have_one_name_in_every_file(said: str, metres: float) -> None:
    unit = unit_called(said)
    assert unit is not None
    assert unit.metres == metres
    assert unit_called("cubits") is None
