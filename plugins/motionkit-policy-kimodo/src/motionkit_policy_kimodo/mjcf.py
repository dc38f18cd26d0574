"""Masses and foot shapes of the Unitree G1 from a robot file of the user's, MuJoCo's XML; nothing in it is executed.

MuJoCo's manual says what a file means: https://mujoco.readthedocs.io/en/stable/XMLreference.html
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NoReturn
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

import torch
from torch import Tensor

from motionkit.documents import read_text
from motionkit.errors import MotionkitError
from motionkit.geometry import matrix_from_quaternion, rotation_between
from motionkit_policy_kimodo.qpos import TO_MUJOCO
from motionkit_policy_kimodo.skeletons import body, table

_ONE_FILE = "save it as one file with MuJoCo (mj_saveLastXML, or Save xml in its viewer), and give that one."
_DEEPEST = 100  # bodies, or classes of defaults, within each other
_RIM = 16  # points of the rim of a cylinder
_FRAMES = ("axisangle", "euler", "xyaxes", "zaxis")
_BUILT = ("attach", "composite", "flexcomp", "frame", "include", "replicate")
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
    parser = XMLParser(target=_Plain())
    try:
        parser.feed(read_text(path))
        root: Element = parser.close()
    except ParseError as error:
        raise MotionkitError(f"{path} is no XML: {error}.", fix="give the robot's file for MuJoCo.") from error
    except _EntitiesError as error:
        raise MotionkitError(
            f"{path} declares a document type.", why="its entities could stand for anything.", fix=_ONE_FILE
        ) from error
    return _Reader(root, path).robot()


class _EntitiesError(Exception):
    pass


class _Plain(TreeBuilder):
    """Refuses a document type, and with it all entities."""

    def doctype(self, *_: object) -> NoReturn:
        raise _EntitiesError


@dataclass(frozen=True)
class _Place:
    """Where a body is: the joint of the skeleton, and place and rotation in its frame, in MuJoCo's axes."""

    joint: int
    origin: Tensor  # ``[3]``
    turn: Tensor  # ``[3, 3]``


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
            self._default(element, "", 0)
        names = body("g1").joint_names
        self.known = {name.replace("_skel", "_joint"): row for row, name in enumerate(names)}
        self.hinges = {row["joint"].replace("_skel", "_joint") for row in table("g1")["hinges"]}
        self.feet = {body("g1").feet[0], body("g1").feet[2]}
        self.links: list[tuple[int, float, Tensor, Tensor]] = []
        self.points: list[tuple[int, Tensor, float]] = []

    def robot(self) -> Robot:
        for element in self.root.findall("worldbody/body"):
            if any(joint.get("name") in self.hinges for joint in element.iter("joint")):  # others are no robot
                self._body(element, _Place(0, torch.zeros(3).double(), torch.eye(3).double()), "", 0)
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
        return Robot(
            tuple(link[0] for link in self.links),
            torch.tensor([link[1] for link in self.links]).double(),
            torch.stack([link[2] for link in self.links]) @ axes,
            axes.mT @ torch.stack([link[3] for link in self.links]) @ axes,
            tuple(point[0] for point in self.points),
            torch.stack([point[1] for point in self.points]) @ axes,
            torch.tensor([point[2] for point in self.points]).double(),
        )

    def _default(self, element: Element, above: str, depth: int) -> None:
        name = element.get("class", "main" if not depth else "")
        self._require_depth(depth)
        geom = element.find("geom")
        self.classes[name] = self.classes[above] | ({} if geom is None else dict(geom.attrib))
        if not depth:
            self.classes[""] = self.classes[name]
        for child in element.findall("default"):
            self._default(child, name, depth + 1)

    def _body(self, element: Element, parent: _Place, given: str, depth: int) -> None:
        self._require_depth(depth)
        name = element.get("name", "of no name")
        given = element.get("childclass", given)
        moved = [joint.get("name", "") for joint in element.findall("joint")]
        mine = [joint for joint in moved if joint in self.hinges]
        if depth == 0:
            place = parent
        elif mine:
            place = _Place(self.known[mine[0]], torch.zeros(3).double(), torch.eye(3).double())
            self.hinges.discard(mine[0])
        else:
            origin, turn = self._frame(element.attrib, f"the body {name}")
            place = _Place(parent.joint, parent.origin + parent.turn @ origin, parent.turn @ turn)
        self._inertial(element.find("inertial"), place, name)
        if place.joint in self.feet:
            for geom in element.findall("geom"):
                self._shape(self._filled(geom, given), place)
        for child in element.findall("body"):
            self._body(child, place, given, depth + 1)

    def _inertial(self, element: Element | None, place: _Place, name: str) -> None:
        if element is None:
            raise MotionkitError(
                f"{self.path}: the body {name} has no inertial.",
                why="the mass of its shapes is not computed here.",
                fix=_ONE_FILE,
            )
        said = f"the inertial of the body {name}"
        (mass,) = self._numbers(element.attrib, "mass", said, 1)
        centre, turn = self._frame(element.attrib, said)
        if "fullinertia" in element.attrib:
            xx, yy, zz, xy, xz, yz = self._numbers(element.attrib, "fullinertia", said, 6)
            inertia = torch.tensor([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]).double()
        else:
            inertia = torch.tensor(self._numbers(element.attrib, "diaginertia", said, 3)).double().diag()
        if mass < 0 or not bool((torch.linalg.eigvalsh(inertia) >= 0).all()):
            raise MotionkitError(f"{self.path}: {said} is negative.", fix="write the file again.")
        turn = place.turn @ turn
        self.links.append((place.joint, mass, place.origin + place.turn @ centre, turn @ inertia @ turn.mT))

    def _filled(self, geom: Element, given: str) -> dict[str, str]:
        """Return the attributes of a geom with those of its class."""
        name = geom.get("class", given)
        if name not in self.classes:
            raise MotionkitError(f"{self.path} has no default class {name}.", fix=_ONE_FILE)
        return self.classes[name] | geom.attrib

    def _shape(self, geom: Mapping[str, str], place: _Place) -> None:
        kind, said = geom.get("type", "sphere"), "a shape of a foot"
        if kind not in _SHAPES or (geom.get("contype", "1") == "0" and geom.get("conaffinity", "1") == "0"):
            return
        if "fromto" in geom:
            ends = torch.tensor(self._numbers(geom, "fromto", said, 6)).double().view(2, 3)
            origin, along = ends.mean(0), (ends[1] - ends[0]) / 2
            turn = rotation_between(torch.tensor([0.0, 0.0, 1.0]).double(), along)
            size = self._numbers(geom, "size", said, 1)
            size = [size[0], size[0], float(along.norm())] if kind == "box" else [size[0], float(along.norm())]
        else:
            origin, turn = self._frame(geom, said)
            size = self._numbers(geom, "size", said, _SHAPES[kind])
        for point, radius in _balls(kind, size):
            local = origin + turn @ torch.tensor(point).double()
            self.points.append((place.joint, place.origin + place.turn @ local, radius))

    def _frame(self, given: Mapping[str, str], said: str) -> tuple[Tensor, Tensor]:
        """Return place ``[3]`` and rotation ``[3, 3]`` in the frame of the parent."""
        if found := [name for name in _FRAMES if name in given]:
            raise MotionkitError(f"{self.path}: {said} is turned by {found[0]}, which is not read.", fix=_ONE_FILE)
        origin = torch.tensor(self._numbers(given, "pos", said, 3, [0.0, 0.0, 0.0])).double()
        quaternion = torch.tensor(self._numbers(given, "quat", said, 4, [1.0, 0.0, 0.0, 0.0])).double()
        if not float(quaternion.norm()) > 1e-6:
            raise MotionkitError(f"{self.path}: {said} has a quaternion of length 0.", fix="write the file again.")
        return origin, matrix_from_quaternion(quaternion)

    def _numbers(
        self, given: Mapping[str, str], name: str, said: str, count: int, otherwise: list[float] | None = None
    ) -> list[float]:
        """Return the first `count` numbers of an attribute."""
        if name not in given and otherwise is not None:
            return otherwise
        try:
            values = [float(word) for word in given.get(name, "").split()]
        except ValueError:
            values = []
        if len(values) < count or not all(map(math.isfinite, values)):
            raise MotionkitError(
                f"{self.path}: {said} has no {name} of {count} numbers.", why=f"it is {given.get(name)!r:.80}."
            )
        return values[:count]

    def _require_depth(self, depth: int) -> None:
        if depth > _DEEPEST:
            raise MotionkitError(f"{self.path} has more than {_DEEPEST} elements within each other.")


def _balls(kind: str, size: list[float]) -> Iterator[tuple[Any, float]]:
    """Return the balls, points and radii, whose convex hull is a shape; a rim by some points."""
    if kind == "sphere":
        yield (0.0, 0.0, 0.0), size[0]
    elif kind == "capsule":
        for end in (-size[1], size[1]):
            yield (0.0, 0.0, end), size[0]
    elif kind == "box":
        for signs in product((-1, 1), repeat=3):
            yield [sign * half for sign, half in zip(signs, size, strict=True)], 0.0
    else:
        for end, step in product((-size[1], size[1]), range(_RIM)):
            angle = 2 * math.pi * step / _RIM
            yield (size[0] * math.cos(angle), size[0] * math.sin(angle), end), 0.0
