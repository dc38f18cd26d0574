"""What text to motion says of results: policies that please the reward alone, hardly move, or make noise.

Reward, judge and evaluator say how well motions do what captions ask for; a gain of one that another contradicts is
said first. Held-out prompts are also measured as ``motionkit generate`` samples them, and with all sampling steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from motionkit.tracking import (
    MAIN,
    NO_CHANGE,
    NOT_MEASURED,
    TOO_FEW,
    Change,
    Findings,
    Remarks,
    Report,
    Way,
)

MIN_RATIO = 0.6
"""If the judge's gain divided by the reward's is below this, a run is said to please the reward alone."""

LEAST_MOVEMENT, MOST_STATUES = 0.6, 0.05
"""Motions hardly move below this share of the movement of reference clips, or above this share of statues."""

NOISE = 5.0
"""A policy whose jerk is over so many times that of reference clips makes noise."""

GENERATE, ALL_STEPS = "heldout_generate", "heldout_all_steps"
"""Keys of a summary with before and after as ``motionkit generate`` samples, and with all sampling steps."""

GUIDANCE = "guidance"
"""Key of a summary with the guidance scale that ``motionkit generate`` takes, before and after the run."""

EVALUATOR_ROWS = ("r_precision_3", "style", "kid")
"""Quantities that an evaluator measures."""

_JUDGES = {"reward": ("reward",), "judge": ("judge",), "evaluator": EVALUATOR_ROWS}
"""Who says how well motions do what captions ask for, and the rows of each."""

_ORDER = (
    "reward", "judge", *EVALUATOR_ROWS, "movement", "statues", "side", "kinetic_fid", "npss", "skate", "jerk", "speed",
    "path", "diversity",
)  # fmt: skip

_SAMPLERS = {"guidance_scale": "guidance", "inference_timesteps": "sampling steps"}
"""Settings of a sampler that held-out values depend on, in words."""

_JUDGE = (
    "The judge measures the same as the reward by another network, which is never trained on. Where the reward rises "
    "and the judge does not follow, the policy pleases the reward without being better."
)


def _mixed(summary: Mapping[str, Any]) -> str:
    """Return why before and after of `GENERATE` do not compare if a run records no guidance."""
    if GUIDANCE in summary:
        return ""
    return (
        "The run is of an older version: before and after may have been sampled with different guidance scales, so "
        "that a change may be that of the guidance alone."
    )


WAYS = {
    GENERATE: Way(
        "with the settings of motionkit generate",
        "of the prompts, with the settings of motionkit generate: before and after with one guidance scale; one sample "
        "each. Reference: clips of the same actions.",
        _mixed,
    ),
    MAIN: Way("with the sampling steps of training"),
    ALL_STEPS: Way(
        "with all sampling steps", "prompts sampled with every step of the ancestral sampler, one sample each."
    ),
}


def is_noise(jerk: float, reference: float | None) -> bool:
    """Return whether motions are noise: a jerk of over `NOISE` times that of reference clips of the same actions."""
    return reference is not None and reference > 0 and jerk > NOISE * reference


def noise_sentence(jerk: float, reference: float, when: str = "") -> str:
    """Return the sentence about a policy whose motions are noise, without its full stop."""
    place = f"{when} " if when else ""
    return (
        f"this policy makes noise: {place}its motions have {jerk / reference:.0f} times the jerk of reference clips "
        f"({jerk:,.0f} against {reference:,.0f} m/s^3)"
    )


def unfit(reward: tuple[float, float | None] | None, jerk: tuple[float, float | None] | None) -> list[str]:
    """Return what is wrong with a policy or a reward before training, a sentence each; empty if nothing is.

    Args:
        reward: Mean of the policy's motions before training, and of reference clips; None if it is not known.
        jerk: The same of jerk, in m/s^3.
    """
    said = []
    if jerk is not None and jerk[1] is not None and is_noise(*jerk):
        said.append(f"{noise_sentence(jerk[0], jerk[1], 'before training')}. Train it longer before it is tuned")
    if reward is not None and reward[1] is not None and round(reward[1], 3) <= round(reward[0], 3):
        said.append(
            f"this reward does not prefer reference motions: they score {reward[1]:.3f}, the policy's own before "
            f"training {reward[0]:.3f}. If it is a model, such as a TMR, train that longer"
        )
    return said


def _noise(rows: Sequence[Change]) -> str:
    if not any(row.name == "jerk" and is_noise(row.after, row.real) for row in rows):
        return ""
    return f"The jerk after training is over {NOISE:g} times that of reference clips: no change is called good."


def _apart(configs: Sequence[Mapping[str, Any]]) -> str:
    """Return the sentence about runs whose held-out motions were sampled differently."""
    samplers = [sampler for config in configs if isinstance(sampler := config.get("sampler"), Mapping)]
    odd = []
    for key, words in _SAMPLERS.items():
        values = dict.fromkeys(str(sampler[key]) for sampler in samplers if key in sampler)
        odd += [f"{words} {' and '.join(values)}"] if len(values) > 1 else []
    return f"Measured with {', '.join(odd)}: compare the changes, not the values." if odd else ""


def _remarks(report: Report) -> Remarks:
    guidance = _guidance(report)
    if not report.changes:
        return Remarks(last=guidance)
    where, lead = report.worst(report.changes[0].name)
    apart = _disagreement(report)
    return Remarks(
        first="".join([apart[0], *(f"{text[:1].upper()}{text[1:]}. " for text in _unfit(report))]),
        clause=_judge_clause(report, where, lead) if lead.name == "reward" else "",
        then=_passed(lead) if lead.name == "reward" else "",
        last=_hardly_moves(report) + guidance,
        short=f", {apart[1].short} worse" if apart[1] is not None and apart[1].name != lead.name else "",
        meanings={"reward and judge": _JUDGE} if any(row.name == "judge" for row in report.changes) else {},
    )


def _guidance(report: Report) -> str:
    """Return the sentence about a change of guidance, measured on the policy before training; empty without one."""
    block = report.summary.get(GUIDANCE)
    before, after = (_scale(block.get(key)) for key in ("before", "after")) if isinstance(block, Mapping) else (0, 0)
    if before == after or not math.isfinite(before + after):
        return ""
    sentence = f" motionkit generate now takes guidance {after:g}, before {before:g}"
    if reward := next((row for row in report.measured(GUIDANCE) if row.name == "reward"), None):
        interval = f", 95 % interval {reward.interval}" if reward.ci95 else ""
        sentence += (
            f"; that alone changes the reward of the policy before training from {reward.text(reward.before)} to "
            f"{reward.text(reward.after)} ({reward.text(reward.delta, sign=True)}{interval})"
        )
    return f"{sentence}."


def _scale(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


@dataclass(frozen=True)
class _Apart:
    """A disagreement of reward, judge and evaluator."""

    rose: Sequence[str]  # those with a row that is better
    who: str  # the one with the row that is worse
    fell: Change  # that row, the worst one


def _disagree(rows: Sequence[Change]) -> _Apart | None:
    """Return whether one of reward, judge and evaluator is better in a table and another worse; None if not."""
    by = {row.name: row for row in rows}
    found = [(who, by[name]) for who, names in _JUDGES.items() for name in names if name in by]
    rose = list(dict.fromkeys(who for who, row in found if row.verdict == "better"))
    fell = [(who, row) for who, row in found if row.verdict == "worse" and any(other != who for other in rose)]
    if not fell:
        return None
    who, worst = max(fell, key=lambda item: abs(item[1].percent or 0.0))
    return _Apart([other for other in rose if other != who], who, worst)


def _disagreement(report: Report) -> tuple[str, Change | None]:
    """Return the sentence about the first table in which reward, judge and evaluator disagree, and what fell there."""
    found = ((where, apart) for where, rows in report.shown.items() if (apart := _disagree(rows)) is not None)
    where, apart = next(found, ("", None))
    if apart is None:
        return "", None
    good = " and ".join(f"the {who}" for who in apart.rose)
    row, place = apart.fell, f" {report.named(where)}" if len(report.shown) > 1 else ""
    name = f"the {apart.who}" if row.name == apart.who else f"the {apart.who}'s {row.short}"
    sentence = (
        f"{good[:1].upper()}{good[1:]} became better and {name} worse{place} ({row.text(row.before)} to "
        f"{row.text(row.after)}, {row.changed}): they disagree, so look at the motions before you believe a gain. "
    )
    return sentence, row


def _unfit(report: Report) -> list[str]:
    """Return what was wrong before training, by the main table, else by the first that shows it."""
    said: dict[str, str] = {}
    for rows in [report.changes, *report.shown.values()]:
        pairs = {row.name: (row.before, row.real) for row in rows if row.n}
        for text in unfit(pairs.get("reward"), pairs.get("jerk")):
            said.setdefault(text.partition(":")[0], text)
    return list(said.values())


def _judge_clause(report: Report, where: str, lead: Change) -> str:
    """Return what the judge says of the reward, from the table where it says the worst; empty without a judge."""
    pairs = []
    for words, rows in report.shown.items():
        reward = next((row for row in rows if row.name == "reward"), lead)
        pairs += [(words, row, reward) for row in rows if row.name == "judge"]
    if not pairs:
        return ""
    rank = {"bad": 0, "": 1, "good": 2}
    words, judge, reward = min(pairs, key=lambda item: (rank[item[1].tone], not _lags(*item[1:])))
    said = _judged(judge, reward)
    return f"; {said}{report.place(words, where)}" if said else ""


def _lags(judge: Change, reward: Change) -> bool:
    """Whether both are better, and the judge by less than `MIN_RATIO` of the reward's gain."""
    return judge.verdict == reward.verdict == "better" and judge.delta < MIN_RATIO * reward.delta


