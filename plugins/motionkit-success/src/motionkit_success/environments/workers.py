"""An environment whose copies are shared by workers.

`Work` is the far end: a worker opens a part of the copies and answers questions about them, in plain values only.
`WorkerEnvironment` is the near end, which a command steps. A worker is a process of this machine
(`motionkit_success.environments.process_workers`) or an actor of Ray (`motionkit_success.environments.ray_workers`).
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray

from motionkit import plugins
from motionkit.config import Chosen
from motionkit.errors import MotionkitError
from motionkit_success.environments.base import Environment, Floats, Frames, Scripted, Step, Stored

_BEFORE_DAEMONS = 10


# The far end

Answer = tuple[bool, Any]
"""True with the value, or False with a `MotionkitError.document`."""


@dataclass(frozen=True)
class Order:
    """The environment that a worker opens; plain values, so that no object of a plugin is pickled."""

    kind: str  # plugin kind
    name: str  # name that the plugin was chosen by; of a `Chosen`, so it may be a Python file
    options: str  # its options as JSON
    num_envs: int  # copies of this worker

    @classmethod
    def of(cls, chosen: Chosen, num_envs: int) -> Order:
        """Return the order for a plugin with its options."""
        return cls(chosen.kind, chosen.name, json.dumps(chosen.options.model_dump(mode="json")), num_envs)

    def open(self) -> Environment:
        """Build the environment."""
        component = plugins.get(self.kind, self.name, typed=True)
        options = component.options.model_validate(json.loads(self.options))
        environment: Environment = plugins.build(self.kind, component, options, num_envs=self.num_envs)
        return environment


class Work:
    """Answers questions about some copies; lives in the worker."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._environment: Environment | None = None

    def answer(self, question: str, arguments: Sequence[Any]) -> Answer:
        """Return the value of a question, or a document of the error: errors of plugins may not be picklable."""
        try:
            return True, getattr(self, f"_{question}")(*arguments)
        except MotionkitError as error:
            return False, error.document()
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            message = f"the environment {plugins.label(self._order.name)} failed in a worker."
            why = f"{type(error).__name__}: {error} ({where})"
            return False, {"code": 1, "message": message, "why": why, "fix": ""}

    @property
    def _opened(self) -> Environment:
        if self._environment is None:
            self._environment = self._order.open()
        return self._environment

    def _open(self) -> dict[str, Any]:
        """Open the environment and describe it."""
        opened = self._opened
        return {
            "spec": json.dumps(opened.spec),
            "cameras": {name: (int(height), int(width)) for name, (height, width) in opened.cameras.items()},
            "state_size": int(opened.state_size),
            "state_parts": {str(name): int(count) for name, count in opened.state_parts.items()},
            "left_out": {str(name): str(what) for name, what in opened.left_out.items()},
            "notes": [str(note) for note in opened.notes],
            "space": space_document(opened.action_space),
            "max_steps": int(opened.max_steps),
            "stored": isinstance(opened, Stored),
            "scripted": isinstance(opened, Scripted),
        }

    def _reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        self._opened.reset(copies, seeds)

    def _look(self, draw: bool) -> dict[str, Any]:
        """Return the states, and the frames if `draw`."""
        opened = self._opened
        seen: dict[str, Any] = {"states": opened.states()}
        return {**seen, "frames": dict(opened.frames())} if draw else seen

    def _step(self, actions: NDArray[Any], draw: bool) -> dict[str, Any]:
        """Step and look in one question, to save a round trip."""
        step = self._opened.step(actions)
        infos = tuple(_plain(info) for info in step.infos)
        plain = Step(step.reward, step.success, step.terminated, step.truncated, infos)
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
    """Return an action space in plain values."""
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
    plain: dict[str, Any] = {}
    for name, value in info.items():
        if isinstance(value, np.ndarray | np.generic):
            if value.dtype.kind in "biuf":
                plain[str(name)] = np.asarray(value) if isinstance(value, np.ndarray) else value.item()
        elif type(value) in (bool, int, float, str):
            plain[str(name)] = value
    return plain


# The near end


class Worker(Protocol):
    """The near end of a worker. One question is open at a time."""

    def ask(self, question: str, *arguments: Any) -> None:
        """Send a question of `motionkit_success.environments.workers.Work`; does not wait."""
        ...

    def answer(self) -> Any:
        """Wait for the answer. Arrays are valid until the next question."""
        ...

    def close(self) -> None:
        """End the worker; may be called twice, and when it has died."""
        ...


class Team:
    """Workers that are asked together."""

    def __init__(self, workers: Sequence[Worker], release: Callable[[], None] = lambda: None) -> None:
        self.workers = tuple(workers)
        # Also when the object is collected, and at exit before multiprocessing joins its children.
        self.close = Finalize(self, _close, (self.workers, release), exitpriority=_BEFORE_DAEMONS)

    def ask(self, question: str, arguments: Sequence[tuple[Any, ...] | None] | None = None) -> list[Any]:
        """Ask all workers at once, or those with arguments, and wait for all; an error ends them all."""
        all_arguments = [()] * len(self.workers) if arguments is None else arguments
        questions = [
            (worker, given) for worker, given in zip(self.workers, all_arguments, strict=True) if given is not None
        ]
        try:
            for worker, given in questions:
                worker.ask(question, *given)
            return [worker.answer() for worker, _ in questions]
        except BaseException:
            self.close()
            raise


