"""What a run measured before and after, in words and tables: unit, direction and a verdict for each quantity.

`results` reads the ``heldout`` of a run's summary into rows; `result_table`, `compared_rows`, `short_result` and
`headline` show these. `retrieval_table` shows the retrieval figures of a model that scores texts and motions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from motionkit.plugins import Direction, Metric, declared
from motionkit.tracking._metrics import row_definition
from motionkit.tracking._verdict import (
    CLOSER,
    DOUBTED,
    FURTHER,
    NO_CHANGE,
    NOT_MEASURED,
    TOO_FEW,
    came_closer,
    decimals,
    ends_of,
    is_noise,
    moved,
    unfit,
    word_of,
)

MIN_RATIO = 0.6
"""If the judge's gain divided by the reward's is below this, a run is said to please the reward alone."""

LEAST_MOVEMENT, MOST_STATUES = 0.6, 0.05
"""Motions hardly move below this share of the movement of reference clips, or above this share of statues."""

GENERATE = "heldout_generate"

HELDOUT_TABLES = {
    GENERATE: "with the settings of motionkit generate",
    "heldout": "with the sampling steps of training",
    "heldout_all_steps": "with all sampling steps",
}
"""Keys of a summary that hold before and after, in the order of tables, and how the prompts are sampled there."""

GUIDANCE = "guidance"
"""Key of a summary with the guidance scale that ``motionkit generate`` takes, before and after the run."""

MEASURED_BY = "measured_by"
"""Key of a summary with what is said of judge and evaluator, and notes on rows that are missing or say little."""

Tone = Literal["good", "bad", ""]
"""Whether a result is good or bad news; empty for neither."""

_TONES: dict[str, Tone] = {"better": "good", CLOSER: "good", "worse": "bad", FURTHER: "bad"}
_RANK: dict[Tone, int] = {"bad": 0, "": 1, "good": 2}

_ORDER = (
    "reward", "judge", "r_precision_3", "style", "kid", "movement", "statues", "side", "kinetic_fid", "npss", "skate",
    "jerk", "speed", "path", "diversity",
)  # fmt: skip
"""Order of the rows of a table; other quantities come after these."""

_MATCHED = ("jerk",)
"""Quantities of which neither a high nor a low value is good: the ratio to that of reference motions counts."""

EVALUATOR_ROWS = ("r_precision_3", "style", "kid")
"""Quantities that an evaluator measures."""

_JUDGES = {"reward": ("reward",), "judge": ("judge",), "evaluator": EVALUATOR_ROWS}
"""Who says how well motions do what captions ask for, and the rows of each."""

_OFFSET = ("reward", "judge", "skill")
"""Quantities whose 0 is not none of them, so that a share of the value before says nothing; a plugin's may be, too."""

_CHANGES = 3
"""Decimals of a change, even if tables of values have fewer."""

_WORDS = {
    "jerk": ("smoother", "rougher"), "speed": ("slower", "faster"), "path": ("shorter", "longer"),
    "words_greedy": ("shorter", "longer"), "words": ("shorter", "longer"),
}  # fmt: skip
"""Verdicts of quantities without a better direction, after a fall and after a rise; of jerk without a reference."""

_SETS = {
    "": "all clips",
    "_same": "all, the same caption is a hit",
    "_32": "32 at a time",
    "_32_short": "32, short crops",
}
"""Sets among which retrieval ranks, by the ending of the metric."""

_SAMPLERS = {"guidance_scale": "guidance", "inference_timesteps": "sampling steps"}
"""Settings of a sampler that held-out values depend on, in words."""

_WAYS = {"t2m": "text to motion", "m2t": "motion to text"}
_RANKS = {"r1": "R@1", "r2": "R@2", "r3": "R@3", "r10": "R@10", "medr": "median rank"}


