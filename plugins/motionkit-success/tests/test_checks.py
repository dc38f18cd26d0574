"""The check of environments passes what is right and finds what is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from motionkit_success.checks import check_environment
from motionkit_success.environments.arm import CAMERA, Reach
from motionkit_success.environments.base import Step
from motionkit_success.environments.tasks import ReachSettings


class Small(Reach):
    """`reach` with short episodes and small pictures."""

    def __init__(self, *, max_steps: int = 20, num_envs: int = 2) -> None:
        super().__init__(ReachSettings(max_steps=max_steps, size=16), num_envs=num_envs)


class Unseeded(Small):
    drawn = 0

    def _begin(self, copy: int, seed: int) -> None:
        Unseeded.drawn += 1
        super()._begin(copy, Unseeded.drawn)


class ByCopy(Small):
    def reset(self, copies: Any, seeds: Any) -> None:
        super().reset(copies, seeds + copies)


class ResetsAll(Small):
    def reset(self, copies: Any, seeds: Any) -> None:
        super().reset(np.arange(2), np.resize(seeds, 2))


class AutoReset(Small):
    """What gymnasium's vector environments do: the last state of an episode is gone."""

    def step(self, actions: Any) -> Step:
        if self._over.any():
            over = np.flatnonzero(self._over)
            self.reset(over, over + 500)
        return super().step(actions)


class Unclipped(Small):
    def step(self, actions: Any) -> Step:
        self._places[:, 0] += np.where(self._over[:, None], 0, 0.01 * np.asarray(actions, np.float32))
        return super().step(actions)


class Endless(Small):
    def step(self, actions: Any) -> Step:
        step = super().step(actions)
        self._over[:] = False
        return Step(step.reward, step.success, step.terminated, step.terminated, step.infos)


class Shared(Small):
    """Returns the very array that it goes on writing to."""

    def states(self) -> Any:
        self.kept = getattr(self, "kept", np.zeros((2, 6), np.float32))
        self.kept[:] = super().states()
        return self.kept


class Wide(Small):
    def frames(self) -> Any:
        return {CAMERA: super().frames()[CAMERA].astype(np.float32) / 255}


class Misnamed(Small):
    def frames(self) -> Any:
        return {"front": super().frames()[CAMERA]}


class Silent(Small):
    def step(self, actions: Any) -> Step:
        step = super().step(actions)
        return Step(step.reward, step.reward, step.terminated, step.truncated, step.infos)


class Forgetful(Small):
    def get_state(self) -> Mapping[str, Any]:
        return {**super().get_state(), "places": self._places}


class Lost(Small):
    def scripted(self) -> Any:
        return -super().scripted()


class Blind(Small):
    def __init__(self) -> None:
        super().__init__()
        self.cameras, self.state_size = {}, 0


class Unserial(Small):
    def __init__(self) -> None:
        super().__init__()
        self.spec = {**self.spec, "space": self.action_space}


def test_builtin_environments() -> None:
    check_environment("reach")
    check_environment(Small(num_envs=1))
    check_environment(Small(max_steps=200), steps=10)  # only its beginning is looked at


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (Unseeded, "The same seeds give another start"),
        (ByCopy, "The start of a seed depends on the copy"),
        (ResetsAll, "reset changes a copy that it was not called for"),
        (AutoReset, "A step changes a copy whose episode is over"),
        (Unclipped, "An action beyond its space does something else"),
        (Endless, "An episode is not over after max_steps, 20"),
        (Shared, "What states returned changes with a later reset"),
        (Wide, "frames of base_camera must be [2, 16, 16, 3] uint8, are [2, 16, 16, 3] float32"),
        (Misnamed, "frames are of ['front'], cameras are ['base_camera']"),
        (Silent, "success must be [2] bool, is [2] float32"),
        (Forgetful, "set_state does not go back to what get_state returned"),
        (Lost, "Its scripted policy reaches no success in an episode"),
        (Blind, "It shows nothing"),
        (Unserial, "Its spec is not JSON-able"),
    ],
)
def test_broken_environments(environment: type[Small], said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_environment(environment())
    assert said in str(caught.value)


def test_a_start_must_not_depend_on_the_number_of_copies(site: Any) -> None:
    from motionkit.plugins import Component

    source = "from motionkit_success.environments.arm import Reach\n\nclass ByNumber(Reach):\n"
    source += "    def reset(self, copies, seeds):\n        super().reset(copies, seeds + self.num_envs)\n"
    site.install("by-number", "", by_number=source)
    component = Component("By N.", ReachSettings, "by_number:ByNumber")
    with pytest.raises(AssertionError, match="depends on the number of copies"):
        check_environment(component, options={"max_steps": 20, "size": 16})
