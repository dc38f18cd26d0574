"""Measurements of a run on held-out prompts, before training, at points during it, and after it; and its alarms."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import cast

from motionkit.metrics.paired import Paired
from motionkit.runs import Run, TrainedOn
from motionkit.text_to_motion.evaluation.heldout import HeldOut, Measured, compare_measured
from motionkit.text_to_motion.evaluation.points import FEW_POINTS, is_point, keep_point
from motionkit.text_to_motion.findings import (
    ALL_STEPS,
    EVALUATOR_ROWS,
    GENERATE,
    GUIDANCE,
    LEAST_MOVEMENT,
    MIN_RATIO,
    MOST_STATUES,
    WAYS,
    is_noise,
    unfit,
)
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.tracking import DOUBTED, MAIN, MEASURED_BY, Report, came_closer
from motionkit.training.steps import Kept, Stateful
from motionkit.training.world import OneProcess, World, of_main

PATIENCE = 20
_TOLERANCE = 1e-6
_STILL = 0.3  # share of the jerk before: below it, only jitter is left of the motions
_LOST = {"movement": 0.1, "diversity": 0.25, "speed": 0.25, "path": 0.25}  # largest relative loss without an alarm
_MEANING = {
    "movement": "the motions have become smaller, which a reward may mistake for better",
    "diversity": "the samples of one prompt have become alike",
    "speed": "the motions have become slower, which a reward may mistake for better",
    "path": "the motions cover less ground, which a reward may mistake for better",
}
_logger = logging.getLogger("motionkit.grpo")
MANY_STEPS = 100
"""Sampling steps up to which all of them are measured, and held-out prompts as ``motionkit generate`` samples them."""

_EARLY = 30  # the first point comes after one thirtieth of the run, so that a new user soon sees one
_KINDS = ("reported", "watched", "all_steps", "generate", "switched", "guided")
_KEYS = {"generate": GENERATE, "reported": MAIN, "all_steps": ALL_STEPS}
_MADE = ("generate", "guided")  # measured with the guidance of ``motionkit generate``
_ENOUGH = 0.5  # the guidance of training replaces the one before if it has at least this share of its gain
_PATIENCE = 2  # points in a row with a gap that end a run with stop_on_gap
_LATER = ("all_steps", "generate", "switched", "guided")  # measured at the end if the first policy can be restored
_JERK = "reference_jerk"
_SWITCHED = "before_switched"  # motions of `Measurements.before` at the guidance of training


class RewardAlarms:
    """Watches the reward over `PATIENCE` steps."""

    def __init__(self, bounds: tuple[float, float] | None = None) -> None:
        self._bounds = bounds
        self._recent: deque[tuple[float, float, float]] = deque(maxlen=PATIENCE)
        self._logged: set[str] = set()

    def look(self, metrics: Mapping[str, float]) -> list[str]:
        """Add one step's metrics; return new alarms."""
        self._recent.append((metrics["reward/mean"], metrics["reward/min"], metrics["reward/max"]))
        alarms = []
        if len(self._recent) == PATIENCE:
            lows, highs = [low for _, low, _ in self._recent], [high for _, _, high in self._recent]
            if max(highs) - min(lows) < _TOLERANCE:
                alarms.append(
                    f"the reward has been constant ({lows[-1]:.4g}) for {PATIENCE} steps: nothing can be learnt from it"
                )
            elif self._bounds is not None:
                alarms += self._pinned(self._bounds)
        alarms += [
            f"the reward {name} gave no sample a finite score; it is left out of such steps (metric reward/left_out)"
            for name in _without_score(metrics)
        ]
        if math.isnan(metrics["reward/mean"]) or metrics.get("reward/nan", 0.0) > 0:
            alarms.append("some samples have no finite reward; they are left out of the update")
        fresh = [text for text in alarms if text not in self._logged]
        self._logged.update(fresh)
        return fresh

    def _pinned(self, bounds: tuple[float, float]) -> list[str]:
        ends = ((bounds[0], "lower"), (bounds[1], "upper"))
        return [
            f"the mean reward has been at the {name} end of its range ({end:g}) for {PATIENCE} steps"
            for end, name in ends
            if all(abs(mean - end) < 1e-3 * (bounds[1] - bounds[0]) for mean, _, _ in self._recent)
        ]