@dataclass(frozen=True)
class HeldoutResult:
    """One quantity before and after training, on the same held-out prompts."""

    name: str  # Its name in the summary's ``heldout``, such as ``reward``
    metric: Metric  # Its definition
    before: float  # Mean before
    after: float  # Mean after
    delta: float  # Mean change
    ci95: tuple[float, float] | None  # 95 % interval of the change; None if none was measured
    n: int  # Independent items: prompts, takes, regions, episodes
    # Mean over reference motions of the same actions, or over the captions of the data; None if it is not known.
    real: float | None = None
    trained_on: bool = False  # Whether a reward of the run is made of it, so that the run was trained to improve it
    chance: float | None = None  # What guessing reaches; None if it is not known
    noise: bool = False  # Whether the motions after training are noise: then nothing about them is good news
    doubt: str = ""  # Why the model that measured it says little about these data; empty if nothing is known against it

    @property
    def unit(self) -> str:
        """Its unit as people write it; empty for a pure number."""
        return self.metric.shown_unit

    @property
    def label(self) -> str:
        """Its name for people, with its unit."""
        named = f"{self._named} ({self.unit})" if self.unit else self._named
        named += "" if self.chance is None else f", chance {self.chance:.2f}"
        return f"{named}, trained on" if self.trained_on else named

    @property
    def _named(self) -> str:
        return self.metric.title(self.name) if self.metric.label else self.name

    @property
    def direction(self) -> Direction:
        """Which way is better; for a value that is best at 1, the way towards 1."""
        return towards(self.metric, self.before, self.after)

    @property
    def percent(self) -> float | None:
        """Change in percent of the value before; None if that is zero."""
        return 100 * self.delta / abs(self.before) if self.before else None

    @property
    def _sign(self) -> int | None:
        """1 if it rose, -1 if it fell, 0 if neither is certain; None if too little was measured."""
        share = self.name not in _OFFSET and declared(self.name) is None
        return moved(self.delta, self.ci95, self.n, digits=self._places, whole=self.before if share else None)

    @property
    def verdict(self) -> str:
        """``better``, ``worse``, ``no change``, ``too few``, ``not measured``, or how it moved if nothing is better.

        Jerk is best where reference motions have it: ``closer to reference``, ``further from reference``. Of motions
        that are noise no change is called good: it is ``noise``. What is in doubt has the verdict ``n/a``.
        """
        sign = self._sign
        if self.doubt and self.n:
            return DOUBTED
        if sign and (closer := self._closer) is not None:
            return FURTHER if not closer else "noise" if self.noise else CLOSER
        word = word_of(sign, self.direction, n=self.n, words=_WORDS.get(self.name, ("lower", "higher")))
        return "noise" if self.noise and sign and word != "worse" else word

    @property
    def tone(self) -> Tone:
        """Whether the verdict is good or bad news.

        Of jerk that is not known without that of reference motions.
        """
        return _TONES.get(self.verdict, "")

    @property
    def _closer(self) -> bool | None:
        return came_closer(self.before, self.after, self.real) if self.name in _MATCHED else None

    @property
    def _places(self) -> int:
        """Decimals that are shown."""
        digits = decimals(self.before, self.after, *([self.real] if self.real is not None else ()))
        return digits if self.metric.digits is None else min(digits, max(self.metric.digits, _CHANGES))

    def text(self, value: float, *, sign: bool = False) -> str:
        """Return a value with the digits of this row, so that its columns align."""
        digits = self._places
        # Adding zero turns a rounded -0.0 into 0.0.
        return f"{round(value, digits) + 0.0:{'+' if sign else ''}.{digits}f}" if math.isfinite(value) else "-"

    @property
    def interval(self) -> str:
        """The interval as text; empty without one."""
        return " to ".join(self.text(end, sign=True) for end in self.ci95) if self.ci95 else ""


def label_of(name: str) -> str:
    """Return the name of a quantity for people, without its unit."""
    metric = _metric(name)
    return metric.title(name) if metric.label else name


def towards(metric: Metric, before: float, after: float) -> Direction:
    """Return which way is better between two values; for a metric that is best at 1, the way towards 1.

    Example:
        >>> movement = row_definition("movement")
        >>> towards(movement, 0.4, 0.6), towards(movement, 0.9, 1.4)
        ('up', 'down')
    """
    if metric.better != "one":
        return metric.better
    # The higher value is nearer to 1 if the middle of both is below 1.
    return "up" if before + after < 2 else "down"


def results(heldout: object) -> list[HeldoutResult]:
    """Read the ``heldout`` of a summary document; what cannot be read is left out.

    Args:
        heldout: Quantities by name, each with ``before``, ``after``, ``delta``, ``n`` and perhaps ``ci95``.

    Example:
        >>> block = {"before": 0.68, "after": 0.83, "delta": 0.15, "ci95": [0.13, 0.17], "n": 64}
        >>> [(row.label, row.text(row.delta, sign=True), row.verdict) for row in results({"reward": block})]
        [('reward', '+0.150', 'better')]
    """
    if not isinstance(heldout, Mapping):
        return []
    rows = [row for name, block in heldout.items() if (row := _read(str(name), block)) is not None]
    if any(row.name == "jerk" and is_noise(row.after, row.real) for row in rows):
        rows = [replace(row, noise=True) for row in rows]
    places = {name: place for place, name in enumerate(_ORDER)}
    return sorted(rows, key=lambda row: places.get(row.name, len(places)))


