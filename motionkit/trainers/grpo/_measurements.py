"""Everything a run measures on held-out prompts: before training, on the way, and after it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from motionkit.evaluation import (
    MIN_RATIO,
    HeldOut,
    Measured,
    Paired,
    compare_measured,
    drift_alarms,
    judge_ratio,
)
from motionkit.policies.base import DiffusionPolicy
from motionkit.runs import Run, TrainedOn
from motionkit.tracking import result_table, results
from motionkit.trainers._state import Kept, Stateful
from motionkit.trainers._world import OneProcess, World, of_main

_logger = logging.getLogger("motionkit.grpo")
_EARLY = 30  # the first point of a run of as many steps comes after this part of it: a new user soon sees one
_KINDS = ("reported", "watched", "all_steps")
_PATIENCE = 2  # points in a row with a gap that end a run with stop_on_gap


@dataclass
class Measurements:
    """The held-out measurements of one run.

    Attributes:
        policy: What is measured.
        averaged: Puts the averaged weights into the policy for the duration.
        started: Puts the policy as it started back for the duration, where that needs no copy; None elsewhere. What is
            measured at the end only is then measured before and after at the end, and training starts sooner.
        heldout: What is measured, any of: ``reported``, the prompts that the table is about; ``watched``, other
            prompts, measured at the points on the way; ``all_steps``, the reported prompts with every step of the
            ancestral sampler.
        points: Points on the way, evenly spaced.
        num_steps: Updates of the run.
        stop_on_gap: End the run when the judge no longer follows the reward.
        trained_on: What the policy is trained on, written beside the best one.
        world: The processes that train together. All of them measure, at the same time; the main one's figures decide.
    """

    policy: DiffusionPolicy
    averaged: Callable[[], AbstractContextManager[None]]
    started: Callable[[], AbstractContextManager[None]] | None
    heldout: Mapping[str, HeldOut]
    points: int
    num_steps: int
    stop_on_gap: bool
    trained_on: TrainedOn = field(default_factory=TrainedOn)
    world: World = field(default_factory=OneProcess)
    _before: dict[str, Kept] = field(default_factory=lambda: {name: Kept() for name in _KINDS})
    _best: Kept = field(default_factory=lambda: Kept(values={"reward": 0.0, "step": 0, "gaps": 0}))

    def parts(self) -> dict[str, Stateful]:
        """Return what a checkpoint holds of it."""
        return {**{f"before_{name}": kept for name, kept in self._before.items()}, "best": self._best}

    def before(self, run: Run) -> None:
        """Measure the policy as it starts, and log it as step 0.

        Raises:
            MotionkitError: A reward gives no held-out motion a finite score (exit code 1).
        """
        for name, heldout in self.heldout.items():
            if name == "all_steps" and self.started is not None:
                continue
            _logger.info("measuring %s before training", _asked(name, heldout))
            measured = heldout.measure(self.policy, first=name == "reported")
            self._before[name].tensors = measured.tensors()
            if name == "reported" and measured.shown is not None:
                measured.shown.keep(run, "before")
            if name == self._curve:
                run.log(0, _metrics(compare_measured(measured, measured)))

    def at(self, step: int, run: Run) -> dict[str, float]:
        """Measure after update number `step`, where it is a point; keep the policy if it is the best so far.

        Returns:
            Metrics of the watched prompts; empty where the step is no point.
        """
        heldout = self.heldout.get(self._curve)
        if heldout is None or step not in self._steps():
            return {}
        begun = time.monotonic()
        with self.averaged():
            found = compare_measured(self._start(self._curve), heldout.measure(self.policy))
            reward = found["reward"]
            ratio = judge_ratio(reward, found["judge"]) if "judge" in found else None
            gap = ratio is not None and ratio < MIN_RATIO
            delta, drift, gap = of_main([reward.delta, bool(drift_alarms(found)), gap], self.world)
            # The best policy is never chosen on the prompts that are reported.
            if self._curve == "watched" and not drift and delta > float(self._best.values["reward"]):
                self._note(reward=delta, step=step)
                if self.world.main:
                    self.policy.save(run.artifact("best"))
                    self.trained_on.write(run.artifact("best"))
        self._note(gaps=int(self._best.values["gaps"]) + 1 if gap else 0)
        _logger.info("step %d: held-out %s, in %.1f s", step, _in_words(found), time.monotonic() - begun)
        return _metrics(found)

    def _note(self, **values: float) -> None:
        self._best.values = {**self._best.values, **values}

    @property
    def _curve(self) -> str:
        """Which prompts are measured on the way."""
        return "watched" if "watched" in self.heldout else "reported"

    @property
    def must_stop(self) -> bool:
        """Whether the judge has stopped following the reward, in a run that ends then."""
        return self.stop_on_gap and int(self._best.values["gaps"]) >= _PATIENCE

    def stopped(self) -> str:
        """Return why a run ended early, and which policy it kept, in words."""
        step = int(self._best.values["step"])
        kept = f"; best/ holds the policy of step {step}, before the gap" if step else ""
        return f"the judge gained less than {MIN_RATIO} of the reward's gain at {_PATIENCE} points in a row{kept}"

    def after(self, run: Run) -> dict[str, object]:
        """Measure the finished policy.

        Returns:
            Entries of the run's summary.
        """
        summary: dict[str, object] = {}
        if best := int(self._best.values["step"]):
            summary["best"] = {
                "step": best,
                "policy": str(run.directory / "best"),
                "delta": self._best.values["reward"],
            }
            if best < self.num_steps:
                _logger.info("best/ holds the policy of step %d, the best on the prompts on the way", best)
        reported = self.heldout.get("reported")
        if reported is None:
            return summary
        with self.averaged():
            asked = {name: heldout for name, heldout in self.heldout.items() if name != "watched"}
            measured = {}
            for name, heldout in asked.items():
                _logger.info("measuring %s after training", _asked(name, heldout))
                measured[name] = heldout.measure(self.policy)
        if "all_steps" in asked and self.started is not None:
            self._before["all_steps"].tensors = self._all_steps_before(run, measured["all_steps"]).tensors()
        if (shown := measured["reported"].shown) is not None:
            shown.keep(run, "after")
        found = {name: compare_measured(self._start(name), after) for name, after in measured.items()}
        for text in drift_alarms(found["reported"]):
            _logger.warning("%s", text)
        documents = {name: {key: one.document() for key, one in pairs.items()} for name, pairs in found.items()}
        title = f"Held out: {len(reported.prompts)} prompts x {reported.samples} samples, same noise before and after"
        tables = [result_table(results(documents["reported"]), title)]
        if "all_steps" in found:
            summary["heldout_all_steps"] = documents["all_steps"]
            some = [row for row in results(documents["all_steps"]) if row.name in ("reward", "judge", "jerk")]
            steps = f"The same prompts with all {len(self.policy.schedule)} sampling steps, one sample each"
            tables.append(result_table(some, steps))
        return summary | {"heldout": documents["reported"], "table": tables}

    def _all_steps_before(self, run: Run, after: Measured) -> Measured:
        """Return the measurement of the policy as it started, which a run that is made longer has already."""
        heldout = self.heldout["all_steps"]
        path = run.artifact("heldout") / "before_all_steps.safetensors"
        # Processes that train together measure at the same time, and only one of them has the run folder.
        shape = (len(heldout.prompts), heldout.samples)
        if self.world.size == 1 and (kept := Measured.kept(path, after.quantities, shape)) is not None:
            return kept
        _logger.info("measuring %s before training", _asked("all_steps", heldout))
        with self.started() if self.started is not None else nullcontext():
            found = heldout.measure(self.policy)
        if self.world.main:
            found.keep(path)
        return found

    def _start(self, name: str) -> Measured:
        return Measured.from_tensors(self._before[name].tensors)

    def _steps(self) -> set[int]:
        if not self.points:
            return set()
        even = {round(self.num_steps * point / self.points) for point in range(1, self.points + 1)}
        return even | {self.num_steps // _EARLY} - {0}


def _in_words(found: Mapping[str, Paired]) -> str:
    """Return a point of the curve in words."""
    shown = [(name, found[name]) for name in ("reward", "judge") if name in found]
    return ", ".join(f"{name} {paired.after:.3f} ({round(paired.delta, 3) + 0.0:+.3f})" for name, paired in shown)


def _asked(name: str, heldout: HeldOut) -> str:
    words = {"watched": "other held-out prompts for the curve", "all_steps": "held-out prompts with all sampling steps"}
    what = words.get(name, "held-out prompts")
    return f"{len(heldout.prompts)} {what}"


def _metrics(found: Mapping[str, Paired]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for name, paired in found.items():
        if name in ("reward", "judge"):
            metrics |= {f"heldout/{name}/mean": paired.after, f"heldout/{name}/delta": paired.delta}
        else:
            metrics[f"heldout/physics/{name}" if name in ("skate", "jerk") else f"heldout/{name}"] = paired.after
    return metrics
