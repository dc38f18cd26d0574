"""Settings and shape of an actor. Imports no torch; `motionkit_success.actor` is the heavy half."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from motionkit.config import Cli, Group
from motionkit.errors import MotionkitError

_Pixels = Annotated[int, Field(ge=1, le=8192)]
_MOST_PIXELS, _MOST_WEIGHTS = 1 << 26, 10**9
"""Limits of the numbers of an observation of all cameras, and of the weights of the layers behind it."""

_FAR = 3e38


class ActorSettings(Group):
    """The network that acts."""

    kind: Annotated[Literal["mlp", "pixels"], Cli("--policy")] = Field(
        "mlp", description="mlp reads the environment's state; pixels reads its cameras (CNN with spatial softmax)."
    )
    width: int = Field(64, ge=1, le=16_384, description="Width of the two hidden layers of actor and critic.")


class ActorSpec(BaseModel):
    """Shape of an actor."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    kind: Literal["mlp", "pixels"]  # what it reads
    width: int = Field(ge=1, le=16_384)  # width of the hidden layers
    state_size: int = Field(ge=0, le=1_000_000)  # numbers of the state vector
    # Numbers of each part of an observation that is joined to the state; empty if there are none, or are not recorded
    state_parts: dict[str, Annotated[int, Field(ge=0, le=1_000_000)]] = Field({}, max_length=10_000)
    # ``(height, width)`` by name, in the order that channels are joined
    cameras: dict[str, tuple[_Pixels, _Pixels]] = Field(max_length=64)
    # Lowest action, one number per dimension; empty for a discrete space
    low: tuple[float, ...] = Field(max_length=10_000)
    high: tuple[float, ...] = Field(max_length=10_000)  # highest action
    choices: int = Field(ge=0, le=1_000_000)  # number of actions of a discrete space; 0 for a continuous one
    environment: dict[str, Any] = {}  # what it was trained in

    @property
    def weights(self) -> int:
        """Weights of the hidden layers of actor and critic and of the last one; the network has more."""
        read = self.state_size if self.kind == "mlp" else 0
        return 2 * self.width * (read + self.width) + self.width * max(self.choices, len(self.low))

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if not (self.state_size if self.kind == "mlp" else self.cameras):
            raise ValueError("mlp reads a state vector, pixels a camera, and it has none")
        if not self.choices and (not self.low or len(self.low) != len(self.high)):
            raise ValueError("actions are one of n choices, or numbers with a lowest and a highest each")
        if not all(-_FAR <= low <= high <= _FAR for low, high in zip(self.low, self.high, strict=False)):
            raise ValueError("the lowest action is above the highest, or either is beyond float32")
        if self.kind == "pixels" and sum(3 * height * width for height, width in self.cameras.values()) > _MOST_PIXELS:
            raise ValueError("its cameras have too many pixels")
        if self.weights > _MOST_WEIGHTS:
            raise ValueError(f"it has {self.weights:,} weights or more, which are too many")
        return self

    def require_fit(self, environment: Any, place: str) -> None:
        """Refuse an environment with other observations or actions."""
        fitting = spec_of(self.kind, self.width, environment)
        if self.kind == "mlp":
            self._require_state(fitting, place, dict(environment.left_out))
        for name in ("cameras", "low", "high", "choices"):
            if name == "cameras" and self.kind == "mlp":
                continue
            mine, other = getattr(self, name), getattr(fitting, name)
            if mine != other:
                raise MotionkitError(
                    f"the actor of {place} does not fit the environment.",
                    why=f"its {name} is {mine}; the environment's is {other}.",
                    fix="choose the environment that it was trained in.",
                )

    def _require_state(self, fitting: ActorSpec, place: str, left_out: Mapping[str, str]) -> None:
        """Refuse a state of another width or of other parts."""
        known = self.state_parts and fitting.state_parts
        same = list(self.state_parts.items()) == list(fitting.state_parts.items())
        if self.state_size == fitting.state_size and (same or not known):
            return
        why = f"it reads {parts_in_words(self.state_size, self.state_parts)}; the environment shows "
        why += parts_in_words(fitting.state_size, fitting.state_parts)
        why += f", without {', '.join(left_out)}." if left_out else "."
        fix = "choose the environment that it was trained in."
        if fitting.state_parts and not self.state_parts and self.state_size < fitting.state_size:
            why += " Older versions left out what is no vector and no single choice."
            fix = "train it again, or choose the environment that it was trained in."
        raise MotionkitError(f"the actor of {place} does not fit the environment.", why=why, fix=fix)


def parts_in_words(size: int, parts: Mapping[str, int]) -> str:
    """Return the width of a state and the numbers of its parts.

    Example:
        >>> parts_in_words(5, {"agent": 2, "goal": 3})
        '5 numbers (agent 2, goal 3)'
    """
    inside = ", ".join(f"{name} {count}" for name, count in parts.items())
    return f"{size} numbers" + (f" ({inside})" if inside else "")


def spec_of(kind: str, width: int, environment: Any) -> ActorSpec:
    """Return the spec of an actor for an environment."""
    if kind == "mlp" and not environment.state_size:
        raise MotionkitError(
            "this environment shows no state vector.", why="the policy mlp reads one.", fix="--policy pixels"
        )
    if kind == "pixels" and not environment.cameras:
        raise MotionkitError("this environment has no camera.", why="the policy pixels reads one.", fix="--policy mlp")
    if kind == "pixels" and len({*environment.cameras.values()}) > 1:
        sizes = ", ".join(f"{name} {height} x {width}" for name, (height, width) in environment.cameras.items())
        raise MotionkitError(
            "the cameras have different sizes.",
            why=f"the policy pixels joins them: {sizes}.",
            fix="give them one size.",
        )
    space = environment.action_space
    choices = int(getattr(space, "n", 0))  # of any space of gymnasium, which is not imported here
    low, high = (() if choices else tuple(getattr(space, name).tolist()) for name in ("low", "high"))
    if not choices and (not low or getattr(space, "shape", ()) != (len(low),)):
        raise MotionkitError(
            f"the environment's actions are {space}.", why="an actor gives a vector of numbers or one of n choices."
        )
    try:
        return ActorSpec.model_validate(
            {
                "kind": kind, "width": width, "state_size": environment.state_size,
                "state_parts": dict(environment.state_parts),
                "cameras": dict(environment.cameras), "low": low, "high": high, "choices": choices,
                "environment": dict(environment.spec),
            }
        )  # fmt: skip
    except ValidationError as error:
        why = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise MotionkitError(
            "no actor can be made for this environment.", why=f"{why}.", fix="smaller pictures, or a smaller width."
        ) from error