def result_table(measured: Sequence[HeldoutResult], title: str = "") -> dict[str, Any]:
    """Return results as a trainer's ``table``: title, columns, rows, and which columns are numbers.

    Columns that no row has a value of are left out: that of the reference, and that of intervals.
    """
    columns: dict[str, list[str]] = {
        "": [row.label for row in measured],
        "before": [row.text(row.before) for row in measured],
        "after": [row.text(row.after) for row in measured],
    }
    if any(row.real is not None for row in measured):
        columns["reference"] = ["-" if row.real is None else row.text(row.real) for row in measured]
    columns["change"] = [row.text(row.delta, sign=True) for row in measured]
    if any(row.ci95 for row in measured):
        columns["95 % interval"] = [row.interval for row in measured]
    columns["verdict"] = [row.verdict for row in measured]
    rows = list(zip(*columns.values(), strict=True))
    return {"title": title, "columns": list(columns), "rows": rows, "numbers": list(range(1, len(columns) - 1))}


def compared_rows(runs: Sequence[Sequence[HeldoutResult]]) -> list[tuple[str, ...]]:
    """Return a row per quantity with a cell per run: its value after training, its change, the verdict.

    Args:
        runs: The results of each run; one without a quantity has a dash there.
    """
    tables = [{row.name: row for row in rows} for rows in runs]
    labels = {row.name: row.label for rows in runs for row in rows}
    return [
        (
            label,
            *(
                f"{row.text(row.after)} ({row.text(row.delta, sign=True)}, {row.verdict})" if row else "-"
                for row in (rows.get(name) for rows in tables)
            ),
        )
        for name, label in labels.items()
    ]


def measured_apart(configs: Sequence[Mapping[str, Any]]) -> str:
    """Return the sentence about runs whose held-out motions were sampled differently; empty if all are alike.

    Args:
        configs: The settings of the runs; those without a sampler are left out.
    """
    samplers = [config.get("sampler") for config in configs]
    odd = []
    for key, words in _SAMPLERS.items():
        values = dict.fromkeys(
            str(sampler[key]) for sampler in samplers if isinstance(sampler, Mapping) and key in sampler
        )
        odd += [f"{words} {' and '.join(values)}"] if len(values) > 1 else []
    return f"Measured with {', '.join(odd)}: compare the changes, not the values." if odd else ""


def short_result(measured: Sequence[HeldoutResult], others: Mapping[str, Sequence[HeldoutResult]] | None = None) -> str:
    """Return the first result for a listing, from the table where it is worst, such as ``reward +0.152 better``.

    Args:
        measured: The main table.
        others: The other tables; see `headline`.
    """
    if not measured:
        return ""
    tables = _shown(measured, others)
    _, row = _worst(measured[0].name, tables)
    fell = next((found.fell for rows in tables.values() if (found := _disagree(rows)) is not None), None)
    apart = f", {_short(fell)} worse" if fell is not None and fell.name != row.name else ""
    return " ".join((row._named, row.text(row.delta, sign=True), row.verdict)) + apart


def other_results(summary: Mapping[str, Any]) -> dict[str, list[HeldoutResult]]:
    """Return the results of a summary other than ``heldout``, by how they were sampled; see `HELDOUT_TABLES`.

    That of `GENERATE` is left out if the run does not record the guidance (`GUIDANCE`): such a run is of an older
    version, which sampled the policies before and after with guidance scales of their own.
    """
    keys = [key for key in HELDOUT_TABLES if key != "heldout" and (key != GENERATE or GUIDANCE in summary)]
    tables = {HELDOUT_TABLES[key]: results(summary.get(key)) for key in keys}
    return {words: rows for words, rows in tables.items() if rows}


def result_sentence(summary: Mapping[str, Any]) -> str:
    """Return the result of a run in a few sentences: `headline`, and what a change of guidance alone does."""
    return " ".join(
        filter(None, (headline(results(summary.get("heldout")), other_results(summary)), _guidance(summary)))
    )