def _without_score(metrics: Mapping[str, float]) -> list[str]:
    """Return the names of the rewards whose mean, ``reward/<name>/mean``, is NaN although they apply."""
    parts = [(key.split("/"), value) for key, value in metrics.items()]
    names = [
        path[1] for path, value in parts if len(path) == 3 and path[::2] == ["reward", "mean"] and math.isnan(value)
    ]
    return [name for name in names if metrics.get(f"reward/{name}/applies") != 0.0]


def drift_alarms(
    compared: Mapping[str, Paired],  # by name: ``reward``, ``judge``, ``movement``, ``skate``, ``jerk``, ...
    *,
    most: float = 0.3,  # largest relative rise of jerk or skate without an alarm
    reference_jerk: float | None = None,  # mean jerk of reference clips, in m/s^3, if it is known
) -> list[str]:
    """Return the alarms of a held-out comparison; noise that becomes less is no alarm."""
    texts = []
    jerk = compared.get("jerk")
    was_noise = jerk is not None and is_noise(jerk.before, reference_jerk)
    for name in ("jerk", "skate"):
        paired = compared.get(name)
        if name == "jerk" and paired is not None and came_closer(paired.before, paired.after, reference_jerk):
            continue  # livelier, as the reference clips are
        if paired is not None and paired.n and paired.delta > most * paired.before:
            change = f"{name} rose from {paired.before:.3g} to {paired.after:.3g}"
            texts.append(f"{change}: the reward may be paid for with bad physics")
    for name, most_lost in _LOST.items() if not was_noise else ():
        paired = compared.get(name)
        if paired is not None and paired.n and paired.delta < -most_lost * paired.before:
            texts.append(f"{name} fell from {paired.before:.3g} to {paired.after:.3g}: {_MEANING[name]}")
    if jerk is not None and jerk.n and jerk.after < _STILL * jerk.before and not was_noise:
        change = f"jerk fell from {jerk.before:.3g} to {jerk.after:.3g}"
        texts.append(f"{change}: the motions have all but stopped, the reward may be won by standing still")
    reward, judge = compared.get("reward"), compared.get("judge")
    texts += [
        f"no held-out prompt has a finite {name} both before and after: nothing can be said about it"
        for name, paired in (("reward", reward), ("judge", judge))
        if paired is not None and not paired.n
    ]
    if reward is not None and judge is not None and (ratio := judge_ratio(reward, judge)) is not None:
        if judge.ci95[1] < 0:
            change = f"the reward rose by {reward.delta:.3f} while the judge fell by {-judge.delta:.3f}"
            texts.append(f"{change}: the reward is being gamed")
        elif ratio < MIN_RATIO:
            change = (
                f"the reward gained {reward.delta:+.3f} and the judge {judge.delta:+.3f}, less than {MIN_RATIO} of it"
            )
            texts.append(f"{change}: part of the gain pleases the reward alone")
    return texts


def still_alarms(compared: Mapping[str, Paired], reference_jerk: float | None = None) -> list[str]:
    """Return alarms if the motions after training hardly move, or are noise; those before training do not matter.

    Args:
        compared: By name, before and after.
        reference_jerk: Mean jerk of reference clips, in m/s^3; None if it is not known.
    """
    texts = []
    if "jerk" in compared and is_noise(compared["jerk"].after, reference_jerk):
        jerk = f"{compared['jerk'].after:,.0f} m/s^3, that of reference clips {reference_jerk:,.0f}"
        return [f"jerk is {jerk}: the motions are noise, whatever else is measured of them"]
    movement, statues = compared.get("movement"), compared.get("statues")
    if movement is not None and movement.n and movement.after < LEAST_MOVEMENT:
        texts.append(
            f"movement is {movement.after:.2f} of that of reference clips of the same actions (below {LEAST_MOVEMENT}"
            "): the motions are postures rather than movements"
        )
    if statues is not None and statues.n and statues.after > MOST_STATUES:
        texts.append(
            f"statues are {statues.after:.0%} of the segments (above {MOST_STATUES:.0%}): no joint moves 10 cm where "
            "reference ones do"
        )
    return texts


def judge_ratio(reward: Paired, judge: Paired) -> float | None:
    """Return the judge's gain over the reward's; None unless the reward's interval is above 0."""
    return judge.delta / reward.delta if reward.n and judge.n and reward.ci95[0] > 0 else None


