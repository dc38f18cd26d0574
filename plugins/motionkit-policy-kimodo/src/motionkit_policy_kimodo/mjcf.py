"""Masses and foot shapes of the Unitree G1 from a robot file of the user's, MuJoCo's XML; nothing in it is executed.

MuJoCo's manual says what a file means: https://mujoco.readthedocs.io/en/stable/XMLreference.html
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, fromstring

import torch
from torch import Tensor

from motionkit.documents import read_text
from motionkit.errors import MotionkitError
from motionkit.geometry import matrix_from_quaternion, rotation_between
from motionkit_policy_kimodo.qpos import TO_MUJOCO
from motionkit_policy_kimodo.skeletons import body, table

_ONE_FILE = "save it as one file with MuJoCo (mj_saveLastXML, or Save xml in its viewer), and give that one."
_RIM = 16  # points of the rim of a cylinder
_FRAMES = ("axisangle", "euler", "xyaxes", "zaxis")
_BUILT = ("attach", "composite", "flexcomp", "frame", "include", "replicate")
_HERE = torch.zeros(3).double(), torch.eye(3).double()
_SHAPES = {"sphere": 1, "capsule": 2, "cylinder": 2, "box": 3}  # and how many numbers their size has


@dataclass(frozen=True, eq=False)
class Robot:
    """B links with masses, each fixed to a joint of Kimodo's G1, and F points of its feet, in Kimodo's axes."""

    joints: tuple[int, ...]  # Joint of each link, whose frame the next three are in
    masses: Tensor  # ``[B]`` kg
    centres: Tensor  # ``[B, 3]`` metres, centres of mass
    inertias: Tensor  # ``[B, 3, 3]`` kg m^2, about the centre of mass
    foot_joints: tuple[int, ...]  # Joint of each point
    foot_points: Tensor  # ``[F, 3]`` metres
    foot_radii: Tensor  # ``[F]`` metres: a foot is the balls around its points


def read_robot(path: Path) -> Robot:
    """Read the G1 from MuJoCo's XML.

    Joints are known by their names, such as ``left_knee_joint``. Bodies without such a joint are fixed to their parent.
    The feet are the balls, capsules, cylinders and boxes of the last bodies of the legs that can touch something.

    Raises:
        MotionkitError: It is not of the G1, or has what is not read: several files, an inertia by shapes, angles.
    """
    text = read_text(path)
    if "<!DOCTYPE" in text:
        raise MotionkitError(
            f"{path} declares a document type.", why="its entities could stand for anything.", fix=_ONE_FILE
        )
    try:
        return _Reader(fromstring(text), path).robot()
    except ParseError as error:
        raise MotionkitError(f"{path} is no XML: {error}.", fix="give the robot's file for MuJoCo.") from error
    except RecursionError as error:
        raise MotionkitError(f"{path} has more elements within each other than can be read.") from error


@dataclass(frozen=True)
class _Place:
    """Where a body is: the joint of the skeleton, and place and rotation in its frame, in MuJoCo's axes."""

    joint: int
    origin: Tensor  # ``[3]``
    turn: Tensor  # ``[3, 3]``

    def within(self, origin: Tensor, turn: Tensor) -> _Place:
        """Return the place of what is at `origin` with the rotation `turn` in the frame of this body."""
        return _Place(self.joint, self.origin + self.turn @ origin, self.turn @ turn)


