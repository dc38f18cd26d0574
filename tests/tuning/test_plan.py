"""Which sampler is chosen, the space of train-mpl, CMA-ES that is replayed, journals that are refused."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from motionkit.contracts.search import Choice, Range
from motionkit.errors import MotionkitError
from motionkit.tuning.base import flat, open_base, value_at, with_values
from motionkit.tuning.plan import JOURNAL, WORKERS, Plan, choose_method, dimension, distributions, make_plan, written
from motionkit.tuning.samplers import make_sampler
from motionkit.tuning.settings import TuneBayesSettings
from motionkit.tuning.trials import Ended, Searched, state_of

NUMBERS = {f"x{number}": Range(0.0, 1.0) for number in range(5)}
CHOICES = {**NUMBERS, "kind": Choice(("a", "b"))}
MANY = {f"x{number}": Range(0.0, 1.0) for number in range(21)}


@pytest.mark.parametrize(
    ("sampler", "pruner", "space", "trials", "chosen"),
    [
        ("auto", "auto", NUMBERS, 50, ("gp", "none")),
        ("auto", "none", NUMBERS, 100, ("gp", "none")),
        ("auto", "auto", NUMBERS, 101, ("tpe", "hyperband")),
        ("auto", "auto", MANY, 50, ("tpe", "hyperband")),
        ("auto", "auto", CHOICES, 50, ("tpe", "hyperband")),
        ("auto", "hyperband", NUMBERS, 50, ("tpe", "hyperband")),
        ("auto", "median", NUMBERS, 50, ("tpe", "median")),
        ("random", "auto", NUMBERS, 50, ("random", "median")),
        ("cmaes", "auto", NUMBERS, 50, ("cmaes", "none")),
        ("tpe", "none", NUMBERS, 50, ("tpe", "none")),
    ],
)
def test_the_sampler_that_suits(sampler: Any, pruner: Any, space: Any, trials: int, chosen: tuple[str, str]) -> None:
    found = choose_method(sampler, pruner, space, trials, watched=True)
    assert found[:2] == chosen
    assert found[2]


def test_without_scipy_it_is_tpe_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("scipy", "cmaes") else find(name))
    sampler, pruner, why = choose_method("auto", "auto", NUMBERS, 50, watched=True)
    assert (sampler, pruner) == ("tpe", "hyperband")
    assert "motionkit[tune]" in why
    for name, needs in (("gp", "scipy"), ("qmc", "scipy"), ("cmaes", "cmaes")):
        with pytest.raises(MotionkitError, match=f"--sampler {name} needs {needs}"):
            choose_method(name, "auto", NUMBERS, 50, watched=True)  # type: ignore[arg-type]


def test_nothing_to_watch_is_nothing_to_prune() -> None:
    assert choose_method("tpe", "auto", NUMBERS, 50, watched=False)[1] == "none"
    with pytest.raises(MotionkitError, match="needs a metric to watch"):
        choose_method("tpe", "hyperband", NUMBERS, 50, watched=False)


@pytest.mark.parametrize(
    "one",
    [Range(0.1, 2.0, log=True), Range(1, 9, whole=True), Range(1, 64, log=True, whole=True), Choice(("a", None, True)),
     Range(128, 512, whole=True, step=64), Choice((64, 128))],
)  # fmt: skip
def test_a_space_is_read_back_as_it_was_written(one: Any) -> None:
    assert dimension(written({"x": one})["x"], "x", "here") == one


def test_keys_lead_into_tables_and_lists() -> None:
    table = {"a": {"b": 1}, "stages": [{"w": 0.1}, {"w": 0.2}]}
    assert dict(flat(table)) == {"a.b": 1, "stages.0.w": 0.1, "stages.1.w": 0.2}
    changed = with_values(table, {"a.b": 2, "stages.1.w": 0.3})
    assert (value_at(changed, "a.b"), value_at(changed, "stages.1.w")) == (2, 0.3)
    assert table["stages"][1] == {"w": 0.2}
    for key in ("stages.2.w", "a.b.c", "stages.w"):
        with pytest.raises(KeyError):
            value_at(table, key)


def test_the_base_of_train_mpl_is_in_its_own_space() -> None:
    base, plan, _ = make_plan(open_base("train-mpl"), TuneBayesSettings(), study="s")
    assert plan.value == "heldout.skill.after"
    for key, value in plan.first.items():
        one = plan.dimensions[key]
        assert isinstance(one, Range)
        assert one.low <= value <= one.high
        assert value_at(base.table, key) == value
    base.with_values({**plan.trial, **plan.first})


def test_the_length_of_trials_on_the_starter_is_not_in_the_result() -> None:
    base, plan, _ = make_plan(open_base("train-mpl"), TuneBayesSettings(), study="s")
    assert plan.trial["run.epochs"] == 6
    assert base.changed({}) == {}
    assert base.changed({"model.width": 192}) == {"model": {"width": 192}}
    # An epoch of a training of that length: with another one it means nothing.
    assert "teacher.end_epoch" not in plan.space
    longer = open_base("train-mpl", values={"run.epochs": 10})
    base, asked, _ = make_plan(longer, TuneBayesSettings(), study="s")
    assert asked.first["teacher.end_epoch"] == 6
    assert "run.epochs" not in asked.trial
    assert base.changed({"teacher.end_epoch": 4}) == {"run": {"epochs": 10}, "teacher": {"end_epoch": 4}}


def test_schedules_that_are_drawn_only_rise() -> None:
    """Whatever is drawn: free-run weights and horizons rise from stage to stage, and end with at least 0.3."""
    import random

    stages = [
        {"range": [1, 9], "trainer": {"freerun_weight": 0.0, "freerun_horizon": 8}},
        {"range": [10, 21], "trainer": {"freerun_weight": 0.175, "freerun_horizon": 14},
         "loss_groups": {"core": {"w_fk_pos": 0.2275}}},
        {"range": [22, 30], "trainer": {"freerun_weight": 0.325, "freerun_horizon": 18},
         "loss_groups": {"core": {"w_fk_pos": 0.4025}}},
    ]  # fmt: skip
    base = open_base("train-mpl", values={"stages": stages, "run.epochs": 30})
    base, plan, _ = make_plan(base, TuneBayesSettings(), study="s")
    assert plan.first["stages.2.trainer.freerun_weight"] == 0.325
    assert "stages.1.loss_groups.core.w_fk_pos" in plan.space
    assert "loss.fk_pos" not in plan.space
    draw = random.Random(0)
    for _ in range(50):
        values = {
            key: draw.randint(int(one.low), int(one.high)) if one.whole else draw.uniform(one.low, one.high)
            for key, one in plan.dimensions.items()
            if isinstance(one, Range) and key.startswith("stages")
        }
        found = base.with_values(values).snapshot()["stages"]
        weights = [stage["trainer"]["freerun_weight"] for stage in found]
        horizons = [stage["trainer"]["freerun_horizon"] for stage in found]
        assert weights == sorted(weights)
        assert weights[-1] >= 0.3
        assert horizons == sorted(horizons)


def plan_of(sampler: str) -> Plan:
    space = {"x": Range(-3.0, 3.0), "y": Range(1e-3, 1e1, log=True)}
    return Plan(
        trainer="t", base={"x": 2.0, "y": 5.0}, space=written(space), value="v", watch="", direction="maximize",
        trial={}, patience=1, trials=60, seeds=0, seed=3, sampler=sampler, pruner="none", why="", study="s",
        storage="",
    )  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize("sampler", ["cmaes", "tpe", "qmc", "random"])
def test_trials_follow_from_seed_and_history(sampler: str) -> None:
    """A study that is opened again half-way has the trials of one that was not; and CMA-ES goes towards the best."""
    import math

    import optuna

    plan = plan_of(sampler)

    def run(study: Any, trials: int) -> list[dict[str, float]]:
        for number in range(sum(one.state.is_finished() for one in study.trials), trials):
            done = [one for one in study.trials if one.state.name == "COMPLETE"]
            study.sampler = make_sampler(plan, number, done)
            trial = study.ask(distributions(plan.dimensions))
            study.tell(trial, -((trial.params["x"] - 1) ** 2) - (math.log10(trial.params["y"]) + 1) ** 2)
        return [one.params for one in study.trials]

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.InMemoryStorage()
    whole = optuna.create_study(direction="maximize")
    whole.enqueue_trial(plan.first)
    halves = optuna.create_study(direction="maximize", storage=storage, study_name="s")
    halves.enqueue_trial(plan.first)
    number = 60 if sampler == "cmaes" else 20
    straight = run(whole, number)
    run(halves, number // 2)
    assert run(optuna.load_study(storage=storage, study_name="s"), number) == straight
    if sampler == "cmaes":
        assert whole.best_value > -0.02
        assert not any("pickle" in key or "cma" in key for one in whole.trials for key in one.system_attrs)


@pytest.mark.parametrize(
    ("sampler", "pruner"),
    [("cmaes", "none"), ("gp", "none"), ("qmc", "none"), ("random", "median"), ("random", "hyperband"),
     ("tpe", "hyperband")],
)  # fmt: skip
def test_trials_that_were_lost_change_no_other_trial(sampler: str, pruner: str, tmp_path: Path) -> None:
    """A search whose process was killed in trials 0, 4 and 9 has the trials of one that nothing disturbed."""
    import math

    plan = plan_of(sampler).model_copy(update={"pruner": pruner, "trials": 24 if pruner == "hyperband" else 13})

    def run(folder: Path, kills: tuple[int, ...]) -> list[tuple[dict[str, float], str, int]]:
        folder.mkdir()
        trials = Searched(plan, folder)
        trials.begin()
        left = list(kills)
        while (trial := trials.claim("7-00000000")) is not None:
            value = -((trial.params["x"] - 1) ** 2) - (math.log10(trial.params["y"]) + 1) ** 2
            report = trials.report_of(trial)
            killed = trial.number in left
            going = all(report(step, value + step / 100) for step in range(1, 4 if killed else 28))
            if killed:
                left.remove(trial.number)
                (folder / WORKERS / "7-00000000").mkdir(exist_ok=True)
                assert trials.recover() == [trial.number]
            else:
                trials.tell(trial, Ended("complete", value) if going else Ended("pruned"))
        return [(one.params, one.state.name, len(one.intermediate_values)) for one in trials.all]

    straight = run(tmp_path / "straight", ())
    assert len(straight) == plan.trials
    assert run(tmp_path / "killed", (0, 4, 9)) == straight
    if pruner == "hyperband":
        assert {"COMPLETE", "PRUNED"} <= {state for _, state, _ in straight}


@pytest.fixture
def plan() -> Plan:
    settings = TuneBayesSettings(trials=4, sampler="random", pruner="none")
    return make_plan(open_base("train-mpl"), settings, study="s")[1]


@pytest.mark.parametrize("name", [JOURNAL, f"{JOURNAL}.lock"])
def test_a_journal_that_is_a_link_is_refused(plan: Plan, tmp_path: Path, name: str) -> None:
    mine, study = tmp_path / "mine", tmp_path / "study"
    mine.write_text("half a line, which a journal would lose")
    study.mkdir()
    (study / name).symlink_to(mine)
    with pytest.raises(MotionkitError, match="not a regular file"):
        Searched(plan, study)
    assert mine.read_text() == "half a line, which a journal would lose"
    (study / name).unlink()
    os.mkfifo(study / name)
    with pytest.raises(MotionkitError, match="not a regular file"):
        Searched(plan, study)


@pytest.mark.parametrize(
    "line",
    [
        "null", "[]", "3", "{}", "{", "\udcff", '{"op_code": "0"}', '{"op_code": 99, "worker_id": "w"}',
        '{"op_code": 6, "worker_id": "w", "trial_id": [], "state": 9}',
    ],
)  # fmt: skip
def test_a_damaged_journal_is_refused(plan: Plan, tmp_path: Path, line: str) -> None:
    Searched(plan, tmp_path)
    with (tmp_path / JOURNAL).open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{line}\n")
    with pytest.raises(MotionkitError, match=r"journal\.log cannot be used"):
        Searched(plan, tmp_path)


def test_a_trial_that_an_older_study_lost_does_not_count(tmp_path: Path) -> None:
    """Such studies have the settings of a trial that was cut off in another one, which goes on."""
    import optuna

    plan = plan_of("random").model_copy(update={"trials": 3})
    trials = Searched(plan, tmp_path)
    trials.begin()
    first = trials.claim("7-00000000")
    assert first is not None
    trials.study.enqueue_trial(first.params, user_attrs={"again": 0, "place": 0})
    first.set_user_attr("lost", "its process was killed")
    trials.study.tell(first, state=optuna.trial.TrialState.FAIL)
    taken = [trial for _ in range(4) if (trial := trials.claim("8-00000000")) is not None]
    assert [trial.number for trial in taken] == [1, 2, 3]
    assert taken[0].params == plan.first
    assert [state_of(trial) for trial in trials.all] == ["lost", "running", "running", "running"]