@dataclass
class Measurements:
    """The held-out measurements of one run."""

    policy: DiffusionPolicy
    averaged: Callable[[], AbstractContextManager[None]]  # puts the averaged weights into the policy
    # Restores the policy as it started, if that needs no copy; else None. Most kinds are then measured at the end, both
    # before and after, so that training starts sooner.
    started: Callable[[], AbstractContextManager[None]] | None
    # Any of: ``reported``, the prompts of the table; ``watched``, other prompts, measured at points during the run;
    # ``all_steps``, the reported prompts with every step of the ancestral sampler; ``generate``, the first of them as
    # ``motionkit generate`` samples the finished policy; ``switched``, the same at the guidance of training, if that is
    # another one; ``guided``, the watched prompts like that, for `choose_guidance`.
    heldout: Mapping[str, HeldOut]
    points: int  # points during the run, evenly spaced
    num_steps: int  # updates of the run
    stop_on_gap: bool  # end the run if the judge no longer follows the reward
    motions: int = 4  # prompts whose motions are kept at every point; 0: none
    guidance: float = 2.5  # guidance scale of ``motionkit generate`` for the policy before training
    rows: frozenset[str] = frozenset()  # quantities that the rewards consist of, marked in the table
    trained_on: TrainedOn = field(default_factory=TrainedOn)  # written beside the best policy
    scorers: str = ""  # judge and evaluator in words, for the captions of tables
    missing: str = ""  # which rows the tables lack, and the commands that make them
    # Why the figures of the evaluator say little, by its R@3 of reference clips.
    doubts: Callable[[float | None], list[str]] = lambda _: []
    doubted: Callable[[float | None], str] = lambda _: ""  # why its rows have no verdict, in short; empty if they have
    # The processes that train together. All of them measure, at the same time; the main one's figures decide.
    world: World = field(default_factory=OneProcess)
    _stays: bool = False
    _before: dict[str, Kept] = field(default_factory=lambda: {name: Kept() for name in _KINDS})
    _best: Kept = field(default_factory=lambda: Kept(values={"reward": 0.0, "step": 0, "gaps": 0}))

    def parts(self) -> dict[str, Stateful]:
        """Return the parts of a checkpoint."""
        return {**{f"before_{name}": figures for name, figures in self._before.items()}, "best": self._best}

    def before(self, run: Run) -> None:
        """Measure the policy before training, log it as step 0, and say what is wrong with it or with its reward."""
        for name, heldout in self.heldout.items():
            if name in _LATER and self.started is not None:
                continue
            _logger.info("measuring %s before training", _asked(name, heldout))
            guidance = self.guidance if name in _MADE else None
            measured = heldout.measure(self.policy, first=name == "reported", guidance=guidance)
            self._before[name].tensors = measured.tensors()
            if name in ("reported", "generate", "switched") and measured.shown is not None:
                measured.shown.keep(run, _SWITCHED if name == "switched" else "before")
            if name == "reported":
                self._warn_unfit(measured, heldout)
            if name == self._curve:
                run.log(0, _metrics(compare_measured(measured, measured)))
                if self._steps():
                    self._keep(0, run, measured)

    def _warn_unfit(self, before: Measured, heldout: HeldOut) -> None:
        """Log that the policy makes noise, or that the reward does not prefer reference clips to its motions."""
        real = heldout.measure_real(device=self.policy.normalizer.mean.device)
        if real is None:
            return
        pairs = {
            name: (before.mean(name), real.mean(name))
            for name in ("reward", "jerk")
            if name in before.quantities and name in real.quantities
        }
        if _known(pairs.get("jerk")):
            self._before["reported"].values = {_JERK: pairs["jerk"][1]}
        for text in unfit(*(pairs.get(name) if _known(pairs.get(name)) else None for name in ("reward", "jerk"))):
            _logger.warning("%s", text)

    def at(self, step: int, run: Run) -> dict[str, float]:
        """Measure after update number `step` if it is a point; keep the policy if it is the best so far.

        Returns:
            Metrics of the watched prompts; empty if the step is not a point.
        """
        heldout = self.heldout.get(self._curve)
        if heldout is None or step not in self._steps():
            return {}
        begun = time.monotonic()
        with self.averaged():
            measured = heldout.measure(self.policy)
            result = compare_measured(self._start(self._curve), measured)
            reward = result["reward"]
            ratio = judge_ratio(reward, result["judge"]) if "judge" in result else None
            gap = ratio is not None and ratio < MIN_RATIO
            known = self._before["reported"].values.get(_JERK)
            delta, drift, gap = of_main(
                [reward.delta, bool(drift_alarms(result, reference_jerk=known)), gap], self.world
            )
            # The best policy is never chosen on the prompts that are reported.
            if self._curve == "watched" and not drift and delta > float(self._best.values["reward"]):
                self._note(reward=delta, step=step)
                if self.world.main:
                    self.policy.save(run.artifact("best"))
                    self.trained_on.write(run.artifact("best"))
        self._keep(step, run, measured)
        self._note(gaps=int(self._best.values["gaps"]) + 1 if gap else 0)
        _logger.info("step %d: held-out %s, in %.1f s", step, _summary(result), time.monotonic() - begun)
        return _metrics(result)

    def _keep(self, step: int, run: Run, measured: Measured) -> None:
        """Keep motions of a point to be looked at: they were made for the measurement, and cost no sampling."""
        often = self.points > FEW_POINTS
        if often and step and not is_point(step, -(-self.num_steps // self.points), self.num_steps):
            return
        if self.motions and measured.shown is not None:
            keep_point(run, step, measured.shown, self.motions)

    def _note(self, **values: float) -> None:
        self._best.values = {**self._best.values, **values}

    @property
    def _curve(self) -> str:
        """Kind of the prompts that are measured during the run."""
        return "watched" if "watched" in self.heldout else "reported"

    @property
    def must_stop(self) -> bool:
        """Whether the run ends because the judge no longer follows the reward."""
        return self.stop_on_gap and int(self._best.values["gaps"]) >= _PATIENCE

    def stopped(self) -> str:
        """Return why a run ended early, and which policy it kept."""
        step = int(self._best.values["step"])
        note = f"; best/ holds the policy of step {step}, before the gap" if step else ""
        return f"the judge gained less than {MIN_RATIO} of the reward's gain at {_PATIENCE} points in a row{note}"

    @property
    def guidance_after(self) -> float:
        """Guidance scale of ``motionkit generate`` for the finished policy."""
        return self.guidance if self._stays or "switched" not in self.heldout else self._tuned

    @property
    def _tuned(self) -> float:
        """Guidance scale of training."""
        reported = self.heldout.get("reported")
        return self.guidance if reported is None else reported.guidance

    def choose_guidance(self, run: Run) -> bool:
        """Return whether ``motionkit generate`` samples the finished policy with the guidance it had before training.

        It does if the guidance of training (lower, so smoother) has less than half of its gain in reward, on prompts
        that are not reported: there were too few updates to make up for the lower guidance. Without such prompts
        nothing speaks for another guidance, and that of before stays.
        """
        heldout = self.heldout.get("guided")
        if heldout is None:
            self._stays = True
            if self._tuned != self.guidance:
                _logger.info(
                    "motionkit generate keeps guidance %g, which this policy had before training. It was trained with "
                    "%g. Which of the two is better now was not measured, as that takes held-out prompts beside those "
                    "of the tables, and at most %d sampling steps. Try the other: motionkit generate "
                    "--guidance-scale %g",
                    self.guidance,
                    self._tuned,
                    MANY_STEPS,
                    self._tuned,
                )
            return True
        with self.averaged():
            after = self._measure({"guided": heldout}, "after", heldout.guidance)
            other = heldout.measure(self.policy, guidance=self.guidance)
        if self.started is not None:
            self._before["guided"].tensors = self._at_start(run, {"guided": heldout}, after)["guided"].tensors()
        elif not (self._before["guided"].tensors and self._before["switched"].tensors):
            self._stays = True  # resumed from a version that did not measure it
            return True
        start = self._start("guided")
        tuned, unchanged = (compare_measured(start, result)["reward"] for result in (after["guided"], other))
        (less,) = of_main([unchanged.delta * _ENOUGH - tuned.delta], self.world)
        self._stays = less > 0
        if self._stays:
            _logger.info(
                "motionkit generate keeps guidance %g, which this policy had before training: with it the reward of "
                "other held-out prompts gains %+.3f, with %g, which it was trained with, less than half of that "
                "(%+.3f). More updates make up for it",
                self.guidance,
                unchanged.delta,
                heldout.guidance,
                tuned.delta,
            )
        return self._stays

    def after(self, run: Run) -> dict[str, object]:
        """Measure the finished policy, and return entries of the run's summary."""
        summary: dict[str, object] = {}
        if best := int(self._best.values["step"]):
            summary["best"] = {
                "step": best,
                "policy": str(run.directory / "best"),
                "delta": self._best.values["reward"],
            }
            if best < self.num_steps:
                _logger.info("best/ holds the policy of step %d, the best on the prompts measured during the run", best)
        reported = self.heldout.get("reported")
        if reported is None:
            return summary
        heldouts = {name: self.heldout[name] for name in _KEYS if name in self.heldout}
        with self.averaged():
            measured = self._measure(heldouts, "after", self.guidance_after)
        changes = self.guidance_after != self.guidance
        if self.started is not None:
            later = {name: heldout for name, heldout in heldouts.items() if name != "reported"}
            later = {**({"switched": self.heldout["switched"]} if changes else {}), **later}
            alike = measured | ({"switched": measured["generate"]} if changes else {})
            for name, result in self._at_start(run, later, alike).items():
                self._before[name].tensors = result.tensors()
        if changes:  # before and after are compared at one guidance, also by eye
            _replace_before(run)
        real = reported.measure_real(device=self.policy.normalizer.mean.device)
        shown = measured.get("generate", measured["reported"]).shown
        for name, motions in (("after", shown), ("real", None if real is None else real.shown)):
            if motions is not None:
                motions.keep(run, name)
        starts = {name: self._start("switched" if changes and name == "generate" else name) for name in measured}
        pairs = {name: compare_measured(starts[name], result) for name, result in measured.items()}
        real_r3 = _real(real, "r_precision_3").get("real")
        doubts, doubt = self.doubts(real_r3), self.doubted(real_r3)
        for text in doubts:
            _logger.warning("%s", text)
        self._warn(pairs, _real(real, "jerk").get("real"))
        guidance: dict[str, object] = {"before": self.guidance, "after": self.guidance_after}
        alone = compare_measured(self._start("generate"), self._start("switched")) if changes else {}
        for name, pair in alone.items():
            if name in ("reward", "judge"):
                guidance[name] = pair.document()
        summary[GUIDANCE] = guidance
        tables, compared = [], {}
        for name, paired in pairs.items():
            first_real = None if real is None else real.first(len(heldouts[name].prompts))
            chances = heldouts[name].chances()
            summary[_KEYS[name]] = {
                key: pair.document()
                | _real(first_real, key)
                | ({"trained_on": True} if key in self.rows else {})
                | ({"chance": chances[key]} if key in chances else {})
                for key, pair in paired.items()
            } | _sets(heldouts[name], starts[name], measured[name])
            blocks = cast("dict[str, dict[str, object]]", summary[_KEYS[name]])
            for key in EVALUATOR_ROWS if doubt else ():
                if key in blocks:
                    blocks[key]["doubt"] = doubt
            compared[_KEYS[name]] = heldouts[name].kid_words(measured[name])
            by = ", ".join(filter(None, (self.scorers, compared[_KEYS[name]], doubt and f"{DOUBTED}: {doubt}")))
            title = "; ".join(filter(None, (self._title(name, heldouts[name]), by)))
            tables.append(Report(blocks).table(title))
        notes = [*filter(None, [self.missing]), *doubts]
        summary[MEASURED_BY] = {"said": self.scorers, "compared": compared, "notes": notes}
        return summary | {"table": tables}

    def _measure(self, heldouts: dict[str, HeldOut], when: str, guidance: float) -> dict[str, Measured]:
        """Measure the policy in its current state, every kind in `heldouts`; `guidance` is that of `_MADE`."""
        result: dict[str, Measured] = {}
        for name, heldout in reversed(heldouts.items()):  # all steps first: `generate` may be a part of them
            scale = guidance if name in _MADE else heldout.guidance
            known = self._known(heldouts, name, result, scale) if name in ("generate", "switched") else None
            if known is None:
                _logger.info("measuring %s %s training", _asked(name, heldout), when)
            result[name] = known or heldout.measure(self.policy, guidance=scale)
        return {name: result[name] for name in heldouts}

    def _known(
        self, heldouts: Mapping[str, HeldOut], name: str, done: Mapping[str, Measured], guidance: float
    ) -> Measured | None:
        """Return the measurement of `name` if it is a part of `all_steps`: same guidance, prompts and noise."""
        every, generate = heldouts.get("all_steps"), heldouts[name]
        if every is None or "all_steps" not in done or every.guidance != guidance or generate.steps is not None:
            return None
        return done["all_steps"].first(len(generate.prompts))

    def _warn(self, pairs: Mapping[str, Mapping[str, Paired]], reference_jerk: float | None) -> None:
        """Log the alarms of all tables, at most one for each quantity."""
        warned: set[str] = set()
        for name, compared in pairs.items():
            title = "" if name == "reported" else f" ({WAYS[_KEYS[name]].words})"
            for text in [
                *drift_alarms(compared, reference_jerk=reference_jerk),
                *still_alarms(compared, reference_jerk),
            ]:
                about = text.removeprefix("the ").split()[0]
                if about not in warned:
                    _logger.warning("%s%s", text, title)
                    warned.add(about)

    def _title(self, name: str, heldout: HeldOut) -> str:
        """Return the title of a table."""
        count, steps = len(heldout.prompts), len(self.policy.schedule)
        if name == "reported":
            return f"Held out: {count} prompts x {heldout.samples} samples, same noise before and after"
        if name == "all_steps":
            return f"The same prompts with all {steps} sampling steps, one sample each"
        visited = heldout.steps if isinstance(heldout.steps, Sequence) else ()
        steps_text = f"{len(visited)} of {steps}" if visited else f"all {steps}"
        return (
            f"With the settings of motionkit generate: {count} prompts, {steps_text} steps, guidance "
            f"{self.guidance_after:g} before and after"
        )

    def _at_start(self, run: Run, later: dict[str, HeldOut], after: Mapping[str, Measured]) -> Mapping[str, Measured]:
        """Return the measurements of the policy before training; a run that is made longer has them already."""
        paths = {name: run.artifact("heldout") / f"before_{name}.safetensors" for name in later}
        # Processes that train together measure at the same time, and only one of them has the run folder.
        if self.world.size == 1:
            stored = {name: Measured.kept(paths[name], after[name]) for name in later}
            if all(result is not None for result in stored.values()):
                return {name: result for name, result in stored.items() if result is not None}
        assert self.started is not None
        with self.started():
            before = self._measure(later, "before", self.guidance)  # `switched` at the guidance of training
        if self.world.main:
            for name, result in before.items():
                result.keep(paths[name])
        looked_at = before.get("switched", before.get("generate"))
        if looked_at is not None and looked_at.shown is not None:
            looked_at.shown.keep(run, _SWITCHED if "switched" in before else "before")
        return before

    def _start(self, name: str) -> Measured:
        return Measured.from_tensors(self._before[name].tensors)

    def _steps(self) -> set[int]:
        if not self.points:
            return set()
        even = {round(self.num_steps * point / self.points) for point in range(1, self.points + 1)}
        return even | {self.num_steps // _EARLY} - {0}


def _summary(compared: Mapping[str, Paired]) -> str:
    shown = [(name, compared[name]) for name in ("reward", "judge") if name in compared]
    return ", ".join(f"{name} {paired.after:.3f} ({round(paired.delta, 3) + 0.0:+.3f})" for name, paired in shown)


def _known(pair: tuple[float, float] | None) -> bool:
    return pair is not None and math.isfinite(sum(pair))


def _replace_before(run: Run) -> None:
    """Let the motions of the policy before training be those at the guidance that is taken from now on."""
    folder = run.artifact("heldout")
    with suppress(FileNotFoundError):  # a run that was made longer has replaced them already
        (folder / f"{_SWITCHED}.npz").replace(folder / "before.npz")


def _real(real: Measured | None, name: str) -> dict[str, float]:
    """Return the entry ``real`` of a quantity in the summary."""
    mean = float("nan") if real is None or name not in real.quantities else real.mean(name)
    return {"real": mean} if math.isfinite(mean) else {}


def _sets(heldout: HeldOut, before: Measured, after: Measured) -> dict[str, dict[str, object]]:
    """Return the entries of metrics of whole sets of motions, such as the FID."""
    result = heldout.compare_sets(before, after)
    return {
        name: figure.paired.document() | ({} if figure.real is None else {"real": figure.real})
        for name, figure in result.items()
    }


def _asked(name: str, heldout: HeldOut) -> str:
    words = {
        "watched": "other held-out prompts for the curve",
        "all_steps": "held-out prompts with all sampling steps",
        "generate": "held-out prompts with the settings of motionkit generate",
        "switched": "held-out prompts with those settings and the guidance of training",
        "guided": "other held-out prompts with the settings of motionkit generate",
    }
    phrase = words.get(name, "held-out prompts")
    return f"{len(heldout.prompts)} {phrase}"


def _metrics(compared: Mapping[str, Paired]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for name, paired in compared.items():
        if name in ("reward", "judge"):
            metrics |= {f"heldout/{name}/mean": paired.after, f"heldout/{name}/delta": paired.delta}
        else:
            metrics[f"heldout/physics/{name}" if name in ("skate", "jerk") else f"heldout/{name}"] = paired.after
    return metrics
