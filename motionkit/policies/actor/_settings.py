"""What an actor is made from. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from motionkit.config import Cli, Group
from motionkit.errors import MotionkitError

_Pixels = Annotated[int, Field(ge=1, le=8192)]


class ActorSettings(Group):
    """The network that acts."""

    kind: Annotated[Literal["mlp", "pixels"], Cli("--policy")] = Field(
        "mlp", description="mlp reads the environment's state; pixels reads its cameras (CNN with spatial softmax)."
    )
    width: int = Field(64, ge=1, le=16_384, description="Width of the two hidden layers of actor and critic.")


class ActorSpec(BaseModel):
    """Everything that fixes the shape of an actor.

    Attributes:
        kind: What it reads.
        width: Width of the hidden layers.
        state_size: Numbers of the state vector.
        cameras: ``(height, width)`` by name, in the order that channels are joined.
        low: Lowest action, one number per dimension; empty for a discrete space.
        high: Highest action.
        choices: Number of actions of a discrete space; 0 for a continuous one.
        environment: What it was trained in.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    kind: Literal["mlp", "pixels"]
    width: int = Field(ge=1, le=16_384)
    state_size: int = Field(ge=0, le=1_000_000)
    cameras: dict[str, tuple[_Pixels, _Pixels]] = Field(max_length=64)
    low: tuple[float, ...] = Field(max_length=10_000)
    high: tuple[float, ...] = Field(max_length=10_000)
    choices: int = Field(ge=0, le=1_000_000)
    environment: dict[str, Any] = {}

    def require_fit(self, environment: Any, place: str) -> None:
        """Refuse an environment that shows or takes something else.

        Args:
            environment: An open environment.
            place: Where the actor is from, for the message.

        Raises:
            MotionkitError: Names both.
        """
        own = spec_of(self.kind, self.width, environment)
        for name in ("state_size", "cameras", "low", "high", "choices"):
            if name == ("cameras" if self.kind == "mlp" else "state_size"):
                continue
            mine, other = getattr(self, name), getattr(own, name)
            if mine != other:
                raise MotionkitError(
                    f"the actor of {place} does not fit the environment.",
                    why=f"its {name} is {mine}; the environment's is {other}.",
                    fix="choose the environment that it was trained in.",
                )


def spec_of(kind: str, width: int, environment: Any) -> ActorSpec:
    """Return the spec of an actor for an environment.

    Raises:
        MotionkitError: The environment shows nothing that such an actor reads, or takes other actions than a vector or
            a choice.
    """
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
    choices = int(getattr(space, "n", 0))
    low, high = (() if choices else tuple(getattr(space, name).tolist()) for name in ("low", "high"))
    if not choices and (not low or getattr(space, "shape", ()) != (len(low),)):
        raise MotionkitError(
            f"the environment's actions are {space}.", why="an actor gives a vector of numbers or one of n choices."
        )
    return ActorSpec.model_validate(
        {
            "kind": kind, "width": width, "state_size": environment.state_size, "cameras": dict(environment.cameras),
            "low": low, "high": high, "choices": choices, "environment": dict(environment.spec),
        }
    )  # fmt: skip
