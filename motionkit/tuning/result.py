"""The result of a search: its verdict in a sentence, its document, tables and files.

`StudyResult` holds them, and merges its settings into the user's file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from motionkit.runs import require_writable, write_bytes_atomic
from motionkit.tuning.base import Base, flat, with_values
from motionkit.tuning.plan import BEST_JSON, BEST_TOML, HISTORY, Plan
from motionkit.tuning.trials import state_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


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
    trials: Sequence[FrozenTrial]  # All trials of the storage
    best: FrozenTrial  # The one with the best value
    repeated: Mapping[str, Mapping[int, float | None]]  # Values with other seeds, of ``base`` and ``best``, by seed
    importances: Mapping[str, float]  # Importance of each setting; empty with too few trials
    folder: Path  # The study folder

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

    @property
    def changes(self) -> list[tuple[str, Any, Any]]:
        """Key, the base's value and the best value of each setting that differs."""
        first = self.plan.first
        return [(key, first[key], value) for key, value in self.best.params.items() if value != first[key]]

    @property
    def done(self) -> list[tuple[FrozenTrial, float]]:
        """The trials with a value, and the values."""
        return [
            (trial, trial.value) for trial in self.trials if state_of(trial) == "complete" and trial.value is not None
        ]

    def counts(self) -> str:
        """Return how many trials ended in each state, in words."""
        states = [state for trial in self.trials if (state := state_of(trial)) not in ("lost", "waiting")]
        return ", ".join(f"{states.count(name)} {name}" for name in dict.fromkeys(states))

    def figures(self) -> list[tuple[str, str]]:
        """Return the figures of the result and their names."""
        figures = [("best trial", f"{self.best.value:.4f} (trial {self.best.number})")]
        if self.baseline is not None:
            figures.append(("base, trial 0", f"{self.baseline:.4f}"))
        for who, name in (("best", "best, further seeds"), ("base", "base, further seeds")):
            if (spread := self.spread(who)) is not None:
                figures.append((name, f"{spread.mean:.4f}"))
        return figures

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
            "seeds": self.plan.seeds, "importances": dict(self.importances), "outcome": self.outcome,
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

    def stored_tables(self) -> list[dict[str, Any]]:
        """Return the tables as they are stored in run.json."""
        return [{**table, "rows": [list(map(_plain, row)) for row in table["rows"]]} for table in self.tables()]

    def merge_into(self, path: Path) -> Merge:
        """Write the best settings into a settings file, which keeps its other settings.

        Only settings that the search changed are written; a new file gets all that differ from the defaults. Nothing is
        written if the best settings are no better than the base.
        """
        from motionkit.clips.profile.settings_file import merge_settings, read_settings

        if not self.worth_it:
            return Merge(path, [], [f"{path} was left as it is: the base settings are the best."])
        if not path.exists():
            table = self.base.changed(self.best.params)
            merge_settings(path, table, {}, overwrite=True)
            return Merge(path, [(key, None, value) for key, value in flat(table)], [f"wrote {path}"])
        _, have = read_settings(path)
        wanted = self._merged(have)
        written = merge_settings(path, wanted, {}, overwrite=True)
        old, new = dict(flat(have)), dict(flat({**have, **wanted}))
        changes = [(key, old.get(key), value) for key, value in new.items() if old.get(key) != value]
        notes = [f"merged into {path}: {len(changes)} settings"]
        if written.backup is not None:
            notes.append(f"its comments could not be kept; the old file is {written.backup}")
        return Merge(path, changes, notes)

    def _merged(self, have: Mapping[str, Any]) -> dict[str, Any]:
        """Return the top-level keys of a file that the best settings change, with all that they hold."""
        params = {key: new for key, _, new in self.changes}
        start = dict(have)
        for key in params:
            top = key.partition(".")[0]
            if any(part.isdecimal() for part in key.split(".")) and not isinstance(start.get(top), list):
                start[top] = self.plan.base[top]  # a list cannot be written in part
        settings = with_values(start, params)
        return {top: settings[top] for top in dict.fromkeys(key.partition(".")[0] for key in params)}


@dataclass(frozen=True)
class Merge:
    """What was written into a settings file."""

    path: Path | None = None  # The file; None if none was asked for
    changes: Sequence[tuple[str, Any, Any]] = ()  # Key, value before (None if unset) and value after
    notes: Sequence[str] = ()  # For people

    def document(self) -> dict[str, Any]:
        """Return its part of the summary document."""
        if self.path is None:
            return {}
        return {"written": {"path": str(self.path), "changes": [list(change) for change in self.changes]}}

    def lines(self) -> list[str]:
        """Return the changes as lines, ``-`` before and ``+`` after."""
        lines = []
        for key, before, after in self.changes:
            if before is not None:
                lines.append(f"- {key} = {_shown(before)}")
            lines.append(f"+ {key} = {_shown(after)}")
        return lines


def require_mergeable(path: Path) -> None:
    """Refuse a settings file that cannot be read or written, before anything is trained."""
    from motionkit.clips.profile.settings_file import read_settings

    read_settings(path)
    require_writable(path)


def _ranged(spread: Spread) -> str:
    low, high = _ends(spread)
    return f"{spread.mean:.4f} ({low:.4f} to {high:.4f})"


def _ends(spread: Spread) -> tuple[float, float]:
    return min(spread.values.values()), max(spread.values.values())


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(value: object) -> object:
    return value if isinstance(value, (int, float, str)) else str(value)
