"""The contract of environments."""

from __future__ import annotations

import json
from typing import Any, cast

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from motionkit import plugins
from motionkit.plugins import Component
from motionkit.testing import Findings, check_component, component_of, options_of
from motionkit_success.environments.base import Environment, Scripted, Step, Stored

_COPIES = 3
_FAR = 10.0  # times the range of an action beyond its bound
Seen = dict[str, NDArray[Any]]
"""States and frames by name, each ``[N, ...]``."""


def check_environment(
    environment: str | Component | Environment, *, options: dict[str, Any] | None = None, steps: int = 100
) -> None:
    """Check what reward-collect and ppo rely on in every environment.

    The start depends on the seed only, not on the copy and their number; states are finite float32, frames uint8 of
    the stated sizes, and returned arrays do not change later; a step returns reward, success and end of each copy;
    actions are clipped to their space; an episode ends by `max_steps`, and then stands still until its reset, while
    other copies go on. If it has them, `get_state` and `set_state` restore the same bits, and `scripted` reaches a
    success.

    Args:
        environment: Its name, its component, or an open environment, which stays open.
        options: Options to build it with; a small ``max_steps``, if it has one, lets slow simulators end.
        steps: Most steps of an episode; the end of longer ones is not checked.

    Raises:
        AssertionError: Lists all violations, a sentence each.

    Example:
        >>> check_environment("reach", options={"max_steps": 10}, steps=10)
    """
    if isinstance(environment, str):
        check_component("environments", environment)
    if not isinstance(environment, (str, Component)):
        return _check(environment, steps)
    component = component_of("environments", environment)
    several, single = (
        cast("Environment", plugins.build("environments", component, options_of(component, options), num_envs=count))
        for count in (_COPIES, 1)
    )
    try:
        _check(several, steps, single)
    finally:
        for opened in (several, single):
            opened.close()
            opened.close()


def _check(environment: Environment, steps: int, single: Environment | None = None) -> None:
    findings = Findings(f"environment {environment.spec.get('name', type(environment).__name__)!r}")
    _check_card(findings, environment)
    findings.close()
    _check_starts(findings, environment, single)
    findings.close()
    _check_steps(findings, environment)
    _check_clipping(findings, environment)
    _check_end(findings, environment, steps)
    if isinstance(environment, Stored):
        _check_stored(findings, environment)
    if isinstance(environment, Scripted):
        _check_scripted(findings, environment, steps)
    findings.close()


def _check_card(findings: Findings, environment: Environment) -> None:
    findings.expect(environment.num_envs >= 1, f"num_envs is {environment.num_envs}.")
    findings.expect(environment.max_steps >= 1, f"max_steps is {environment.max_steps}.")
    findings.expect("name" in environment.spec, "Its spec has no name.")
    try:
        json.dumps(dict(environment.spec))
    except (TypeError, ValueError) as error:
        findings.expect(False, f"Its spec is not JSON-able: {error}.")
    findings.expect(
        bool(environment.cameras) or environment.state_size > 0, "It shows nothing: no camera, and no state vector."
    )
    space = environment.action_space
    vector = isinstance(space, Box) and len(space.shape) == 1
    findings.expect(vector or isinstance(space, Discrete), f"action_space must be a vector or n choices, is {space}.")


def _check_starts(findings: Findings, environment: Environment, single: Environment | None) -> None:
    count = environment.num_envs
    seeds = np.arange(10, 10 + count)
    first = _reset(environment, seeds)
    if not _check_seen(findings, environment, first):
        return
    kept = {name: value.copy() for name, value in first.items()}
    later = _reset(environment, seeds + 1000)
    changed = [name for name in kept if not np.array_equal(first[name], kept[name])]
    findings.expect(not changed, f"What {', '.join(changed)} returned changes with a later reset.")
    again = _reset(environment, seeds)
    findings.expect(_same(again, kept), "The same seeds give another start.")
    together = _reset(environment, np.full(count, 10))
    findings.expect(
        all(_same(_copy(together, copy), _copy(kept, 0)) for copy in range(count)),
        "The start of a seed depends on the copy.",
    )
    if single is not None:
        alone = _reset(single, seeds[-1:])
        findings.expect(_same(alone, _copy(kept, count - 1)), "The start of a seed depends on the number of copies.")
    if count > 1:
        _reset(environment, seeds)
        environment.reset(np.array([1]), seeds[1:2] + 1000)
        part = _look(environment)
        findings.expect(_same(_copy(part, 0), _copy(kept, 0)), "reset changes a copy that it was not called for.")
        findings.expect(_same(_copy(part, 1), _copy(later, 1)), "reset of one copy gives another start than of all.")


def _check_seen(findings: Findings, environment: Environment, seen: Seen) -> bool:
    count, size = environment.num_envs, environment.state_size
    states = seen["states"]
    fine = findings.expect(
        states.shape == (count, size) and states.dtype == np.float32,
        f"states must be [{count}, {size}] float32, are {list(states.shape)} {states.dtype}.",
    )
    fine &= findings.expect(bool(np.isfinite(states).all()), "states are not finite.")
    names = set(seen) - {"states"}
    fine &= findings.expect(
        names == set(environment.cameras), f"frames are of {sorted(names)}, cameras are {sorted(environment.cameras)}."
    )
    for name, (height, width) in environment.cameras.items():
        if name in seen:
            frames = seen[name]
            fine &= findings.expect(
                frames.shape == (count, height, width, 3) and frames.dtype == np.uint8,
                f"frames of {name} must be [{count}, {height}, {width}, 3] uint8, are {list(frames.shape)} "
                f"{frames.dtype}.",
            )
    return fine