def _guidance(summary: Mapping[str, Any]) -> str:
    """Return the sentence about a change of guidance, measured on the policy before training; empty without one."""
    block = summary.get(GUIDANCE)
    before, after = (_number(block.get(key)) for key in ("before", "after")) if isinstance(block, Mapping) else (0, 0)
    if not isinstance(block, Mapping) or before == after or not math.isfinite(before + after):
        return ""
    sentence = f"motionkit generate now takes guidance {after:g}, before {before:g}"
    if reward := next((row for row in results(block) if row.name == "reward"), None):
        interval = f", 95 % interval {reward.interval}" if reward.ci95 else ""
        sentence += (
            f"; that alone changes the reward of the policy before training from {reward.text(reward.before)} to "
            f"{reward.text(reward.after)} ({reward.text(reward.delta, sign=True)}{interval})"
        )
    return f"{sentence}."


def headline(measured: Sequence[HeldoutResult], others: Mapping[str, Sequence[HeldoutResult]] | None = None) -> str:
    """Return the result of a run in a sentence or two; empty if nothing was measured.

    If a quantity is in several tables, the sentence has the one with the worst verdict; among equal verdicts, the one
    that became worse most, else that of the table that is shown first. A judge that gains less than `MIN_RATIO` of the
    reward's gain is worse than one that gains more. Movement below `LEAST_MOVEMENT` of reference clips is mentioned
    even if it rose. What was wrong before training comes first: a policy that makes noise, or a reward that does not
    prefer reference motions. Before that it says if reward, judge and evaluator disagree: one is better, another worse.
    Rows that are worse come last, the worst first.

    Args:
        measured: The main table, of ``heldout``.
        others: The other tables, by how they were sampled, such as `other_results` returns.

    Example:
        >>> block = {"before": 0.68, "after": 0.83, "delta": 0.15, "ci95": [0.13, 0.17], "n": 64}
        >>> headline(results({"reward": block}))
        'The reward rose from 0.680 to 0.830 (+0.150, 95 % interval +0.130 to +0.170).'
        >>> worse = block | {"after": 0.6, "delta": -0.08, "ci95": [-0.1, -0.06]}
        >>> headline(results({"reward": block}), {"with all sampling steps": results({"reward": worse})})
        'The reward fell from 0.680 to 0.600 (-0.080, 95 % interval -0.100 to -0.060) with all sampling steps.'
    """
    if not measured:
        return ""
    tables = _shown(measured, others)
    name = "reward" if any(row.name == "reward" for row in measured) else measured[0].name
    where, first = _worst(name, tables)
    sentence = f"{_moved(first)}{where}"
    names = list(dict.fromkeys(row.name for rows in tables.values() for row in rows if row.name != name))
    if name == "reward" and "judge" in names:
        place, judge, reward = _worst_judge(tables, first)
        sentence += f"; {words}{_place(place, where)}" if (words := _judged(judge, reward)) else ""
    worst = [_worst(other, tables) for other in names if other != "judge"]
    bad: dict[str, list[str]] = {}
    for place, row in sorted(worst, key=lambda item: -abs(item[1].percent or 0.0)):
        if row.tone == "bad":
            bad.setdefault(_place(place, where), []).append(f"{_short(row)} {_changed(row)}")
    named = "; ".join(f"{', '.join(rows)}{place}" for place, rows in bad.items())
    first_words = "".join(f"{text[:1].upper()}{text[1:]}. " for text in _unfit(tables))
    passed = name == "reward" and first.real is not None and first.before < first.real <= first.after
    above = f" It is now above that of reference clips ({first.text(first.real or 0.0)})." if passed else ""
    apart = _disagreement(tables)
    return f"{apart}{first_words}{sentence}.{above}{f' Worse: {named}.' if named else ''}{_hardly_moves(tables)}"


@dataclass(frozen=True)
class _Apart:
    """A disagreement of reward, judge and evaluator."""

    rose: Sequence[str]  # those with a row that is better
    who: str  # the one with the row that is worse
    fell: HeldoutResult  # that row, the worst one


def _disagree(rows: Sequence[HeldoutResult]) -> _Apart | None:
    """Return whether one of reward, judge and evaluator is better in a table and another worse; None if not."""
    by = {row.name: row for row in rows}
    verdicts = {who: [by[name] for name in names if name in by] for who, names in _JUDGES.items()}
    rose = [who for who, found in verdicts.items() if any(row.verdict == "better" for row in found)]
    fell = [
        (who, row)
        for who, found in verdicts.items()
        for row in found
        if row.verdict == "worse" and any(other != who for other in rose)
    ]
    if not fell:
        return None
    who, worst = max(fell, key=lambda item: abs(item[1].percent or 0.0))
    return _Apart([other for other in rose if other != who], who, worst)


