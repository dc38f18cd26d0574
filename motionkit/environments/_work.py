"""What a worker does: it opens a part of the copies and answers questions about them, in plain values only."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray

from motionkit import plugins
from motionkit.config import Chosen
from motionkit.environments.base import Environment, Scripted, Step, Stored
from motionkit.errors import MotionkitError

Answer = tuple[bool, Any]
"""Whether it was done, with the value; or else the `MotionkitError.document`."""


@dataclass(frozen=True)
class Order:
    """What a worker opens; plain values, so that nothing of a plugin travels between processes.

    Attributes:
        kind: Plugin kind.
        name: Name that the plugin was chosen by; of a `Chosen`, so it may be a Python file.
        options: Its options as JSON.
        num_envs: Copies of this worker.
    """

    kind: str
    name: str
    options: str
    num_envs: int

    @classmethod
    def of(cls, chosen: Chosen, num_envs: int) -> Order:
        """Return the order for a plugin with its options."""
        return cls(chosen.kind, chosen.name, json.dumps(chosen.options.model_dump(mode="json")), num_envs)

    def open(self) -> Environment:
        """Build the environment."""
        component = plugins.get(self.kind, self.name, typed=True)
        options = component.options.model_validate(json.loads(self.options))
        environment: Environment = component.build(options, num_envs=self.num_envs)
        return environment


class Work:
    """Answers questions about some copies; lives in the worker.

    Args:
        order: What to open, at the first question.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._environment: Environment | None = None

    def answer(self, question: str, arguments: Sequence[Any]) -> Answer:
        """Return the value of a question, or what went wrong: an error of a plugin may not be readable elsewhere."""
        try:
            return True, getattr(self, f"_{question}")(*arguments)
        except MotionkitError as error:
            return False, error.document()
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            said = f"the environment {plugins.label(self._order.name)} failed in a worker."
            return False, {"code": 1, "message": said, "why": f"{type(error).__name__}: {error} ({where})", "fix": ""}

    @property
    def _opened(self) -> Environment:
        if self._environment is None:
            self._environment = self._order.open()
        return self._environment

    def _open(self) -> dict[str, Any]:
        """Open, and say what there is."""
        opened = self._opened
        return {
            "spec": json.dumps(opened.spec),
            "cameras": {name: (int(height), int(width)) for name, (height, width) in opened.cameras.items()},
            "state_size": int(opened.state_size),
            "space": space_document(opened.action_space),
            "max_steps": int(opened.max_steps),
            "stored": isinstance(opened, Stored),
            "scripted": isinstance(opened, Scripted),
        }

    def _reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        self._opened.reset(copies, seeds)

    def _look(self, draw: bool) -> dict[str, Any]:
        """Return the states, and the frames where they are wanted."""
        opened = self._opened
        seen: dict[str, Any] = {"states": opened.states()}
        return {**seen, "frames": dict(opened.frames())} if draw else seen

    def _step(self, actions: NDArray[Any], draw: bool) -> dict[str, Any]:
        """Step and look in one go: a question takes its time on the way."""
        step = self._opened.step(actions)
        told = tuple(_plain(info) for info in step.infos)
        plain = Step(step.reward, step.success, step.terminated, step.truncated, told)
        return {"step": plain, **self._look(draw)}

    def _scripted(self) -> NDArray[Any]:
        opened = self._opened
        assert isinstance(opened, Scripted)
        return opened.scripted()

    def _get_state(self) -> dict[str, NDArray[Any]]:
        opened = self._opened
        assert isinstance(opened, Stored)
        state = {name: np.asarray(value) for name, value in opened.get_state().items()}
        for name, value in state.items():
            if value.ndim == 0 or len(value) != self._order.num_envs:
                raise MotionkitError(
                    f"the state {name!r} of {plugins.label(self._order.name)} is {list(value.shape)}.",
                    why=f"it needs a row for each of {self._order.num_envs} copies to be shared by workers.",
                    fix="run without --workers.", code=1,
                )  # fmt: skip
        return state

    def _set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        opened = self._opened
        assert isinstance(opened, Stored)
        opened.set_state(state)

    def _close(self) -> None:
        if self._environment is not None:
            self._environment.close()


def space_document(space: Space[Any]) -> dict[str, Any]:
    """Return an action space in plain values.

    Raises:
        MotionkitError: It is neither a ``Box`` nor a ``Discrete``.
    """
    if isinstance(space, Discrete):
        return {"n": int(space.n), "start": int(space.start)}
    if isinstance(space, Box):
        return {"low": np.array(space.low), "high": np.array(space.high), "dtype": str(space.dtype)}
    raise MotionkitError(f"actions are {space}.", why="a vector or one of n choices is taken.")


def space_of(document: Mapping[str, Any]) -> Space[Any]:
    """Return the space of a `space_document`."""
    if "n" in document:
        return Discrete(document["n"], start=document["start"])
    return Box(document["low"], document["high"], dtype=np.dtype(document["dtype"]).type)


def _plain(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers, texts and arrays of numbers of an info; other objects stay in the worker."""
    found: dict[str, Any] = {}
    for name, value in info.items():
        if isinstance(value, np.ndarray | np.generic):
            if value.dtype.kind in "biuf":
                found[str(name)] = np.asarray(value) if isinstance(value, np.ndarray) else value.item()
        elif type(value) in (bool, int, float, str):
            found[str(name)] = value
    return found
