"""`motionkit reward-collect --import` and `motionkit export --to npy`: the guide's trajectories in and out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

from motionkit_success.collect import ImportEpisodes
from motionkit_success.collect_settings import RewardCollectSettings
from motionkit_success.episodes import open_episodes
from tests.made.commands import assert_refused
from tests.made.training import run_trainer

Cli = Callable[..., Result]


def write(path: Path, images: Any, labels: list[float]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = np.empty((), dtype=object)
    table[()] = {"images": images, "labels": np.array(labels, np.float32)}
    np.save(path, table, allow_pickle=True)


def pictures(seed: int, size: int = 8) -> dict[str, Any]:
    return {"base_camera": np.random.default_rng(seed).integers(0, 256, (3, 3, size, size)).astype(np.float32) / 255}


@pytest.fixture
def guide(cli: Cli) -> Path:
    """The guide's two folders, in the folder that `cli` works in."""
    here = Path.cwd()
    for number in range(4):
        write(here / "positive" / f"{number:06d}.npy", pictures(number), [0, 1, 1])
        write(here / "negative" / f"{number:06d}.npy", pictures(10 + number), [0, 0, 0])
    return here


def test_there_and_back(guide: Path, cli: Cli) -> None:
    done = cli("reward-collect", "--import", "positive", "negative", "--out", "run", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["positive"] == {"trajectories": 4, "frames": 12, "success_frames": 8}
    assert found["negative"] == {"trajectories": 4, "frames": 12, "success_frames": 0}
    assert found["labels"] == {"1": 8, "0": 16}
    back = cli("export", "run", "back", "--json")  # npy is what episodes have
    assert json.loads(back.stdout)["trajectories"] == {"positive": 4, "negative": 4}
    for folder in ("positive", "negative"):
        for number in range(4):
            one, two = (
                np.load(guide / root / folder / f"{number:06d}.npy", allow_pickle=True).item() for root in ("", "back")
            )
            assert np.array_equal(one["images"]["base_camera"], two["images"]["base_camera"])
            assert np.array_equal(one["labels"], two["labels"])
    assert "next: motionkit reward-train --data.positive-dir back2/positive" in cli("export", "run", "back2").stderr
    other = cli("export", "run", "no", "--to", "mdm")
    assert other.exit_code == 2
    assert "fix  --to npy" in other.stderr
    assert not (guide / "no").exists()


class _Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch ran",)


def test_a_file_that_names_code_is_refused_before_a_run_exists(guide: Path, cli: Cli) -> None:
    write(guide / "negative" / "000001.npy", {"base_camera": _Evil()}, [0, 0, 0])
    assert_refused(cli("reward-collect", "--import", "positive", "negative"), "system", "nothing was executed")
    assert not (guide / "ran").exists()
    assert not (guide / "runs").exists()


def test_a_file_that_was_cut_off_is_skipped_and_named(guide: Path, cli: Cli) -> None:
    path = guide / "negative" / "000001.npy"
    path.write_bytes(path.read_bytes()[:-40])
    done = cli("reward-collect", "--import", "positive", "negative", "--json")
    found = json.loads(done.stdout)
    assert found["negative"]["trajectories"] == 3
    assert found["notes"] == ["negative/000001.npy: cut off or damaged, left out."]
    assert "warning: negative/000001.npy" in done.stderr


def test_what_acts_has_no_effect(guide: Path, cli: Cli) -> None:
    assert_refused(
        cli("reward-collect", "--import", "positive", "negative", "--policy", "random", "--num-envs", 4),
        "policy, episodes have no effect with --import",
    )
    assert cli("reward-collect", "--import", "positive").exit_code == 2


@pytest.mark.parametrize("stop_after", [1, 5])
def test_an_import_that_was_stopped_goes_on(guide: Path, stop_after: int) -> None:
    base: dict[str, Any] = {"import_from": (guide / "positive", guide / "negative")}
    settings = RewardCollectSettings.model_validate(base)
    for name in ("whole", "parts"):
        stop = stop_after if name == "parts" else 0
        run_trainer(ImportEpisodes, "reward-collect", settings, guide / name, stop_after=stop)
    assert len(open_episodes(guide / "parts").records) == stop_after
    again = RewardCollectSettings.model_validate(base | {"run": {"resume": guide / "parts"}})
    run_trainer(ImportEpisodes, "reward-collect", again, guide / "parts")
    one, two = open_episodes(guide / "whole"), open_episodes(guide / "parts")
    assert one.fingerprint == two.fingerprint
    assert [record.id for record in one.records] == [record.id for record in two.records]