def _disagreement(tables: Mapping[str, Sequence[HeldoutResult]]) -> str:
    """Return the sentence about the first table in which reward, judge and evaluator disagree; empty if none does."""
    found = next(((where, apart) for where, rows in tables.items() if (apart := _disagree(rows)) is not None), None)
    if found is None:
        return ""
    where, apart = found
    good = " and ".join(f"the {who}" for who in apart.rose)
    row, place = apart.fell, f" {where or HELDOUT_TABLES['heldout']}" if len(tables) > 1 else ""
    name = f"the {apart.who}" if row.name == apart.who else f"the {apart.who}'s {_short(row)}"
    return (
        f"{good[:1].upper()}{good[1:]} became better and {name} worse{place} ({row.text(row.before)} to "
        f"{row.text(row.after)}, {_changed(row)}): they disagree, so look at the motions before you believe a gain. "
    )


def _unfit(tables: Mapping[str, Sequence[HeldoutResult]]) -> list[str]:
    """Return what was wrong before training, by the main table, else by the first that shows it."""
    said: dict[str, str] = {}
    for rows in [tables[""], *tables.values()]:
        pairs = {row.name: (row.before, row.real) for row in rows if row.n}
        for text in unfit(pairs.get("reward"), pairs.get("jerk")):
            said.setdefault(text.partition(":")[0], text)
    return list(said.values())


def _hardly_moves(tables: Mapping[str, Sequence[HeldoutResult]]) -> str:
    """Return the sentence about motions that are noise, or the table whose motions move least; empty without any."""
    noisy = [(where or HELDOUT_TABLES["heldout"]) for where, rows in tables.items() if any(row.noise for row in rows)]
    shares = [
        (row.after, row.text(row.after), where or HELDOUT_TABLES["heldout"])
        for where, rows in tables.items()
        for row in rows
        if row.name == "movement" and row.n and row.after < LEAST_MOVEMENT and not row.noise  # noise shakes in place
    ]
    if noisy:
        return f" After training the motions are noise {noisy[0]}: compare their jerk with that of reference clips."
    if not shares:
        return ""
    _, shown, where = min(shares)
    return f" The motions hardly move: {shown} of reference ones {where}."


def _place(table: str, first: str) -> str:
    """Return the words for a table; empty if it is the one that the sentence begins with."""
    return "" if table == first else table or f" {HELDOUT_TABLES['heldout']}"


def _shown(
    measured: Sequence[HeldoutResult], others: Mapping[str, Sequence[HeldoutResult]] | None
) -> dict[str, Sequence[HeldoutResult]]:
    """Return all tables in the order they are shown in; the main one has no name."""
    named, first = {"": measured, **(others or {})}, HELDOUT_TABLES[GENERATE]
    return {name: named[name] for name in dict.fromkeys([*([first] if first in named else ()), *named])}


def _worst(name: str, tables: Mapping[str, Sequence[HeldoutResult]]) -> tuple[str, HeldoutResult]:
    """Return the row of a quantity with the worst verdict, after the words for its table.

    Of several that are bad news it is the one that changed most, else the first.
    """
    candidates = [
        (f" {where}" if where else "", row) for where, rows in tables.items() for row in rows if row.name == name
    ]
    return min(
        candidates, key=lambda pair: (_RANK[pair[1].tone], -abs(pair[1].percent or 0.0) * (pair[1].tone == "bad"))
    )


def _worst_judge(
    tables: Mapping[str, Sequence[HeldoutResult]], first: HeldoutResult
) -> tuple[str, HeldoutResult, HeldoutResult]:
    """Return the judge's row as `_worst` does, with the reward's of the same table, else `first`."""
    candidates = []
    for where, rows in tables.items():
        reward = next((row for row in rows if row.name == "reward"), first)
        candidates += [(f" {where}" if where else "", row, reward) for row in rows if row.name == "judge"]
    return min(candidates, key=lambda item: (_RANK[item[1].tone], not _lags(*item[1:])))


def _lags(judge: HeldoutResult, reward: HeldoutResult) -> bool:
    """Whether both are better, and the judge by less than `MIN_RATIO` of the reward's gain."""
    return judge.verdict == reward.verdict == "better" and judge.delta < MIN_RATIO * reward.delta


