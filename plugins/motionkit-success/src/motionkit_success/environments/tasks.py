"""Environments as plugins, with their options: reach, push, gymnasium, MuJoCo, ManiSkill. Light half."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from motionkit.config import Group
from motionkit.plugins import Component


class GymnasiumSettings(Group):
    """Options of ``--env gymnasium``."""

    id: str = Field("", description="Id in gymnasium's registry; module:ID imports the module first.")
    kwargs: dict[str, Any] = Field({}, description="Keyword arguments of gymnasium.make, as JSON.")
    camera: str = Field(
        "render", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="Name of the camera that render() is."
    )
    image_keys: tuple[str, ...] = Field(
        (),
        description="Entries of the observation that are pictures, comma-separated, a/b in nested ones; none: what "
        "render() draws.",
    )
    size: int = Field(64, ge=8, le=4096, description="Height and width that pictures are resized to.")
    success_key: str = Field("auto", description="Entry of info that tells success; auto: success or is_success.")
    max_steps: int = Field(0, ge=0, le=1_000_000, description="Steps of an episode; 0: the environment's own limit.")

    def code(self) -> Mapping[str, str]:
        """A module in the id is imported, and environments import what their arguments name; see `Group.code`.

        Shimmy's take an id of their own, ``env_id="module:ID"``, and highway-env's the dotted name of a class.
        """
        found = {"id": "a module in the id is imported."} if ":" in self.id else {}
        if _has_text(self.kwargs):
            found["kwargs"] = "an environment may import or open what a text among its arguments names."
        return found


def _has_text(value: object) -> bool:
    """Whether a JSON value is or holds a text, names aside."""
    if isinstance(value, Mapping):
        return any(map(_has_text, value.values()))
    return any(map(_has_text, value)) if isinstance(value, (list, tuple)) else isinstance(value, str) and value != ""


class ManiskillSettings(Group):
    """Options of ``--env maniskill``."""

    id: str = Field(
        "PickCube-v1", pattern=r"^[A-Za-z0-9_]+-v\d+$", description="Task of ManiSkill with the camera base_camera."
    )
    control: str = Field("pd_ee_delta_pos", min_length=1, description="Control mode of the arm.")
    reward: Literal["normalized_dense", "dense", "sparse"] = Field(
        "normalized_dense", description="The environment's own reward, as ManiSkill names it."
    )
    max_steps: int = Field(50, ge=1, le=100_000, description="Steps of an episode.")
    size: int = Field(64, ge=16, le=1024, description="Height and width of the picture in pixels.")
    field_of_view: float = Field(
        0.9, gt=0, lt=3, description="Field of view of the camera in radians; ManiSkill's own is 1.57."
    )
    terminate_on_success: bool = Field(False, description="End an episode with its first success.")


class MujocoSettings(Group):
    """Options of ``--env mujoco``."""

    id: str = Field(
        "FetchReach-v4",
        pattern=r"^Fetch(Reach|Push|Slide|PickAndPlace)(Dense)?-v4$",
        description="FetchReach-v4, FetchPush-v4, FetchSlide-v4, FetchPickAndPlace-v4; Dense before -v4 pays minus the "
        "distance.",
    )
    max_steps: int = Field(50, ge=1, le=100_000, description="Steps of an episode.")
    size: int = Field(64, ge=16, le=1024, description="Height and width of the pictures in pixels.")


class PushSettings(Group):
    """Options of ``--env push``; lengths are in units of which the picture is two wide."""

    max_steps: int = Field(30, ge=1, le=100_000, description="Steps of an episode.")
    radius: float = Field(0.15, gt=0, le=1, description="Distance from block to goal that counts as success.")
    min_distance: float = Field(0.2, ge=0, le=0.9, description="Smallest distance of block and goal at the start.")
    max_distance: float = Field(0.6, gt=0, le=0.9, description="Largest distance of block and goal at the start.")
    friction: float = Field(0.3, ge=0, le=2, description="Coefficient of friction between finger and block.")
    size: int = Field(64, ge=16, le=1024, description="Height and width of the picture in pixels.")
    reward: Literal["sparse", "dense"] = Field(
        "sparse", description="The environment's own reward: 1 in success and else 0, or minus the distance."
    )
    terminate_on_success: bool = Field(False, description="End an episode with its first success.")

    @classmethod
    def usual(cls, command: str, given: Mapping[str, Any], policy: str) -> Mapping[str, Any]:
        """Return default settings; see `motionkit_success.environments.base.Environment`.

        A random policy seldom succeeds, so there are more episodes than elsewhere, and many copies for speed. Without
        an entropy bonus some policies stop exploring before they have learned to go round the block.
        """
        steps = {"run.num_steps": 240, "objective.entropy": 0.005} if command == "ppo" else {"run.num_steps": 64}
        return {**steps, "episodes.num_envs": 128, "episodes.steps": 32, "objective.batch_size": 512}


class ReachSettings(Group):
    """Options of ``--env reach``; lengths are in units of which the picture is two wide."""

    kind: Literal["arm", "point"] = Field(
        "arm", description="arm: two joints with velocities; point: a gripper that moves freely, the arm is only drawn."
    )
    max_steps: int = Field(30, ge=1, le=100_000, description="Steps of an episode.")
    radius: float = Field(0.15, gt=0, le=1, description="Distance from gripper to goal that counts as success.")
    min_distance: float = Field(0.35, ge=0, le=1, description="Smallest distance at the start.")
    distractor: bool = Field(True, description="Draw a red disc that means nothing.")
    size: int = Field(64, ge=16, le=1024, description="Height and width of the picture in pixels.")
    reward: Literal["sparse", "dense"] = Field(
        "sparse", description="The environment's own reward: 1 in success and else 0, or minus the distance."
    )
    terminate_on_success: bool = Field(False, description="End an episode with its first success.")

    @classmethod
    def usual(cls, command: str, given: Mapping[str, Any], policy: str) -> Mapping[str, Any]:
        """Return default settings; see `motionkit_success.environments.base.Environment`."""
        if given.get("kind") == "point":
            return {}
        steps = {"run.num_steps": 80 if policy == "mlp" else 120} if command == "ppo" else {}
        return {**steps, "episodes.num_envs": 64, "episodes.steps": 32}


def as_recorded(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a recorded table of an environment with its kind.

    Without one it is a point: there was no arm then, and a point's spec still has no kind.
    """
    if spec.get("name") == "reach" and "kind" not in spec:
        return {**spec, "kind": "point"}
    return spec