def _judged(judge: Change, reward: Change) -> str:
    if reward.verdict in (TOO_FEW, NOT_MEASURED):
        return ""
    delta = judge.text(judge.delta, sign=True)
    if _lags(judge, reward):
        return f"the judge, which is never trained on, gained less than {MIN_RATIO} of that ({delta})"
    if judge.verdict == reward.verdict and judge.tone:
        return f"the judge, which is never trained on, agrees ({delta})"
    words = {"better": "rose", "worse": "fell", NO_CHANGE: "shows no clear change"}.get(judge.verdict)
    return f"the judge, which is never trained on, {words} ({delta})" if words else ""


def _passed(reward: Change) -> str:
    """Return the sentence about a reward that is now above that of reference clips; empty if it is not."""
    if reward.real is None or not reward.before < reward.real <= reward.after:
        return ""
    return f" It is now above that of reference clips ({reward.text(reward.real)})."


def _hardly_moves(report: Report) -> str:
    """Return the sentence about motions that are noise, or the table whose motions move least; empty without any."""
    tables = {report.named(where): rows for where, rows in report.shown.items()}
    if noisy := next((where for where, rows in tables.items() if any(row.noise for row in rows)), ""):
        return f" After training the motions are noise {noisy}: compare their jerk with that of reference clips."
    shares = [
        (row.after, row.text(row.after), where)
        for where, rows in tables.items()
        for row in rows
        if row.name == "movement" and row.n and row.after < LEAST_MOVEMENT
    ]
    if not shares:
        return ""
    _, shown, where = min(shares)
    return f" The motions hardly move: {shown} of reference ones {where}."


FINDINGS = Findings(WAYS, order=_ORDER, told=("judge",), remarks=_remarks, noise=_noise, apart=_apart)
