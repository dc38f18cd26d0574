"""The points on the way: which steps, which policy is kept, when a run ends early."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from motionkit.metrics.paired import Paired
from motionkit.text_to_motion.evaluation.heldout import Measured
from motionkit.text_to_motion.evaluation.set_figures import SetFigure
from motionkit.text_to_motion.grpo.measurements import Measurements


class Script:
    """A held-out set that returns given rewards and judge scores, measurement after measurement."""

    prompts: tuple[()] = ()
    samples = 2
    guidance = 1.0

    def __init__(self, rows: list[tuple[float, float]]) -> None:
        self.rows = iter(rows)

    def measure(self, policy: object, *, first: bool = False, guidance: float | None = None) -> Measured:
        reward, judge = next(self.rows)
        draw = np.random.default_rng(0).normal(size=(16, 2)) * 1e-3
        return Measured({"reward": reward + draw, "judge": judge + draw[::-1]})

    def compare_sets(self, before: Measured, after: Measured) -> dict[str, SetFigure]:
        change = float(after.quantities["reward"].mean() - before.quantities["reward"].mean())
        return {"kinetic_fid": SetFigure(Paired(3.0, 3.0 - change, -change, (-1.0, 1.0), 16), 2.0)}

    def chances(self) -> dict[str, float]:
        return {"judge": 0.25}

    def kid_words(self, measured: Measured) -> str:
        return ""


class Note:
    """A policy and a run that note what is saved and logged."""

    def __init__(self, folder: Path) -> None:
        self.directory = folder
        self.normalizer = SimpleNamespace(mean=SimpleNamespace(device="cpu"))
        self.saved: list[str] = []
        self.logged: list[tuple[int, dict[str, float]]] = []

    def artifact(self, name: str) -> Path:
        return self.directory / name

    def save(self, folder: Path) -> None:
        self.saved.append(folder.name)

    def log(self, step: int, metrics: dict[str, float]) -> None:
        self.logged.append((step, metrics))


def make(note: Note, rows: list[tuple[float, float]], *, stop: bool = False, watched: bool = True) -> Measurements:
    script: Any = Script(rows)
    reported: Any = Script([(0.5, 0.5)] * 9)
    reported.measure_real = lambda **how: None
    policy: Any = note
    heldout = {"reported": reported, **({"watched": script} if watched else {})}
    return Measurements(policy, nullcontext, None, heldout, points=4, num_steps=120, stop_on_gap=stop)


def walk(measurements: Measurements, note: Any) -> list[int]:
    """Return the steps that were measured."""
    measurements.before(note)
    return [step for step in range(1, 121) if not measurements.must_stop and measurements.at(step, note)]


def test_points_are_even_with_one_early(tmp_path: Path) -> None:
    note = Note(tmp_path)
    assert walk(make(note, [(0.5, 0.5)] * 6), note) == [4, 30, 60, 90, 120]
    assert [step for step, _ in note.logged] == [0]


@pytest.mark.parametrize(
    ("steps", "prompts", "more", "points"),
    [
        (3, 8, {}, 1), (200, 8, {}, 8), (20_000, 8, {}, 10), (3, 8, {"points": 3}, 3), (3, 8, {"points": 0}, 0),
        (3, 8, {"stop_on_gap": True}, 10), (47, 32, {}, 8),
    ],
)  # fmt: skip
def test_a_short_run_is_measured_seldom(steps: int, prompts: int, more: dict[str, Any], points: int) -> None:
    from motionkit.plugins import get
    from motionkit.text_to_motion.grpo.train import GrpoTrainer

    settings = get("trainers", "grpo").options.model_validate(
        {"heldout": more, "run": {"num_steps": steps}, "rollout": {"prompts": prompts}}
    )
    trainer = GrpoTrainer(settings)
    trainer.grpo = SimpleNamespace(algorithm=SimpleNamespace(samples=8))  # type: ignore[assignment]
    assert trainer._points() == points


def test_a_run_that_is_made_longer_keeps_what_was_measured_before_it(tmp_path: Path) -> None:
    def ended(note: Note, rows: list[tuple[float, float]]) -> dict[str, Any]:
        measurements = make(note, [(0.5, 0.5)])
        whole: Any = Script(rows)
        whole.prompts = (None,) * 16
        measurements.heldout = {**measurements.heldout, "all_steps": whole}
        measurements.started = nullcontext
        measurements.policy = SimpleNamespace(  # type: ignore[assignment]
            schedule=[0] * 7, normalizer=SimpleNamespace(mean=SimpleNamespace(device="cpu"))
        )
        measurements.before(note)  # type: ignore[arg-type]
        found: Any = measurements.after(note)["heldout_all_steps"]  # type: ignore[arg-type]
        assert next(whole.rows, None) is None, "measured as often as expected"
        kinetic = found["kinetic_fid"]
        assert (kinetic["before"], kinetic["real"]) == (3.0, 2.0)
        assert found["judge"]["chance"] == 0.25
        assert kinetic["delta"] == pytest.approx(-found["reward"]["delta"])
        return dict(found["reward"])

    note = Note(tmp_path)
    assert ended(note, [(0.7, 0.6), (0.4, 0.6)])["delta"] == pytest.approx(0.3)
    assert ended(note, [(0.8, 0.6)])["delta"] == pytest.approx(0.4), "the one before is kept"
    kept = tmp_path / "heldout" / "before_all_steps.safetensors"
    for damage in (kept.read_bytes()[:-3], b"", b"{" * 100):
        kept.write_bytes(damage)
        assert ended(note, [(0.8, 0.6), (0.4, 0.6)])["delta"] == pytest.approx(0.4)
    kept.write_bytes(kept.read_bytes().replace(b"judge", b"other"))
    assert ended(note, [(0.8, 0.6), (0.5, 0.6)])["before"] == pytest.approx(0.5, abs=1e-3)


def test_the_best_feasible_policy_is_kept(tmp_path: Path) -> None:
    note = Note(tmp_path)
    measurements = make(note, [(0.5, 0.5), (0.52, 0.52), (0.6, 0.58), (0.59, 0.58), (0.7, 0.5), (0.62, 0.6)])
    walk(measurements, note)
    assert note.saved == ["best"] * 3  # at 4, 30 and 120; at 90 the judge did not follow
    assert measurements.parts()["best"].state().values["step"] == 120


def test_no_best_is_chosen_on_the_reported_prompts(tmp_path: Path) -> None:
    note = Note(tmp_path)
    assert walk(make(note, [], watched=False), note) == [4, 30, 60, 90, 120]
    assert note.saved == []


@pytest.mark.parametrize("stop", [True, False])
def test_a_gap_at_two_points_in_a_row_ends_a_run_that_asked_for_it(stop: bool, tmp_path: Path) -> None:
    note = Note(tmp_path)
    rows = [(0.5, 0.5), (0.52, 0.52), (0.6, 0.52), (0.61, 0.6), (0.7, 0.52), (0.8, 0.5)]
    measurements = make(note, rows, stop=stop)
    walk(measurements, note)
    assert measurements.must_stop == stop
    if stop:
        assert "best/ holds the policy of step 60" in measurements.stopped()


def test_its_state_is_put_back(tmp_path: Path) -> None:
    note = Note(tmp_path)
    one = make(note, [(0.5, 0.5), (0.52, 0.52), (0.6, 0.58), (0.6, 0.5), (0.7, 0.5), (0.6, 0.6)])
    walk(one, note)
    other = make(note, [(0.9, 0.9)])
    for name, part in other.parts().items():
        part.load_state(one.parts()[name].state())
    assert other.at(30, note)["heldout/reward/delta"] == pytest.approx(0.4, abs=1e-6)  # type: ignore[arg-type]


class Asked:
    """A held-out set that notes the guidance it is measured with; movement is a tenth of it, of the reference 1."""

    def __init__(self, count: int, guidance: float) -> None:
        self.prompts, self.samples, self.guidance = [None] * count, 1, guidance
        self.asked: list[float] = []
        self.steps = None

    def measure(self, policy: object, *, first: bool = False, guidance: float | None = None) -> Measured:
        self.asked.append(self.guidance if guidance is None else guidance)
        values = np.full((len(self.prompts), 1), self.asked[-1] / 10)
        return Measured({"reward": values, "movement": values, "diversity": values})

    def measure_real(self, *, device: object) -> Measured:
        ones = np.ones((len(self.prompts), 1))
        return Measured({"reward": 0.9 * ones, "movement": ones})

    def compare_sets(self, before: Measured, after: Measured) -> dict[str, SetFigure]:
        return {}

    def chances(self) -> dict[str, float]:
        return {}

    def kid_words(self, measured: Measured) -> str:
        return ""


def finish(
    tmp_path: Path, heldout: dict[str, Any], *, guidance: float, started: bool = True
) -> tuple[dict[str, Any], Note]:
    tmp_path.mkdir(exist_ok=True)
    note: Any = Note(tmp_path)
    note.schedule = range(50)
    back = nullcontext if started else None
    rows = frozenset({"diversity"})
    one = Measurements(
        note, nullcontext, back, heldout, points=0, num_steps=9, stop_on_gap=False, guidance=guidance, rows=rows
    )
    one.before(note)
    return one.after(note), note


def test_the_first_table_is_of_what_generate_makes(tmp_path: Path) -> None:
    heldout = {"reported": Asked(8, 1.0), "all_steps": Asked(8, 1.0), "generate": Asked(6, 1.0)}
    heldout["switched"] = heldout["generate"]
    summary, _ = finish(tmp_path, heldout, guidance=2.5)
    assert [table["title"] for table in summary["table"]] == [
        "With the settings of motionkit generate: 6 prompts, all 50 steps, guidance 1 before and after",
        "Held out: 8 prompts x 1 samples, same noise before and after",
        "The same prompts with all 50 sampling steps, one sample each",
    ]
    assert summary["heldout_generate"]["movement"] | {"ci95": 0} == {
        "before": pytest.approx(0.1), "after": pytest.approx(0.1), "delta": pytest.approx(0.0), "ci95": 0, "n": 6,
        "real": 1.0,
    }  # fmt: skip
    # A change of guidance is a line of its own: the policy before training at both.
    guidance = summary["guidance"]
    assert (guidance["before"], guidance["after"]) == (2.5, 1.0)
    assert guidance["reward"]["before"] == pytest.approx(0.25)
    assert guidance["reward"]["after"] == pytest.approx(0.1)
    assert summary["heldout_generate"]["reward"]["real"] == pytest.approx(0.9)
    assert "real" not in summary["heldout"]["diversity"]
    assert summary["heldout"]["diversity"]["trained_on"] is True
    assert "trained_on" not in summary["heldout"]["movement"]
    assert summary["heldout_all_steps"]["movement"]["before"] == pytest.approx(0.1)
    for table in summary["table"]:
        assert table["columns"][:4] == ["", "before", "after", "reference"]


def test_rows_of_an_evaluator_that_says_little_are_marked_in_summary_and_table(tmp_path: Path) -> None:
    class Embedded(Asked):
        def measure(self, policy: object, *, first: bool = False, guidance: float | None = None) -> Measured:
            found = super().measure(policy, first=first, guidance=guidance)
            hits = found.quantities["reward"] * (1 + len(self.asked))  # they rise with every measurement
            return Measured(found.quantities | {"r_precision_3": hits})

        def measure_real(self, *, device: object) -> Measured:
            return Measured(super().measure_real(device=device).quantities | {"r_precision_3": np.full((32, 1), 0.25)})

    note: Any = Note(tmp_path)
    note.schedule = range(50)
    heldout: Any = {"reported": Embedded(32, 1.0)}
    said: list[float | None] = []

    def doubted(real: float | None) -> str:
        said.append(real)
        return "it finds the text of reference clips with R@3 0.25"

    one = Measurements(note, nullcontext, None, heldout, points=0, num_steps=9, stop_on_gap=False, doubted=doubted)
    one.before(note)
    summary: Any = one.after(note)
    assert said == [pytest.approx(0.25)], "it is asked with the R@3 of reference clips"
    assert summary["heldout"]["r_precision_3"]["doubt"] == "it finds the text of reference clips with R@3 0.25"
    assert "doubt" not in summary["heldout"]["reward"]
    (shown,) = summary["table"]
    verdicts = {row[0].partition(",")[0]: row[-1] for row in shown["rows"]}
    assert verdicts["R@3"] == "n/a"
    assert verdicts["movement"] == "no change"
    assert shown["title"].endswith("n/a: it finds the text of reference clips with R@3 0.25")
    one = Measurements(
        note, nullcontext, None, {"reported": Embedded(32, 1.0)}, points=0, num_steps=9, stop_on_gap=False
    )  # type: ignore[dict-item]
    one.before(note)
    summary = one.after(note)
    assert {row[0]: row[-1] for row in summary["table"][0]["rows"]}["R@3"] == "better"


def test_what_all_steps_have_measured_is_not_measured_again(tmp_path: Path) -> None:
    heldout = {"reported": Asked(8, 1.0), "all_steps": Asked(8, 1.0), "generate": Asked(6, 1.0)}
    heldout["switched"] = heldout["generate"]
    finish(tmp_path / "a", heldout, guidance=2.5)
    assert heldout["generate"].asked == [2.5]  # before, for the line; the rows are the start of all steps
    heldout = {"reported": Asked(8, 1.0), "generate": Asked(6, 1.0)}
    heldout["switched"] = heldout["generate"]
    summary, _ = finish(tmp_path / "b", heldout, guidance=2.5, started=False)
    assert heldout["generate"].asked == [2.5, 1.0, 1.0]
    assert list(summary["heldout_generate"]) == ["reward", "movement", "diversity"]


class Guided(Asked):
    """What scores a tenth of the guidance before training, and `gains` of the guidance after it."""

    def __init__(self, gains: dict[float, float]) -> None:
        super().__init__(6, 1.0)
        self.gains, self.tuned = gains, False

    def measure(self, policy: object, *, first: bool = False, guidance: float | None = None) -> Measured:
        scale = self.guidance if guidance is None else guidance
        self.asked.append(scale)
        return Measured({"reward": np.full((len(self.prompts), 1), self.gains[scale] if self.tuned else scale / 10)})


@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize(
    ("after", "stays"),
    [
        ({1.0: 0.24, 2.5: 0.30}, True),  # few updates: at the guidance of training it is worse than before
        ({1.0: 0.26, 2.5: 0.30}, True),  # a fifth of the gain
        ({1.0: 0.29, 2.5: 0.30}, False),  # four fifths: less guidance is smoother
        ({1.0: 0.20, 2.5: 0.22}, True),  # training that gains nothing
        ({1.0: 0.20, 2.5: 0.05}, False),  # both are worse, that of before by far
    ],
)
def test_the_guidance_of_before_stays_where_updates_have_not_made_up_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, after: dict[float, float], stays: bool, started: bool
) -> None:
    heldout: dict[str, Any] = {"reported": Asked(8, 1.0), "generate": Asked(6, 1.0), "guided": Guided(after)}
    heldout["switched"] = heldout["generate"]
    note: Any = Note(tmp_path)
    note.schedule, note.normalizer = range(50), SimpleNamespace(mean=SimpleNamespace(device="cpu"))
    guided = heldout["guided"]

    class Back:
        def __enter__(self) -> None:
            guided.tuned = False

        def __exit__(self, *_: object) -> None:
            guided.tuned = True

    back = Back if started else None
    one = Measurements(note, nullcontext, back, heldout, points=0, num_steps=9, stop_on_gap=False, guidance=2.5)
    one.before(note)
    guided.tuned = True
    with caplog.at_level("INFO"):
        assert one.choose_guidance(note) is stays
    assert sorted(guided.asked) == [1.0, 2.5, 2.5]
    assert ("generate keeps guidance 2.5, which this policy had before training: with it" in caplog.text) is stays
    found: Any = one.after(note)
    assert found["table"][0]["title"].endswith(f"guidance {'2.5' if stays else '1'} before and after")
    row = found["heldout_generate"]["reward"]
    assert row["before"] == pytest.approx(row["after"]), "nothing but the guidance would have changed it"
    assert row["before"] == pytest.approx(0.25 if stays else 0.1)
    assert ("reward" in found["guidance"]) is not stays
    taken = 2.5 if stays else 1.0
    at_end = [taken, 2.5] if stays else [taken, 2.5, 1.0]
    assert heldout["generate"].asked == (at_end if started else [2.5, 1.0, taken]), "at the start both, as both may be"


def test_a_run_from_before_the_guidance_was_chosen_keeps_that_of_training(tmp_path: Path) -> None:
    guided = Guided({1.0: 0.1, 2.5: 0.3})
    guided.tuned = True
    heldout: Any = {"reported": Asked(8, 1.0), "generate": Asked(6, 1.0), "guided": guided}
    note: Any = Note(tmp_path)
    one = Measurements(note, nullcontext, None, heldout, points=0, num_steps=9, stop_on_gap=False, guidance=2.5)
    assert one.choose_guidance(note) is True, "its checkpoint has no figures of before"


@pytest.mark.parametrize("started", [True, False])
def test_the_stored_guidance_stays_where_no_other_prompts_can_decide(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, started: bool
) -> None:
    """Fifteen held-out prompts, all of them reported: a run of few steps is not said to have changed the reward."""
    heldout: dict[str, Any] = {"reported": Asked(15, 1.0), "all_steps": Asked(15, 1.0), "generate": Asked(15, 1.0)}
    note: Any = Note(tmp_path)
    note.schedule = range(50)
    back = nullcontext if started else None
    one = Measurements(note, nullcontext, back, heldout, points=0, num_steps=3, stop_on_gap=False, guidance=2.5)
    one.before(note)
    with caplog.at_level("INFO"):
        assert one.choose_guidance(note) is True
    assert (
        "motionkit generate keeps guidance 2.5, which this policy had before training. It was trained with 1. "
        in caplog.text
    )
    assert caplog.text.rstrip().endswith("Try the other: motionkit generate --guidance-scale 1")
    assert one.guidance_after == 2.5
    found: Any = one.after(note)
    assert found["guidance"] == {"before": 2.5, "after": 2.5}
    row = found["heldout_generate"]["reward"]
    assert (row["before"], row["after"]) == (pytest.approx(0.25), pytest.approx(0.25))


class Noise(Asked):
    """A policy whose jerk is 67 times that of reference clips, and a reward that likes it."""

    def measure(self, policy: object, *, first: bool = False, guidance: float | None = None) -> Measured:
        ones = np.ones((len(self.prompts), 1))
        return Measured({"reward": 0.593 * ones, "jerk": 6107.0 * ones, "movement": 0.326 * ones})

    def measure_real(self, *, device: object) -> Measured:
        ones = np.ones((len(self.prompts), 1))
        return Measured({"reward": 0.569 * ones, "jerk": 91.0 * ones, "movement": ones})


def test_noise_and_a_reward_that_likes_it_are_said_before_the_first_update(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    note: Any = Note(tmp_path)
    note.schedule = range(50)
    heldout: Any = {"reported": Noise(24, 1.0)}
    one = Measurements(note, nullcontext, nullcontext, heldout, points=0, num_steps=3, stop_on_gap=False)
    one.before(note)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said[0].startswith(
        "this policy makes noise: before training its motions have 67 times the jerk of reference"
    )
    assert said[1].startswith(
        "this reward does not prefer reference motions: they score 0.569, the policy's own before"
    )
    caplog.clear()
    one.after(note)
    assert "the motions are noise" in caplog.text
    assert "postures" not in caplog.text
    caplog.clear()
    fine: Any = {"reported": Asked(24, 1.0)}
    Measurements(note, nullcontext, nullcontext, fine, points=0, num_steps=3, stop_on_gap=False).before(note)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