gymnasium = Component(
    summary="An environment of gymnasium's registry that has a picture and tells success.", options=GymnasiumSettings,
    factory="motionkit_success.environments.registered:GymnasiumEnvironment",
)  # fmt: skip

maniskill = Component(
    summary="A Panda arm brings a red cube to a green ball that is made visible; ManiSkill, on the CPU.",
    options=ManiskillSettings, factory="motionkit_success.environments.simulators:open_maniskill",
    needs=("mani_skill",), extra="maniskill",
)  # fmt: skip

mujoco = Component(
    summary="The Fetch robot reaches for a red ball, seen by two cameras; gymnasium-robotics, MuJoCo.",
    options=MujocoSettings, factory="motionkit_success.environments.simulators:open_fetch",
    needs=("gymnasium_robotics", "mujoco"), extra="mujoco",
)  # fmt: skip

push = Component(
    summary="A finger pushes a block to a green disc on a table that it can fall from; 64 x 64 camera.",
    options=PushSettings, factory="motionkit_success.environments.table:Push",
)  # fmt: skip


reach = Component(
    summary="A planar arm of two joints reaches for a green disc; 64 x 64 camera, thousands of frames a second.",
    options=ReachSettings, factory="motionkit_success.environments.arm:open_reach",
)  # fmt: skip