def _moved(row: HeldoutResult) -> str:
    name = row._named if row._named[:1].isupper() else f"The {row._named}"
    unit = f" {row.unit}" if row.unit else ""
    span = f"from {row.text(row.before)} to {row.text(row.after)}{unit}"
    interval = f", 95 % interval {row.interval}" if row.ci95 else ""
    if row.verdict == NO_CHANGE:
        return f"{name} shows no clear change: {span} ({row.text(row.delta, sign=True)}{interval})"
    if row.verdict == NOT_MEASURED:
        return f"{name} was not measured"
    if row.verdict == TOO_FEW:
        return (
            f"{name} went {span} ({row.text(row.delta, sign=True)}{interval}), on {row.n} held out: too few to say "
            f"whether it changed"
        )
    how = "rose" if row.delta > 0 else "fell"
    return f"{name} {how} {span} ({row.text(row.delta, sign=True)}{interval})"


def _judged(judge: HeldoutResult, reward: HeldoutResult) -> str:
    if reward.verdict in (TOO_FEW, NOT_MEASURED):
        return ""
    delta = judge.text(judge.delta, sign=True)
    if _lags(judge, reward):
        return f"the judge, which is never trained on, gained less than {MIN_RATIO} of that ({delta})"
    if judge.verdict == reward.verdict and judge.tone:
        return f"the judge, which is never trained on, agrees ({delta})"
    words = {"better": "rose", "worse": "fell", NO_CHANGE: "shows no clear change"}.get(judge.verdict)
    return f"the judge, which is never trained on, {words} ({delta})" if words else ""


def _short(row: HeldoutResult) -> str:
    """Return a name for a list: the part before the comma, without what it is a share of."""
    return row._named.partition(",")[0]


def _changed(row: HeldoutResult) -> str:
    share = None if row.name in _OFFSET else row.percent
    return f"{share:+.0f} %" if share is not None else row.text(row.delta, sign=True)


def _read(name: str, block: object) -> HeldoutResult | None:
    if not isinstance(block, Mapping):
        return None
    before, after, delta = (_number(block.get(key)) for key in ("before", "after", "delta"))
    n = block.get("n")
    count = n if isinstance(n, int) and n >= 0 else 0
    interval = ends_of(block.get("ci95"), count)
    if not all(map(math.isfinite, (before, after, delta))):
        interval, count = None, 0
    real = _number(block.get("data" if "data" in block else "real"))
    known, trained = real if math.isfinite(real) else None, block.get("trained_on") is True
    chance = _number(block.get("chance"))
    odds = chance if math.isfinite(chance) else None
    doubt = block.get("doubt")
    return HeldoutResult(
        name, _metric(name), before, after, delta, interval, count, known, trained, odds,
        doubt=doubt if isinstance(doubt, str) else "",
    )  # fmt: skip


def _metric(name: str) -> Metric:
    return row_definition(name) or Metric(name, "1", "none", f"{name}.")


def _number(value: object) -> float:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if good else math.nan  # type: ignore[arg-type]


def retrieval_table(metrics: Mapping[str, Any], title: str = "") -> dict[str, Any] | None:
    """Return ``retrieval/...`` metrics as a trainer's ``table``; None if there are none.

    Example:
        >>> table = retrieval_table({"retrieval/t2m/r1_32": 25.0, "retrieval/t2m/medr_32": 3.0}, "held out")
        >>> table["rows"]
        [('text to motion, 32 at a time', '25.0', '', '', '', '3.0')]
    """
    rows = []
    for way, direction in _WAYS.items():
        for tag, among in _SETS.items():
            values = [metrics.get(f"retrieval/{way}/{rank}{tag}") for rank in _RANKS]
            if any(value is not None for value in values):
                rows.append((f"{direction}, {among}", *("" if v is None else f"{float(v):.1f}" for v in values)))
    if not rows:
        return None
    for tag, among in _SETS.items():
        chance = [metrics.get(f"retrieval/t2m/{rank}{tag}_chance") for rank in _RANKS]
        if any(value is not None for value in chance):
            rows.append((f"chance, {among}", *("" if v is None else f"{float(v):.1f}" for v in chance)))
    return {"title": title, "columns": ["", *_RANKS.values()], "rows": rows, "numbers": [1, 2, 3, 4, 5]}