class _Reader:
    def __init__(self, root: Element, path: Path) -> None:
        self.path = path
        if root.tag != "mujoco" or root.find("worldbody/body") is None:
            raise MotionkitError(f"{path} is no robot for MuJoCo.", fix="its first element is mujoco, with bodies.")
        if found := [tag for tag in _BUILT if root.find(f".//{tag}") is not None]:
            raise MotionkitError(f"{path} has the element {found[0]}, which is not read.", fix=_ONE_FILE)
        self.root = root
        self.classes: dict[str, dict[str, str]] = {"": {}}
        for element in root.findall("default"):
            self._default(element, "")
            self.classes[""] = self.classes[element.get("class", "main")]
        names = body("g1").joint_names
        self.known = {name.replace("_skel", "_joint"): row for row, name in enumerate(names)}
        self.hinges = {row["joint"].replace("_skel", "_joint") for row in table("g1")["hinges"]}
        self.feet = {body("g1").feet[0], body("g1").feet[2]}
        self.links: list[tuple[_Place, float, Tensor]] = []
        self.points: list[tuple[int, Tensor, float]] = []

    def robot(self) -> Robot:
        for element in self.root.findall("worldbody/body"):
            if any(joint.get("name") in self.hinges for joint in element.iter("joint")):  # others are no robot
                self._body(element, _Place(0, *_HERE), "")
        if self.hinges:
            raise MotionkitError(
                f"{self.path} has no joint {min(self.hinges)}.",
                why="it is not the Unitree G1 with 29 hinges, which Kimodo's models move.",
                fix="give its file for MuJoCo, such as the one that Kimodo brings.",
            )
        if {joint for joint, _, _ in self.points} != self.feet:
            raise MotionkitError(
                f"{self.path} has a foot without a shape.",
                why=f"read are {', '.join(_SHAPES)} that can touch the ground, not meshes.",
                fix="give a file whose last bodies of the legs have such a shape.",
            )
        axes = torch.tensor(TO_MUJOCO).double()
        links, masses, inertias = zip(*self.links, strict=True)
        joints, points, radii = zip(*self.points, strict=True)
        return Robot(
            tuple(link.joint for link in links),
            torch.tensor(masses).double(),
            torch.stack([link.origin for link in links]) @ axes,
            axes.mT @ torch.stack(inertias) @ axes,
            joints,
            torch.stack(points) @ axes,
            torch.tensor(radii).double(),
        )

    def _default(self, element: Element, above: str) -> None:
        name, geom = element.get("class", "main"), element.find("geom")
        self.classes[name] = self.classes[above] | ({} if geom is None else geom.attrib)
        for child in element.findall("default"):
            self._default(child, name)

    def _body(self, element: Element, place: _Place, given: str) -> None:
        """Read a body that is at a place, and those below it; `given` is its class of defaults."""
        said, given = f"the body {element.get('name', 'of no name')}", element.get("childclass", given)
        self._inertial(element.find("inertial"), place, said)
        if place.joint in self.feet:
            for geom in element.findall("geom"):
                if (name := geom.get("class", given)) not in self.classes:
                    raise MotionkitError(f"{self.path} has no default class {name}.", fix=_ONE_FILE)
                self._shape(self.classes[name] | geom.attrib, place)
        for child in element.findall("body"):
            moved = [name for joint in child.findall("joint") if (name := joint.get("name", "")) in self.hinges]
            self.hinges -= set(moved[:1])
            if moved:
                self._body(child, _Place(self.known[moved[0]], *_HERE), given)
            else:
                frame = self._frame(child.attrib, f"the body {child.get('name', 'of no name')}")
                self._body(child, place.within(*frame), given)

    def _inertial(self, element: Element | None, place: _Place, said: str) -> None:
        if element is None:
            raise MotionkitError(
                f"{self.path}: {said} has no inertial.",
                why="the mass of its shapes is not computed here.",
                fix=_ONE_FILE,
            )
        said, given = f"the inertial of {said}", element.attrib
        mass = float(self._numbers(given, "mass", said, 1))
        if "fullinertia" in given:
            xx, yy, zz, xy, xz, yz = self._numbers(given, "fullinertia", said, 6).tolist()
            inertia = torch.tensor([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]).double()
        else:
            inertia = self._numbers(given, "diaginertia", said, 3).diag()
        if mass < 0 or not bool((torch.linalg.eigvalsh(inertia) >= 0).all()):
            raise MotionkitError(f"{self.path}: {said} is negative.", fix="write the file again.")
        there = place.within(*self._frame(given, said))
        self.links.append((there, mass, there.turn @ inertia @ there.turn.mT))

    def _shape(self, geom: Mapping[str, str], place: _Place) -> None:
        kind, said = geom.get("type", "sphere"), "a shape of a foot"
        if kind not in _SHAPES or (geom.get("contype", "1") == "0" and geom.get("conaffinity", "1") == "0"):
            return
        if "fromto" in geom:
            ends = self._numbers(geom, "fromto", said, 6).view(2, 3)
            origin, along = ends.mean(0), (ends[1] - ends[0]) / 2
            turn = rotation_between(torch.tensor([0.0, 0.0, 1.0]).double(), along)
            size = self._numbers(geom, "size", said, 1).tolist() * max(1, _SHAPES[kind] - 1) + [float(along.norm())]
        else:
            origin, turn = self._frame(geom, said)
            size = self._numbers(geom, "size", said, _SHAPES[kind]).tolist()
        points, radius = _balls(kind, size)
        for point in points:
            local = origin + turn @ torch.tensor(point).double()
            self.points.append((place.joint, place.origin + place.turn @ local, radius))

    def _frame(self, given: Mapping[str, str], said: str) -> tuple[Tensor, Tensor]:
        """Return place ``[3]`` and rotation ``[3, 3]`` in the frame of the parent."""
        if found := [name for name in _FRAMES if name in given]:
            raise MotionkitError(f"{self.path}: {said} is turned by {found[0]}, which is not read.", fix=_ONE_FILE)
        given = {"pos": "0 0 0", "quat": "1 0 0 0", **given}
        quaternion = self._numbers(given, "quat", said, 4)
        if not float(quaternion.norm()) > 1e-6:
            raise MotionkitError(f"{self.path}: {said} has a quaternion of length 0.", fix="write the file again.")
        return self._numbers(given, "pos", said, 3), matrix_from_quaternion(quaternion)

    def _numbers(self, given: Mapping[str, str], name: str, said: str, count: int) -> Tensor:
        """Return the first `count` numbers of an attribute, float64."""
        try:
            values = [float(word) for word in given.get(name, "").split()][:count]
        except ValueError:
            values = []
        if len(values) < count or not all(map(math.isfinite, values)):
            raise MotionkitError(
                f"{self.path}: {said} has no {name} of {count} numbers.", why=f"it is {given.get(name)!r:.80}."
            )
        return torch.tensor(values).double()


def _balls(kind: str, size: Sequence[float]) -> tuple[list[tuple[float, ...]], float]:
    """Return the centres of balls, and their radius, whose convex hull is a shape; a rim by some points."""
    if kind == "sphere":
        return [(0.0, 0.0, 0.0)], size[0]
    if kind == "capsule":
        return [(0.0, 0.0, -size[1]), (0.0, 0.0, size[1])], size[0]
    if kind == "box":
        return list(product(*((-half, half) for half in size))), 0.0
    angles = [2 * math.pi * step / _RIM for step in range(_RIM)]
    rim = [(size[0] * math.cos(angle), size[0] * math.sin(angle)) for angle in angles]
    return [(x, y, end) for end in (-size[1], size[1]) for x, y in rim], 0.0
