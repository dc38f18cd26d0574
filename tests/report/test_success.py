"""The pages of reward-collect and ppo: counts, film strips, films; and what is wrong with their folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motionkit.report.page import run_page
from motionkit.runs import next_commands, peek
from motionkit.runs._record import RunRecord
from motionkit_success.collect import RewardCollect
from motionkit_success.collect_settings import RewardCollectSettings
from motionkit_success.ppo.settings import PpoSettings
from motionkit_success.ppo.train import PpoTrainer

from ..made.training import run_trainer

BASE: dict[str, Any] = {
    "env": {"name": "reach", "max_steps": 8},
    "episodes": {"num_envs": 4, "steps": 16},
    "objective": {"batch_size": 16, "epochs": 1},
    "threads": 1,
}


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "collected"
    given = {**BASE, "run": {"num_steps": 2, "out": out}, "policy": "scripted"}
    del given["objective"]  # nothing is learned
    run_trainer(RewardCollect, "reward-collect", RewardCollectSettings.model_validate(given), out)
    return out


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "learned"
    own = {"reward": {"env": {}}, "heldout": {"episodes": 6, "watched": 4}}
    given = {**BASE, **own, "run": {"num_steps": 2, "out": out}}
    run_trainer(PpoTrainer, "ppo", PpoSettings.model_validate(given), out)
    return out


def test_the_page_of_collected_episodes_shows_both_classes(collected: Path) -> None:
    page = run_page(collected)
    counts = json.loads((collected / "run.json").read_text())["summary"]
    assert f"{counts['positive']['trajectories']:,}</" in page
    for words in ("Episodes with a success", "Episodes without", "When success comes", "collected by scripted"):
        assert words in page
    # Framed frames are exactly those whose state is a success.
    assert 0 < page.count('<figure class="right">') < page.count('src="data:image/png;base64,')
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_the_page_of_a_policy_has_its_films(learned: Path) -> None:
    page = run_page(learned)
    assert page.count("data:image/webp;base64,") == 8
    assert page.count("<figcaption>before: ") == page.count("<figcaption>after: ") == 4
    assert "6 deterministic episodes from starts that training does not use" in page
    assert "true success" in page


@pytest.mark.parametrize("damage", ["index", "film", "outside"])
def test_films_that_are_damaged_or_elsewhere_are_left_out(learned: Path, tmp_path: Path, damage: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(learned, run)
    index = run / "films/films.json"
    if damage == "index":
        index.write_text("{")
        assert "The films cannot be shown" in run_page(run)
        return
    (tmp_path / "secret.webp").write_bytes(b"secret")
    said = json.loads(index.read_text())
    said[0]["file"] = "../../secret.webp" if damage == "outside" else "9.webp"
    index.write_text(json.dumps(said))
    assert run_page(run).count("data:image/webp;base64,") == 6


def test_the_films_of_before_and_after_begin_alike(learned: Path) -> None:
    from PIL import Image

    for number in range(4):
        starts = []
        for folder in ("films-before", "films"):
            with Image.open(learned / folder / f"{number}.webp") as film:
                starts.append(np.asarray(film.convert("RGB")))
        # The pictures are compressed, each film by itself.
        assert abs(starts[0].astype(int) - starts[1]).mean() < 2


def test_episodes_that_are_damaged_do_not_stop_the_page(collected: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(collected, run)
    (run / "episodes/manifest.json").write_text("{")
    assert "They cannot be shown" in run_page(run)


def test_the_next_commands_lead_through_the_three_stages(collected: Path, learned: Path) -> None:
    assert next_commands(peek(collected))[0] == f"motionkit reward-train --data {collected}"
    assert next_commands(peek(learned))[-1] == f"motionkit report {learned}"


@pytest.mark.parametrize("status", ["warn", "fail"])
def test_a_classifier_that_is_not_fit_is_no_reward_to_go_on_with(status: str, collected: Path, tmp_path: Path) -> None:
    RunRecord.new("reward-train", {}).write(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"data": {"path": [str(collected)]}}))
    record = json.loads((tmp_path / "run.json").read_text())
    record["status"] = "done"
    record["summary"] = {"checks": [{"name": "recall", "status": status}]}
    (tmp_path / "run.json").write_text(json.dumps(record))
    lines = next_commands(peek(tmp_path))
    assert any(line.startswith("motionkit ppo ") for line in lines) == (status == "warn")
    assert lines[-2:] == [f"motionkit eval reward {tmp_path}", f"motionkit report {tmp_path}"]
