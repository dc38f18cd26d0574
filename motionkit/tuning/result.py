"""The result of a search: its document, its files, and a one-sentence verdict.

`StudyResult` holds them. `study_page` is its page, and `write_config` merges its settings into the user's file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from motionkit.contracts.search import Range
from motionkit.page.charts import bars
from motionkit.page.curves import Curve, curves, hover_script, parallel
from motionkit.page.html import details, figure, grid, note, result_page, table, tiles
from motionkit.page.wording import count
from motionkit.runs import write_bytes_atomic
from motionkit.tuning.base import Base, flat, with_values
from motionkit.tuning.plan import BEST_JSON, BEST_TOML, HISTORY, Plan
from motionkit.tuning.storage import make_pruner, make_sampler, open_study
from motionkit.tuning.work import best_trial, counted
from motionkit.version import __version__

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_SHOWN = 300
"""Most trials in the table of the page, and lines in its chart; the best ones if there are more."""


@dataclass(frozen=True)
class Spread:
    """Values of the same settings with several seeds."""

    values: Mapping[int, float]  # By seed; failed ones are left out

    @property
    def mean(self) -> float:
        """Their mean."""
        return mean(self.values.values())

    def document(self) -> dict[str, Any]:
        """Return them as JSON."""
        values = list(self.values.values())
        return {"seeds": list(self.values), "values": values, "mean": self.mean, "range": [min(values), max(values)]}


@dataclass(frozen=True)
class StudyResult:
    """The result of a search."""

    plan: Plan  # The search
    base: Base  # Trainer and settings
    trials: list[FrozenTrial]  # All trials of the storage
    repeated: Mapping[str, Mapping[int, float | None]]  # Values with other seeds, of ``base`` and ``best``, by seed
    folder: Path  # The study folder

    @cached_property
    def best(self) -> FrozenTrial:
        """The trial with the best value."""
        best = best_trial(open_study(self.plan, self.folder), self.plan)
        assert best is not None
        return best

    @property
    def baseline(self) -> float | None:
        """The value of trial 0, the base."""
        return next(
            (trial.value for trial in self.trials if trial.params == self.plan.first and trial.value is not None), None
        )

    def spread(self, who: str) -> Spread | None:
        """Return the values of ``best`` or ``base`` with other seeds; the same for both if the base is the best."""
        if who == "best" and self.best.params == self.plan.first:
            who = "base"
        values = {seed: value for seed, value in self.repeated.get(who, {}).items() if value is not None}
        return Spread(values) if values else None

    @cached_property
    def outcome(self) -> str:
        """``better``, ``no difference``, ``worse``, ``base`` (nothing beat it) or ``untested``."""
        if self.best.params == self.plan.first:
            return "base"
        best, base = self.spread("best"), self.spread("base")
        if best is None or base is None:
            return "untested"
        if not self.plan.better(best.mean, base.mean):
            return "worse"
        ends = (min, max) if self.plan.direction == "maximize" else (max, min)
        apart = self.plan.better(ends[0](best.values.values()), ends[1](base.values.values()))
        return "better" if apart else "no difference"

    @property
    def worth_it(self) -> bool:
        """Whether the best settings should replace the base's."""
        return self.outcome in ("better", "no difference", "untested")

    @property
    def verdict(self) -> str:
        """The outcome in one sentence."""
        name = self.plan.value
        if self.outcome == "base":
            return f"Nothing beat the base settings: {name} {self.best.value:.4f}."
        best, base = self.spread("best"), self.spread("base")
        if best is None or base is None:
            start = "" if self.baseline is None else f", the base {self.baseline:.4f}"
            return f"The best trial reached {name} {self.best.value:.4f}{start}; one seed, so part of that is luck."
        comparison = f"{name} {_ranged(best)} against the base's {_ranged(base)} on {len(best.values)} further seeds"
        return {
            "better": f"The best settings beat the base beyond the spread of seeds: {comparison}.",
            "no difference": (
                f"The best settings are ahead on average, but not beyond the spread of seeds: {comparison}."
            ),
            "worse": f"The best trial was luck: {comparison}. Keep the base.",
        }[self.outcome]

    @cached_property
    def importances(self) -> dict[str, float]:
        """Importance of each setting by PED-ANOVA; empty with too few trials."""
        done = [trial for trial in self.trials if trial.state.name == "COMPLETE"]
        if len(done) < 4 or len(self.plan.space) < 2:
            return {}
        import optuna

        study = open_study(self.plan, self.folder)
        study.sampler, study.pruner = make_sampler(self.plan, 0), make_pruner(self.plan, 0)
        try:
            importances = optuna.importance.get_param_importances(study, normalize=True)
        except (RuntimeError, ValueError, ZeroDivisionError):  # all values are equal
            return {}
        return {key: float(value) for key, value in importances.items()}

    @property
    def changes(self) -> list[tuple[str, Any, Any]]:
        """Key, the base's value and the best value of each setting that differs."""
        first = self.plan.first
        return [(key, first[key], value) for key, value in self.best.params.items() if value != first[key]]

    def rows(self) -> list[dict[str, Any]]:
        """Return all trials as JSON."""
        return [
            {
                "number": trial.number,
                "state": state_of(trial),
                "value": trial.value if trial.state.name == "COMPLETE" else None,
                "params": trial.params,
                "seconds": None if trial.duration is None else round(trial.duration.total_seconds(), 3),
                "watched": {str(step): value for step, value in trial.intermediate_values.items()},
                **({"reason": trial.user_attrs["reason"]} if "reason" in trial.user_attrs else {}),
            }
            for trial in self.trials
        ]

    def document(self) -> dict[str, Any]:
        """Return the search's part of the summary document."""
        best, base = self.spread("best"), self.spread("base")
        return {
            "trials": self.rows(),
            "best": {
                "number": self.best.number, "value": self.best.value, "params": self.best.params,
                "repeated": None if best is None else best.document(),
            },
            "baseline": {
                "value": self.baseline, "params": self.plan.first,
                "repeated": None if base is None else base.document(),
            },
            "trainer": self.plan.trainer, "value": self.plan.value, "direction": self.plan.direction,
            "sampler": self.plan.sampler, "pruner": self.plan.pruner, "why": self.plan.why,
            "storage": self.plan.storage or "journal", "study": self.plan.study,
            "seeds": self.plan.seeds, "importances": self.importances, "outcome": self.outcome,
            "verdict": self.verdict,
        }  # fmt: skip

    def write(self) -> None:
        """Write history.json, best.json and best.toml into the study folder."""
        from motionkit.clips.profile.settings_file import dump_settings

        table = self.base.changed(self.best.params if self.worth_it else {})
        history = {"trainer": self.plan.trainer, "value": self.plan.value, "trials": self.rows()}
        text = json.dumps(history, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        write_bytes_atomic(self.folder / HISTORY, text.encode())
        for name in (BEST_JSON, BEST_TOML):
            path = self.folder / name
            write_bytes_atomic(path, dump_settings(path, table).encode())

    def tables(self) -> list[dict[str, Any]]:
        """Return the tables for people."""
        tables = []
        rows: list[tuple[object, ...]] = [(name, spread.mean, *_ends(spread)) for name, spread in self._groups()]
        if rows:
            columns = [f"{self.plan.value}, {self.plan.seeds} further seeds", "mean", "lowest", "highest"]
            tables.append({"title": "", "columns": columns, "rows": rows, "numbers": [1, 2, 3]})
        if self.changes:
            rows = [(key, _short(before), _short(after)) for key, before, after in self.changes]
            title = f"What the best trial ({self.best.number}) changes"
            tables.append({"title": title, "columns": ["setting", "base", "best"], "rows": rows, "numbers": [1, 2]})
        if self.importances:
            rows = [(key, f"{100 * value:.0f} %") for key, value in self.importances.items() if value >= 0.005]
            columns = ["setting", "share"]
            title = "What decides the value (PED-ANOVA)"
            tables.append({"title": title, "columns": columns, "rows": rows, "numbers": [1]})
        return tables

    def _groups(self) -> list[tuple[str, Spread]]:
        groups = [("base", self.spread("base"))]
        if self.best.params != self.plan.first:
            groups.insert(0, ("best", self.spread("best")))
        return [(name, spread) for name, spread in groups if spread is not None]

    def counts(self) -> str:
        """Return how many trials ended in each state, in words."""
        states = [state_of(trial) for trial in counted(self.trials)]
        return ", ".join(f"{states.count(name)} {name}" for name in dict.fromkeys(states))


def state_of(trial: FrozenTrial) -> str:
    """Return how a trial ended: complete, pruned, diverged, failed, lost, running or waiting."""
    if "lost" in trial.user_attrs:
        return "lost"
    if trial.user_attrs.get("ended") == "diverged":
        return "diverged"
    return {"FAIL": "failed"}.get(trial.state.name, trial.state.name.lower())


def _ranged(spread: Spread) -> str:
    low, high = _ends(spread)
    return f"{spread.mean:.4f} ({low:.4f} to {high:.4f})"


def _ends(spread: Spread) -> tuple[float, float]:
    return min(spread.values.values()), max(spread.values.values())


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def study_page(result: StudyResult) -> str:
    """Return the page of a search as HTML without external resources.

    The verdict comes first, then history, importances, the changes, and all trials.
    """
    plan = result.plan
    title = f"Search of {plan.trainer}: {plan.study}"
    parts = [
        tiles(_figures(result)),
        "<h2>The search</h2>",
        grid([*_charts(result), *_parallel(result)]),
        *_tables(result),
        _trials(result),
        note(f"motionkit {__version__}. Numbers behind this page: history.json; settings: best.toml, best.json."),
    ]
    return result_page(title, [result.verdict], parts, made_by="tune-bayes", sub=_how(result), scripts=hover_script())


def _how(result: StudyResult) -> str:
    plan = result.plan
    pruner = "" if plan.pruner == "none" else f" and pruner {plan.pruner}"
    return (
        f"{count(len(result.trials), 'trial')} with sampler {plan.sampler}{pruner} ({plan.why}); value: {plan.value}, "
        f"{'higher' if plan.direction == 'maximize' else 'lower'} is better."
    )


def _figures(result: StudyResult) -> list[tuple[str, str]]:
    figures = [("best trial", f"{result.best.value:.4f} (trial {result.best.number})")]
    if result.baseline is not None:
        figures.append(("base, trial 0", f"{result.baseline:.4f}"))
    for who, name in (("best", "best, further seeds"), ("base", "base, further seeds")):
        if (spread := result.spread(who)) is not None:
            figures.append((name, f"{spread.mean:.4f}"))
    return figures


def _charts(result: StudyResult) -> list[str]:
    done = [trial for trial in result.trials if trial.state.name == "COMPLETE" and trial.value is not None]
    points = [(float(trial.number), float(trial.value or 0.0)) for trial in done]
    best: list[tuple[float, float]] = []
    for number, value in points:
        best.append((number, value if not best or result.plan.better(value, best[-1][1]) else best[-1][1]))
    history = curves(
        [Curve("best so far", best), Curve("", points, faint=True, dots=True)], x_label="trial",
        y_label=result.plan.value, zero=False, above=True, height=222,
    )  # fmt: skip
    charts = [figure(history, "Every finished trial, and the best so far.", title="History")]
    if result.importances:
        shown = [(_tail(key, result), round(100 * value, 1)) for key, value in result.importances.items()][:14]
        chart = bars(shown, label="Share of the value's variation, %")
        charts.append(
            figure(chart, "Which settings tell good trials from others, in % (PED-ANOVA).", title="What decides")
        )
    return charts


def _parallel(result: StudyResult) -> list[str]:
    done = [trial for trial in result.trials if trial.state.name == "COMPLETE" and trial.value is not None]
    if len(done) < 2:
        return []
    done.sort(key=lambda trial: float(trial.value or 0.0), reverse=result.plan.direction == "maximize")
    axes = []
    for key in result.importances or result.plan.space:
        logarithmic = isinstance(dimension := result.plan.dimensions[key], Range) and dimension.log
        values = [trial.params.get(key) for trial in done[:_SHOWN]]
        axes.append((_tail(key, result), values, logarithmic))
    chart = parallel(axes[:10], [float(trial.value or 0.0) for trial in done[:_SHOWN]], better=result.plan.direction)
    words = "A line for each finished trial, the best tenth in colour: a setting matters if these are close together."
    return [figure(chart, words, title="Trials through their settings")]


def _tables(result: StudyResult) -> list[str]:
    sections = []
    for shown in result.tables()[:2]:
        head = shown["title"] or "Further seeds"
        rows = [[f"{cell:.4f}" if isinstance(cell, float) else cell for cell in row] for row in shown["rows"]]
        sections.append(f"<h2>{escape(head)}</h2>{table(shown['columns'], rows, numbers=shown['numbers'])}")
    return sections


def _trials(result: StudyResult) -> str:
    keys = list(result.plan.space)
    rows: list[list[object]] = []
    for trial in result.trials[:_SHOWN]:
        value: Any = trial.value if trial.state.name == "COMPLETE" else None
        reason = str(trial.user_attrs.get("reason", ""))
        seconds = "" if trial.duration is None else f"{trial.duration.total_seconds():.1f}"
        ending = f"{state_of(trial)}: {reason}" if reason else state_of(trial)
        params = ", ".join(
            f"{_tail(key, result)} {_short_value(trial.params[key])}" for key in keys if key in trial.params
        )
        rows.append([trial.number, "" if value is None else f"{value:.4f}", seconds, ending, params])
    columns = ["trial", "value", "s", "ended", "settings"]
    return details(f"All {count(len(result.trials), 'trial')}", table(columns, rows, numbers=(1, 2)))


def _tail(key: str, result: StudyResult) -> str:
    """Return the shortest end of a key that is unique in the space."""
    parts = key.split(".")
    for first in range(len(parts) - 1, 0, -1):
        tail = ".".join(parts[first:])
        if sum(other.endswith(f".{tail}") for other in result.plan.space) == 1:
            return tail
    return key


def _short_value(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def write_config(path: Path, result: StudyResult) -> tuple[list[tuple[str, Any, Any]], list[str]]:
    """Write the best settings into a settings file, which keeps its other settings.

    Only settings that the search changed are written; a new file gets all that differ from the defaults. Nothing is
    written if the best settings are no better than the base.

    Returns:
        Key, value before (None if unset) and value after of each change; and notes for the user.
    """
    from motionkit.clips.profile.settings_file import merge_settings, read_settings

    if not result.worth_it:
        return [], [f"{path} was left as it is: the base settings are the best."]
    if not path.exists():
        table = result.base.changed(result.best.params)
        merge_settings(path, table, {}, overwrite=True)
        return [(key, None, value) for key, value in flat(table)], [f"wrote {path}"]
    _, have = read_settings(path)
    wanted = merged(have, result)
    written = merge_settings(path, wanted, {}, overwrite=True)
    old, new = dict(flat(have)), dict(flat({**have, **wanted}))
    changes = [(key, old.get(key), value) for key, value in new.items() if old.get(key) != value]
    notes = [f"merged into {path}: {len(changes)} settings"]
    if written.backup is not None:
        notes.append(f"its comments could not be kept; the old file is {written.backup}")
    return changes, notes


def merged(have: Mapping[str, Any], result: StudyResult) -> dict[str, Any]:
    """Return the top-level keys of a file that the best settings change, with all that they hold."""
    params = {key: new for key, _, new in result.changes}
    start = dict(have)
    for key in params:
        top = key.partition(".")[0]
        if any(part.isdecimal() for part in key.split(".")) and not isinstance(start.get(top), list):
            start[top] = result.plan.base[top]  # a list cannot be written in part
    settings = with_values(start, params)
    return {top: settings[top] for top in dict.fromkeys(key.partition(".")[0] for key in params)}


def diff_lines(changes: list[tuple[str, Any, Any]]) -> list[str]:
    """Return changes as lines, ``-`` before and ``+`` after."""
    lines = []
    for key, before, after in changes:
        if before is not None:
            lines.append(f"- {key} = {_shown(before)}")
        lines.append(f"+ {key} = {_shown(after)}")
    return lines


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
