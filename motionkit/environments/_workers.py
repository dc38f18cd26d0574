"""An environment whose copies are shared by workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.util import Finalize
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from motionkit.environments._work import space_of
from motionkit.environments.base import Floats, Frames, Step
from motionkit.errors import MotionkitError

_BEFORE_DAEMONS = 10


class Worker(Protocol):
    """The near end of a worker. One question is open at a time."""

    def ask(self, question: str, *arguments: Any) -> None:
        """Send a question of `motionkit.environments._work.Work`; does not wait."""
        ...

    def answer(self) -> Any:
        """Wait for the answer. Arrays are valid until the next question.

        Raises:
            MotionkitError: The worker has died, or the environment raised an error.
        """
        ...

    def close(self) -> None:
        """End the worker; may be called twice, and when it has died."""
        ...


class Team:
    """Workers that are asked together.

    Args:
        workers: Workers that were started.
        release: Called after they are closed.
    """

    def __init__(self, workers: Sequence[Worker], release: Callable[[], None] = lambda: None) -> None:
        self.workers = tuple(workers)
        # Also when the object is forgotten and at the end of the process, before that waits for its children.
        self.close = Finalize(self, _close, (self.workers, release), exitpriority=_BEFORE_DAEMONS)

    def ask(self, question: str, arguments: Sequence[tuple[Any, ...] | None] | None = None) -> list[Any]:
        """Ask all workers at once, or those with arguments, and wait for all; an error ends them all."""
        each = [()] * len(self.workers) if arguments is None else arguments
        asked = [(worker, given) for worker, given in zip(self.workers, each, strict=True) if given is not None]
        try:
            for worker, given in asked:
                worker.ask(question, *given)
            return [worker.answer() for worker, _ in asked]
        except BaseException:
            self.close()
            raise


class WorkerEnvironment:
    """N copies in several workers; see `motionkit.environments.base.Environment`.

    Copies go to workers in blocks, the first ones to the first worker. What a copy does depends on its seeds and
    actions alone, so the number of workers changes nothing.

    Args:
        team: The workers.
        counts: Copies of each.
        said: What one of them said when it opened.
    """

    def __init__(self, team: Team, counts: Sequence[int], said: Mapping[str, Any]) -> None:
        self._team, self._ask = team, team.ask
        self._ends = np.cumsum(counts)
        self._begins = self._ends - np.array(counts)
        self.num_envs = int(self._ends[-1])
        self.spec: Mapping[str, object] = json.loads(said["spec"])
        self.cameras: Mapping[str, tuple[int, int]] = said["cameras"]
        self.state_size, self.max_steps = said["state_size"], said["max_steps"]
        self.action_space = space_of(said["space"])
        # What was seen of the present state; and whether its frames were wanted, hence those of the next as well.
        self._states: Floats | None = None
        self._frames: Frames | None = None
        self._looked = False

    def _parts(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        return [values[begin:end] for begin, end in zip(self._begins, self._ends, strict=True)]

    def reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Begin episodes; see `motionkit.environments.base.Environment.reset`."""
        given: list[tuple[Any, ...] | None] = []
        for begin, end in zip(self._begins, self._ends, strict=True):
            own = (copies >= begin) & (copies < end)
            given.append((copies[own] - begin, seeds[own]) if own.any() else None)
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
        found = self._ask("step", [(part, draw) for part in self._parts(np.asarray(actions))])
        self._see(found)
        steps: list[Step] = [part["step"] for part in found]
        reward = np.concatenate([step.reward for step in steps])
        flags = (
            np.concatenate([getattr(step, name) for step in steps]) for name in ("success", "terminated", "truncated")
        )
        success, terminated, truncated = flags
        return Step(reward, success, terminated, truncated, [info for step in steps for info in step.infos])

    def _see(self, found: Sequence[Mapping[str, Any]]) -> None:
        self._states = np.concatenate([part["states"] for part in found])
        if "frames" in found[0]:
            self._frames = {name: np.concatenate([part["frames"][name] for part in found]) for name in self.cameras}

    def _forget(self) -> None:
        self._states, self._frames, self._looked = None, None, False

    def close(self) -> None:
        """End the workers."""
        self._team.close()


class _Stored(WorkerEnvironment):
    def get_state(self) -> Mapping[str, NDArray[Any]]:
        """Return the state of all copies, as it is without workers."""
        found = self._ask("get_state")
        return {name: np.concatenate([part[name] for part in found]) for name in found[0]}

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
"""The two protocols are told by their methods: a class for each that has those of the environment."""


def shared_environment(team: Team, counts: Sequence[int]) -> WorkerEnvironment:
    """Return the environment that workers share; it offers ``Stored`` and ``Scripted`` where they do.

    Args:
        team: The workers.
        counts: Copies of each.

    Raises:
        MotionkitError: One of them cannot open its part.
    """
    said = team.ask("open")[0]
    return _CLASSES[said["stored"], said["scripted"]](team, counts, said)


def error_of(document: Mapping[str, Any]) -> MotionkitError:
    """Return the error of a `motionkit.environments._work.Answer`."""
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