class WorkerEnvironment(Environment):
    """N copies in several workers; see `motionkit_success.environments.base.Environment`.

    Copies go to workers in blocks, the first ones to the first worker. A copy depends on its seeds and actions alone,
    so the number of workers changes nothing.
    """

    def __init__(self, team: Team, counts: Sequence[int], opened: Mapping[str, Any]) -> None:
        self._team, self._ask = team, team.ask
        self._ends = np.cumsum(counts)
        self._begins = self._ends - np.array(counts)
        self.num_envs = int(self._ends[-1])
        self.spec: Mapping[str, object] = json.loads(opened["spec"])
        self.cameras: Mapping[str, tuple[int, int]] = opened["cameras"]
        self.state_size, self.max_steps = opened["state_size"], opened["max_steps"]
        self.state_parts, self.left_out, self.notes = opened["state_parts"], opened["left_out"], opened["notes"]
        self.action_space = space_of(opened["space"])
        # States and frames of the present state; `_looked` if frames were asked for, so that the next step draws too.
        self._states: Floats | None = None
        self._frames: Frames | None = None
        self._looked = False

    def _parts(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        return [values[begin:end] for begin, end in zip(self._begins, self._ends, strict=True)]

    def reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Begin episodes; see `motionkit_success.environments.base.Environment.reset`."""
        given: list[tuple[Any, ...] | None] = []
        for begin, end in zip(self._begins, self._ends, strict=True):
            inside = (copies >= begin) & (copies < end)
            given.append((copies[inside] - begin, seeds[inside]) if inside.any() else None)
        self._forget()
        self._ask("reset", given)

    def states(self) -> Floats:
        """Return ``[N, state_size]``."""
        if self._states is None:
            self._see(self._ask("look", [(False,)] * len(self._ends)))
        assert self._states is not None
        return self._states

    def frames(self) -> Frames:
        """Return ``[N, H, W, 3]`` uint8 by camera."""
        self._looked = True
        if self._frames is None:
            self._see(self._ask("look", [(True,)] * len(self._ends)))
        assert self._frames is not None
        return self._frames

    def step(self, actions: NDArray[Any]) -> Step:
        """Step every copy."""
        draw = self._looked
        self._forget()
        answers = self._ask("step", [(part, draw) for part in self._parts(np.asarray(actions))])
        self._see(answers)
        steps: list[Step] = [part["step"] for part in answers]
        reward = np.concatenate([step.reward for step in steps])
        flags = (
            np.concatenate([getattr(step, name) for step in steps]) for name in ("success", "terminated", "truncated")
        )
        success, terminated, truncated = flags
        return Step(reward, success, terminated, truncated, [info for step in steps for info in step.infos])

    def _see(self, answers: Sequence[Mapping[str, Any]]) -> None:
        self._states = np.concatenate([part["states"] for part in answers])
        if "frames" in answers[0]:
            self._frames = {name: np.concatenate([part["frames"][name] for part in answers]) for name in self.cameras}

    def _forget(self) -> None:
        self._states, self._frames, self._looked = None, None, False

    def close(self) -> None:
        """End the workers."""
        self._team.close()


class _Stored(WorkerEnvironment):
    def get_state(self) -> Mapping[str, NDArray[Any]]:
        """Return the state of all copies, as it is without workers."""
        answers = self._ask("get_state")
        return {name: np.concatenate([part[name] for part in answers]) for name in answers[0]}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Put it back; it may come from another number of workers."""
        split = {name: self._parts(value) for name, value in state.items()}
        given: list[tuple[Any, ...] | None] = [
            ({name: parts[place] for name, parts in split.items()},) for place in range(len(self._ends))
        ]
        self._forget()
        self._ask("set_state", given)


class _Scripted(WorkerEnvironment):
    def scripted(self) -> NDArray[Any]:
        """Return actions that lead towards success."""
        return np.concatenate(self._ask("scripted"))


class _Both(_Stored, _Scripted):
    pass


_CLASSES = {
    (False, False): WorkerEnvironment, (True, False): _Stored, (False, True): _Scripted, (True, True): _Both
}  # fmt: skip
"""A class for each set of optional protocols, which are recognised by their methods."""


def shared_environment(team: Team, counts: Sequence[int]) -> WorkerEnvironment:
    """Return the environment that workers share; it has ``Stored`` and ``Scripted`` if theirs have."""
    opened = team.ask("open")[0]
    return _CLASSES[opened["stored"], opened["scripted"]](team, counts, opened)


def error_of(document: Mapping[str, Any]) -> MotionkitError:
    """Return the error of a `motionkit_success.environments.workers.Answer`."""
    return MotionkitError(document["message"], why=document["why"], fix=document["fix"], code=document["code"])


def death(number: int, workers: int, how: str) -> MotionkitError:
    """Return the error of a worker that has died."""
    return MotionkitError(
        f"worker {number + 1} of {workers} died: {how}.",
        why="a process that is killed from outside has often taken too much memory; episodes that had ended are kept.",
        fix="--resume RUN goes on from the last checkpoint; fewer --num-envs or --workers need less memory.",
        code=1,
    )


def _close(workers: Sequence[Worker], release: Callable[[], None]) -> None:
    for worker in workers:
        worker.close()
    release()
