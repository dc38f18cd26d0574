"""Episodes that are run for a success rate: what the learned reward is asked, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from motionkit_success.environments.arm import open_reach
from motionkit_success.environments.tasks import ReachSettings
from motionkit_success.true_success import run_episodes, start_seeds

SEEDS = start_seeds("eval", 0, 0, 11)  # of four copies, so that the last three share no whole batch
CAMERA = "base_camera"


class Run:
    """Episodes of `reach` with the script, one after the other in a copy alone or several together."""

    def __init__(self, copies: int) -> None:
        self.environment = open_reach(ReachSettings(terminate_on_success=True), num_envs=copies)
        self.asked: list[int] = []
        self.drawn = 0
        frames = self.environment.frames

        def counted() -> Mapping[str, Any]:
            self.drawn += 1
            return frames()

        self.environment.frames = counted  # type: ignore[method-assign]

    def __call__(self, levels: float, **options: Any) -> Any:
        def predict(frames: Mapping[str, Any]) -> Any:
            self.asked.append(len(frames[CAMERA]))
            # Some pictures: as a classifier would, by the picture alone.
            return frames[CAMERA].astype(np.int64).sum(axis=(1, 2, 3)) % 997 < levels

        return run_episodes(
            self.environment, lambda states, frames: self.environment.scripted(), SEEDS, predict=predict, **options
        )


@pytest.mark.parametrize("levels", [40, 0, 997])
def test_an_episode_is_asked_until_it_is_over_or_seen(levels: int) -> None:
    together, alone = Run(4), Run(1)
    found, expected = together(levels), alone(levels)
    assert found.predicted.tolist() == expected.predicted.tolist()
    assert found.success.tolist() == expected.success.tolist()
    # No picture is looked at twice, nor one of a copy that repeats a start.
    assert sum(together.asked) == sum(alone.asked)
    if levels == 40:
        assert 0 < found.predicted.sum() < 11
    if levels == 997:  # all is seen in the first frame
        assert (together.asked, together.drawn) == ([4, 4, 3], 3)


def test_films_are_whole_whatever_is_seen() -> None:
    films, plain = Run(4)(997, films=2).films, Run(4)(0, films=2).films
    assert len(films) == 2
    for one, other in zip(films, plain, strict=True):
        assert np.array_equal(one, other)
        assert len(one) > 3