def _check_steps(findings: Findings, environment: Environment) -> None:
    count = environment.num_envs
    _reset(environment, np.arange(count))
    for number in range(min(3, environment.max_steps)):
        step = environment.step(_draw(environment, number))
        for name, kind in (("reward", np.float32), ("success", np.bool_), ("terminated", np.bool_),
                           ("truncated", np.bool_)):  # fmt: skip
            value = np.asarray(getattr(step, name))
            findings.expect(
                value.shape == (count,) and value.dtype == kind,
                f"{name} must be [{count}] {np.dtype(kind).name}, is {list(value.shape)} {value.dtype}.",
            )
        findings.expect(bool(np.isfinite(step.reward).all()), "reward is not finite.")
        findings.expect(
            len(step.infos) == count, f"infos must be {count} mappings, one per copy, are {len(step.infos)}."
        )
        if not _check_seen(findings, environment, _look(environment)) or findings.sentences:
            return


def _check_clipping(findings: Findings, environment: Environment) -> None:
    space = environment.action_space
    if not isinstance(space, Box) or not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        return
    beyond = _FAR * (space.high - space.low)
    for bound, far in ((space.high, space.high + beyond), (space.low, space.low - beyond)):
        seen = []
        for action in (bound, far):
            _reset(environment, np.arange(environment.num_envs))
            environment.step(np.tile(action, (environment.num_envs, 1)).astype(np.float32))
            seen.append(_look(environment))
        findings.expect(_same(*seen), "An action beyond its space does something else than the action at the bound.")


def _check_end(findings: Findings, environment: Environment, steps: int) -> None:
    count = environment.num_envs
    _reset(environment, np.arange(count))
    over = np.zeros(count, np.bool_)
    for number in range(min(steps, environment.max_steps)):
        over |= environment.step(_draw(environment, number)).done
        if over.all():
            break
    if environment.max_steps <= steps:
        findings.expect(bool(over.all()), f"An episode is not over after max_steps, {environment.max_steps}.")
    if not over.any():
        return
    # If there are several copies, one is reset: it must go on while the others stand still.
    running = int(np.flatnonzero(over)[-1]) if count > 1 else -1
    if running >= 0:
        environment.reset(np.array([running]), np.array([77]))
    before = {name: value.copy() for name, value in _look(environment).items()}
    environment.step(_draw(environment, 0))
    after = _look(environment)
    for copy in np.flatnonzero(over).tolist():
        if copy != running:
            findings.expect(
                _same(_copy(after, copy), _copy(before, copy)),
                "A step changes a copy whose episode is over: its last state is lost.",
            )


def _check_stored(findings: Findings, environment: Environment) -> None:
    assert isinstance(environment, Stored)
    _reset(environment, np.arange(environment.num_envs))
    environment.step(_draw(environment, 0))
    kept = environment.get_state()
    shown = {name: value.copy() for name, value in _look(environment).items()}
    first = _walk(environment)
    environment.set_state(kept)
    findings.expect(_same(_look(environment), shown), "set_state does not go back to what get_state returned.")
    again = _walk(environment)
    findings.expect(_same(again, first), "The same actions lead elsewhere after set_state.")


def _walk(environment: Environment) -> Seen:
    """Take two fixed steps; return the states, frames, success and reward."""
    steps: list[Step] = [environment.step(_draw(environment, number)) for number in (1, 2)]
    seen = {name: value.copy() for name, value in _look(environment).items()}
    return {**seen, "success": np.stack([step.success for step in steps]).T, "reward": steps[-1].reward}


def _check_scripted(findings: Findings, environment: Environment, steps: int) -> None:
    assert isinstance(environment, Scripted)
    _reset(environment, np.arange(environment.num_envs))
    succeeded = False
    for _ in range(min(steps, environment.max_steps)):
        actions = np.asarray(environment.scripted())
        shape = _draw(environment, 0).shape
        if not findings.expect(
            actions.shape == shape, f"scripted must return {list(shape)}, not {list(actions.shape)}."
        ):
            return
        step = environment.step(actions)
        succeeded |= bool(step.success.any())
        if succeeded or step.done.all():
            break
    findings.expect(succeeded or environment.max_steps > steps, "Its scripted policy reaches no success in an episode.")


def _reset(environment: Environment, seeds: NDArray[np.int64]) -> Seen:
    environment.reset(np.arange(environment.num_envs), seeds)
    return _look(environment)


def _look(environment: Environment) -> Seen:
    return {"states": environment.states(), **(environment.frames() if environment.cameras else {})}


def _copy(seen: Seen, copy: int) -> Seen:
    return {name: value[copy : copy + 1] for name, value in seen.items()}


def _same(first: Seen, second: Seen) -> bool:
    return all(np.array_equal(first[name], second[name]) for name in first)


def _draw(environment: Environment, seed: int) -> NDArray[Any]:
    """Return random actions of all copies."""
    draw, space = np.random.default_rng(seed), environment.action_space
    if isinstance(space, Discrete):
        return draw.integers(int(space.n), size=environment.num_envs)
    assert isinstance(space, Box)
    low, high = (np.clip(side, -1e3, 1e3) for side in (space.low, space.high))
    return draw.uniform(low, high, (environment.num_envs, *space.shape)).astype(np.float32)
