"""`Report`: what a run or an evaluation measured before and after, as rows, tables and sentences.

Rows, verdicts and the sentence on what changed are the same for all. What a system adds, such as tables that were
measured in another way, is its `Findings`, which its `Component` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from motionkit import plugins
from motionkit.documents import value_at
from motionkit.tracking._change import Change, Tone, table_of
from motionkit.tracking._verdict import NO_CHANGE, NOT_MEASURED, TOO_FEW

MAIN = "heldout"
"""Key of a summary with the quantities before and after."""

MEASURED_BY = "measured_by"
"""Key of a summary with ``said``, who measured; ``notes``; and ``compared``, a note for the table of a key."""

_RANK: dict[Tone, int] = {"bad": 0, "": 1, "good": 2}


def _nothing(given: object) -> str:
    return ""


@dataclass(frozen=True)
class Way:
    """One of several ways in which the same quantities are measured: a table of a summary."""

    words: str  # Of it in a sentence, such as ``with all sampling steps``
    note: str = ""  # What it was measured on; the number of items stands before it
    doubt: Callable[[Mapping[str, Any]], str] = _nothing  # Why its before and after do not compare, by the summary


@dataclass(frozen=True)
class Remarks:
    """What a system says of a result, beside what changed."""

    first: str = ""  # Sentences in front, each with a space behind it
    clause: str = ""  # The rest of the sentence on the first quantity
    then: str = ""  # Sentences behind it, each with a space before it
    last: str = ""  # The same, at the end
    short: str = ""  # The rest of the line of a listing
    meanings: Mapping[str, str] = field(default_factory=dict)  # Words of the tables, and what they mean


def _no_remarks(report: Report) -> Remarks:
    return Remarks()


@dataclass(frozen=True)
class Findings:
    """What a system knows of its results. It is asked about every run, also one of another system."""

    # By key of a summary, in the order that tables are shown in; `MAIN` is one of them.
    ways: Mapping[str, Way] = field(default_factory=dict)
    order: Sequence[str] = ()  # Quantities that come first in tables
    told: Sequence[str] = ()  # Quantities that `remarks` speak of; they are not listed among what got worse
    remarks: Callable[[Report], Remarks] = _no_remarks
    noise: Callable[[Sequence[Change]], str] = _nothing  # Why no change of these is good news; empty if one may be
    # Why the values of runs with these settings do not compare, in a sentence; empty if they do.
    apart: Callable[[Sequence[Mapping[str, Any]]], str] = _nothing


@cache
def _own() -> tuple[Findings, ...]:
    return tuple(plugins.named("findings"))


def _findings(trainer: plugins.Component | None) -> tuple[Findings, ...]:
    """Return what motionkit's systems find, then what a trainer of another package does."""
    if trainer is None or not trainer.findings or (theirs := trainer.imported(trainer.findings)) in _own():
        return _own()
    module = trainer.findings.partition(":")[0]

    def caught(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def guarded(given: Any) -> Any:
            with plugins.catching(module, code=1):
                return call(given)

        return guarded

    ways = {key: replace(way, doubt=caught(way.doubt)) for key, way in theirs.ways.items()}
    remarks, noise, apart = map(caught, (theirs.remarks, theirs.noise, theirs.apart))
    return (*_own(), replace(theirs, ways=ways, remarks=remarks, noise=noise, apart=apart))


class Report:
    """Figures before and after, with notes.

    Args:
        figures: Entries by name, each with ``before``, ``after``, ``delta``, ``n`` and perhaps ``ci95``; what cannot
            be read is left out.
        notes: Sentences without the full stop.
        summary: The document that they are from, if it may have further tables.
        config: The settings of the run.
        trainer: The component of the run's trainer, for its findings.

    Example:
        >>> block = {"before": 0.68, "after": 0.83, "delta": 0.15, "ci95": [0.13, 0.17], "n": 64}
        >>> report = Report({"reward": block})
        >>> report.sentence
        'The reward rose from 0.680 to 0.830 (+0.150, 95 % interval +0.130 to +0.170).'
        >>> report.table()["rows"]
        [('reward', '0.680', '0.830', '+0.150', '+0.130 to +0.170', 'better')]
    """

    def __init__(
        self,
        figures: object,
        notes: Sequence[str] = (),
        *,
        summary: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        trainer: plugins.Component | None = None,
    ) -> None:
        self.notes, self.summary, self.config = list(notes), summary or {}, config or {}
        self.findings = _findings(trainer)
        self.changes = self._read(figures)

    @classmethod
    def of_run(
        cls,
        summary: Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
        trainer: plugins.Component | None = None,
    ) -> Report:
        """Read the summary document of a run; empty for one that has not finished."""
        said, notes = (value_at(summary, MEASURED_BY, key) for key in ("said", "notes"))
        texts = [said, *(notes if isinstance(notes, list) else ())]
        given = [text for text in texts if isinstance(text, str) and text]
        return cls(summary.get(MAIN), given, summary=summary, config=config, trainer=trainer)

    def _read(self, figures: object) -> list[Change]:
        entries = figures.items() if isinstance(figures, Mapping) else ()
        rows = [row for name, entry in entries if (row := Change.read(str(name), entry)) is not None]
        if noise := next(filter(None, (found.noise(rows) for found in self.findings)), ""):
            rows = [replace(row, noise=noise) for row in rows]
        order = [name for found in self.findings for name in found.order]
        places = {name: place for place, name in enumerate(order)}
        return sorted(rows, key=lambda row: places.get(row.name, len(places)))

    @cached_property
    def ways(self) -> dict[str, Way]:
        """How quantities are measured, by key of the summary, in the order of tables."""
        return {key: way for found in self.findings for key, way in found.ways.items()}

    def measured(self, key: str) -> list[Change]:
        """Return the rows of a key of the summary."""
        return self.changes if key == MAIN else self._read(self.summary.get(key))

    @cached_property
    def shown(self) -> dict[str, list[Change]]:
        """The tables that sentences are read off, by `Way.words`, the first in front; the main one has no name."""
        tables = {
            "" if key == MAIN else way.words: self.measured(key)
            for key, way in self.ways.items()
            if key == MAIN or not way.doubt(self.summary)
        }
        return {words: rows for words, rows in tables.items() if rows or not words}

    def place(self, words: str, beside: str) -> str:
        """Return the words for a table; empty for the one that the sentence is about."""
        return "" if words == beside else f" {self.named(words)}"

    def named(self, words: str) -> str:
        """Return the words for a table, also for the main one."""
        return words or self.ways[MAIN].words

    def worst(self, name: str) -> tuple[str, Change]:
        """Return the row of a quantity with the worst verdict, after the words for its table.

        Of several that are bad news it is the one that changed most, else the first.
        """
        rows = [(words, row) for words, table in self.shown.items() for row in table if row.name == name]
        return min(rows, key=lambda pair: (_RANK[pair[1].tone], -abs(pair[1].percent or 0.0) * (pair[1].tone == "bad")))

    def table(self, title: str = "") -> dict[str, Any]:
        """Return the rows as a trainer's ``table``.

        Columns that no row has a value of are left out: that of the reference, and that of intervals.
        """
        return change_table(self.changes, title)

    def tables(self) -> list[dict[str, Any]]:
        """Return the tables of all ways of measuring."""
        found = [(way.words, self.measured(key)) for key, way in self.ways.items()]
        return [
            change_table(rows, f"Held out, before and after, {words} ({rows[0].n})") for words, rows in found if rows
        ]

    @cached_property
    def _remarks(self) -> list[Remarks]:
        return [found.remarks(self) for found in self.findings]

    @property
    def meanings(self) -> dict[str, str]:
        """Words of the tables that systems explain."""
        return {word: text for remarks in self._remarks for word, text in remarks.meanings.items()}

    @property
    def short(self) -> str:
        """The first result for a listing, from the table where it is worst, such as ``reward +0.152 better``."""
        if not self.changes:
            return ""
        _, row = self.worst(self.changes[0].name)
        rest = "".join(remarks.short for remarks in self._remarks)
        return " ".join((row.title, row.text(row.delta, sign=True), row.verdict)) + rest

    @property
    def sentence(self) -> str:
        """The result in a sentence or two, with what systems add; empty if nothing was measured.

        If a quantity is in several tables, the sentence has the one with the worst verdict; among equal verdicts, the
        one that became worse most, else that of the table that is shown first. Rows that are worse come last, the worst
        first.
        """
        return "".join(self._sentences()).strip()

    def _sentences(self) -> Iterator[str]:
        if self.changes:
            where, lead = self.worst(self.changes[0].name)
            yield from (remarks.first for remarks in self._remarks)
            yield f"{_moved(lead)}{f' {where}' if where else ''}"
            yield from (remarks.clause for remarks in self._remarks)
            yield "."
            yield from (remarks.then for remarks in self._remarks)
            yield self._worse(where, lead)
        yield from (remarks.last for remarks in self._remarks)

    def _worse(self, where: str, lead: Change) -> str:
        """Return the sentence on what got worse beside the first quantity."""
        told = {lead.name, *(name for found in self.findings for name in found.told)}
        names = dict.fromkeys(row.name for rows in self.shown.values() for row in rows if row.name not in told)
        bad: dict[str, list[str]] = {}
        for words, row in sorted(map(self.worst, names), key=lambda item: -abs(item[1].percent or 0.0)):
            if row.tone == "bad":
                bad.setdefault(self.place(words, where), []).append(f"{row.short} {row.changed}")
        named = "; ".join(f"{', '.join(rows)}{place}" for place, rows in bad.items())
        return f" Worse: {named}." if named else ""


def change_table(rows: Sequence[Change], title: str = "") -> dict[str, Any]:
    """Return rows as `Report.table` does."""
    columns: dict[str, list[str]] = {
        "": [row.label for row in rows],
        "before": [row.text(row.before) for row in rows],
        "after": [row.text(row.after) for row in rows],
    }
    if any(row.real is not None for row in rows):
        columns["reference"] = ["-" if row.real is None else row.text(row.real) for row in rows]
    columns["change"] = [row.text(row.delta, sign=True) for row in rows]
    if any(row.ci95 for row in rows):
        columns["95 % interval"] = [row.interval for row in rows]
    columns["verdict"] = [row.verdict for row in rows]
    return table_of(title, [*columns], zip(*columns.values(), strict=True), range(1, len(columns) - 1))


def compared_rows(reports: Sequence[Report]) -> list[tuple[str, ...]]:
    """Return a row per quantity with a cell per run: its value after training, its change, the verdict.

    A run without a quantity has a dash there.
    """
    tables = [{row.name: row for row in report.changes} for report in reports]
    labels = {row.name: row.label for report in reports for row in report.changes}
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


def measured_apart(reports: Sequence[Report]) -> str:
    """Return the sentences on why the values of runs do not compare; empty if they do."""
    configs = [report.config for report in reports]
    said = dict.fromkeys(found.apart(configs) for report in reports for found in report.findings)
    return " ".join(filter(None, said))


def _moved(row: Change) -> str:
    name = row.title if row.title[:1].isupper() else f"The {row.title}"
    unit = f" {row.unit}" if row.unit else ""
    span = f"from {row.text(row.before)} to {row.text(row.after)}{unit}"
    interval = f", 95 % interval {row.interval}" if row.ci95 else ""
    change = f"({row.text(row.delta, sign=True)}{interval})"
    if row.verdict == NO_CHANGE:
        return f"{name} shows no clear change: {span} {change}"
    if row.verdict == NOT_MEASURED:
        return f"{name} was not measured"
    if row.verdict == TOO_FEW:
        return f"{name} went {span} {change}, on {row.n} held out: too few to say whether it changed"
    return f"{name} {'rose' if row.delta > 0 else 'fell'} {span} {change}"
