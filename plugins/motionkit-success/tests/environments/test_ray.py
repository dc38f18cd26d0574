"""Workers that are Ray's actors, on a Ray that is really started on this machine; `.ci/run` runs it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from motionkit.config import Chosen
from motionkit.errors import MotionkitError
from motionkit_success.collect_settings import RewardCollectSettings
from motionkit_success.environments.base import Environment, Stored
from motionkit_success.environments.open import open_environment

REACH = {"env": {"name": "reach", "max_steps": 6}}


def chosen() -> Chosen:
    return RewardCollectSettings.model_validate(REACH).env


def seen(environment: Environment) -> list[np.ndarray]:
    environment.reset(np.arange(3), np.arange(3))
    found = []
    for number in range(5):
        step = environment.step(np.random.default_rng(number).uniform(-1, 1, (3, 2)).astype(np.float32))
        found += [step.reward, step.success, environment.states(), environment.frames()["base_camera"]]
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning:ray")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_actors_show_what_one_process_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="pip install motionkit[ray]")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    before = {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH")}
    handler = signal.getsignal(signal.SIGTERM)
    alone, shared = open_environment(chosen(), 3), open_environment(chosen(), 3, workers=2, backend="ray")
    try:
        assert signal.getsignal(signal.SIGTERM) is handler
        for one, two in zip(seen(alone), seen(shared), strict=True):
            np.testing.assert_array_equal(one, two)
        assert isinstance(alone, Stored)
        assert isinstance(shared, Stored)
        for name, value in alone.get_state().items():
            np.testing.assert_array_equal(shared.get_state()[name], value)
        ray.kill(shared._team.workers[1]._actor)  # type: ignore[attr-defined]
        with pytest.raises(MotionkitError, match="worker 2 of 2 died") as said:
            seen(shared)
        assert said.value.code == 1
    finally:
        shared.close()
    assert not ray.is_initialized()
    assert list((tmp_path / "home").iterdir()) == []  # no token, no settings
    assert {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH")} == before


def test_ray_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MotionkitError) as said:
        open_environment(chosen(), 3, workers=2, backend="ray")
    assert said.value.code == 2
    assert "motionkit[ray]" in said.value.fix
