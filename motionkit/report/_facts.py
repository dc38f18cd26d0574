"""The parts of a page that are words: the result, alarms, settings with their origins, the environment."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from motionkit.documents import value_at
from motionkit.page.html import commands, definitions, details, note, table, tiles
from motionkit.page.wording import duration
from motionkit.runs.source import Source
from motionkit.tracking import DOUBTED, FEWEST, MAIN, MEASURED_BY, NO_CHANGE, TOO_FEW, Change, change_table, series

_BETTER = {"up": "Higher is better.", "down": "Lower is better.", "one": "Best near 1.", "none": ""}

_NARROW = 4
"""Columns of figures that fit beside each other on a telephone."""


def head(source: Source) -> str:
    """Return the title, the command line and the result in a sentence."""
    info, line = source.info, typed(source)
    when = f"started {info.created.replace('T', ' ')[:16]} UTC, " if info.created else ""
    sentence = " ".join(filter(None, (source.report.sentence or _so_far(source), _verdict(source))))
    return (
        f"<header><h1>{escape(info.command)}: {escape(source.name)}</h1>"
        f"{commands([line]) if line else ''}"
        f'<p class="sub">{escape(when)}{escape(info.status)}{escape(_commit(source))}</p></header>'
        + (f'<p class="lead-in">{escape(sentence).replace(" %", "&nbsp;%")}</p>' if sentence else "")
    )


def typed(source: Source) -> str:
    """Return the command line of a run; empty where it is not recorded."""
    record = source.info.record
    return shlex.join(["motionkit", *record.argv[1:]]) if record and record.argv else ""


def _commit(source: Source) -> str:
    record = source.info.record
    return f", commit {str(record.git['commit'])[:10]}" if record and record.git and record.git.get("commit") else ""


def figures(source: Source) -> str:
    """Return the few figures in large type."""
    record = source.info.record
    rows = {row.name: row for row in next(iter(source.report.shown.values()))}
    values = [(name, rows[name].text(rows[name].delta, sign=True)) for name in ("reward", "judge") if name in rows]
    named = [(f"change in {name}", value) for name, value in values]
    if not named:
        named = [(row.label, row.text(row.after)) for row in source.report.changes[:2]]
    seconds = record.seconds if record and record.seconds else _last_seconds(source)
    total = source.info.total_steps if source.info.status == "running" else None
    steps = f"{source.steps:,}" + (f" of {total:,}" if total else "")
    return tiles([*named, ("steps", steps), ("time", duration(seconds))])


def result_tables(source: Source) -> str:
    """Return the tables of the result, each with what it was measured on."""
    report, summary = source.report, source.info.summary
    if not report.changes:
        return ""
    first = note(_measured_on(source) + _compared(source, MAIN)) + _result_table(report.changes)
    more = ""
    for key, way in report.ways.items():
        rows, heading = report.measured(key), _capital(way.words)
        if not rows or key == MAIN:
            continue
        shown = note(f"{max(row.n for row in rows):,} {way.note}{_compared(source, key)}") + _result_table(rows)
        if doubt := way.doubt(summary):
            more += details(heading, note(doubt) + _result_table(rows))
        elif next(iter(report.shown)) == way.words:  # it stands in front of the main one
            more += f"<h3>{escape(_capital(report.named('')))}</h3>{first}"
            first = shown
        else:
            more += details(heading, shown)
    others = [item for item in source.info.tables if "verdict" not in item["columns"]]
    more += "".join(
        f"<h3>{escape(str(item.get('title', '')))}</h3>"
        + table(item["columns"], item["rows"], numbers=range(1, len(item["columns"])), kind=_kind(item["columns"]))
        for item in others
    )
    notes = "".join(note(f"{_capital(text)}.") for text in report.notes)
    return f"<h2>Result</h2>{notes}{first}{_how_to_read(source)}{more}"


def _compared(source: Source, key: str) -> str:
    """Return the sentence on the motions that KID compares in a table; empty without an evaluator."""
    words = value_at(source.info.summary, MEASURED_BY, "compared", key)
    return f" {words}." if isinstance(words, str) and words else ""


def _how_to_read(source: Source) -> str:
    """Return what each row of the result means, and what the verdicts do."""
    report = source.report
    words = {
        row.label: f"{row.metric.meaning} {_BETTER[row.direction]}".strip()
        for row in report.changes
        if row.metric.meaning and not row.metric.name.endswith("<name>")
    }
    words |= report.meanings
    shown = [*report.changes, *(row for way, rows in report.shown.items() if way for row in rows)]
    if any(row.ci95 for row in shown):
        words[NO_CHANGE] = (
            "The 95 % interval of the change, as it is printed, contains 0; or the change is below half a percent."
        )
    if any(row.verdict == TOO_FEW for row in shown):
        words[TOO_FEW] = f"A verdict needs {FEWEST} held-out prompts, takes, regions or episodes."
    if doubt := next((row.doubt for row in shown if row.doubt), ""):
        words[DOUBTED] = f"No verdict, because {doubt}: what it says of a change may be chance."
    if noise := next((row.noise for row in shown if row.noise), ""):
        words["noise"] = noise
    return details("How to read this", definitions(words)) if words else ""


def _kind(columns: Sequence[str]) -> str:
    """Return how a table is shown: one of many columns is a list on a telephone, or has no change and no interval."""
    if list(columns[4:6]) == ["change", "95 % interval"]:
        return "plain result interval real"
    return "plain result" if len(columns) <= _NARROW else "cards"


def _measured_on(source: Source) -> str:
    sentence = source.info.summary.get("measured_on")
    if isinstance(sentence, str):
        by, older, _ = source.info.chosen_by.partition(" (older version)")
        return sentence + (f" The policy was chosen by {by} on other starts." if older else "")
    n = max(row.n for row in source.report.changes)
    samples = value_at(source.info.config, "heldout", "samples")
    if not any(row.ci95 for row in source.report.changes):
        return f"{n:,} held-out clips or prompts."
    each = f" x {samples} samples" if isinstance(samples, int) else ""
    return (
        f"{n:,} held-out prompts{each}, the same noise before and after. The interval is a 95 % bootstrap over "
        f"prompts; '{NO_CHANGE}': it contains 0."
        + (
            " Reference: clips of the same actions, joined."
            if any(row.real is not None for row in source.report.changes)
            else ""
        )
    )


def _result_table(results: Sequence[Change]) -> str:
    content = change_table(results)
    # A telephone has no room for intervals, nor for changes where reference motions have a column.
    more = {" interval": any(row.ci95 for row in results), " real": any(row.real is not None for row in results)}
    kind = "".join(word for word, wanted in more.items() if wanted)
    tones = [row.tone for row in results]
    return table(
        content["columns"], content["rows"], numbers=content["numbers"], kind=f"plain result{kind}", tones=tones
    )


def alarms(source: Source) -> str:
    """Return the warnings of the run, and why it failed."""
    record = source.info.record
    texts = [*([f"The run failed: {record.error}"] if record and record.error else []), *source.warnings]
    rows = "".join(f"<li>{escape(text)}</li>" for text in texts)
    inside = f'<ul class="notes">{rows}</ul>' if rows else note("None: nothing looked wrong while the run went on.")
    return f"<h2>Alarms</h2>{inside}"


def gaps(missing: Sequence[str]) -> str:
    """Return what is missing."""
    rows = "".join(f"<li>{escape(text)}</li>" for text in missing)
    return f'<ul class="notes">{rows}</ul>' if rows else ""


def settings(source: Source) -> str:
    """Return the settings: those that were chosen, then the defaults."""
    record = source.info.record
    origins = record.origins if record else {}
    rows = [(key, _value(value), origin_of(origins, key)) for key, value in flat(source.info.config)]
    rows = [row for row in rows if row[0] not in ("run.out", "run.name", "run.overwrite", "run.resume")]
    if not rows:
        return ""
    heads = ("setting", "value", "set by")
    chosen = [row for row in rows if row[2] != "default"]
    defaults = [row for row in rows if row[2] == "default"]
    changed = table(heads, chosen, kind="plain") if chosen else note("Every setting has its default.")
    rest = details(f"{len(defaults)} settings at their defaults", table(heads, defaults, kind="plain"))
    return f"<h2>Settings</h2>{changed}{rest if defaults else ''}"


def environment(source: Source) -> str:
    """Return versions, device, seed and attempts."""
    record = source.info.record
    if record is None:
        return ""
    rows = [("seed", str(record.seed)), ("device", str(record.device)), *record.versions.items()]
    rows += [(f"package {name}", version) for name, version in record.plugins.items() if name not in record.versions]
    if record.git:
        rows.append(("commit", str(record.git.get("commit", ""))))
    parts = [table(("", ""), rows, kind="plain")]
    if len(record.attempts) > 1:
        tries = [
            (
                attempt.start.replace("T", " ")[:16],
                attempt.start_step,
                "" if attempt.end_step is None else attempt.end_step,
                attempt.status,
            )
            for attempt in record.attempts
        ]
        parts.append(f"<h3>Attempts</h3>{table(('started', 'from step', 'to step', 'status'), tries, numbers=(1, 2))}")
    return f"<h2>Environment</h2>{details('versions, device, seed', ''.join(parts))}"


def next_steps(lines: Sequence[str]) -> str:
    """Return commands to type next."""
    return f'<h2>Next</h2><div class="card">{commands(lines)}</div>' if lines else ""


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield settings by dotted name."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _value(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def origin_of(origins: Mapping[str, str], key: str) -> str:
    """Return who set a setting: ``default``, or as `motionkit.config` records it."""
    return origins.get(key) or origins.get(key.rpartition(".")[0]) or "default"


def _so_far(source: Source) -> str:
    """Return the last held-out point of a run that has not finished."""
    points = series(source.lines, "heldout/reward/mean")
    if len(points) < 2:
        return ""
    (_, start), (step, now) = points[0], points[-1]
    return f"So far: the held-out reward went from {start:.3f} to {now:.3f} ({now - start:+.3f}) by step {step:.0f}."


def _verdict(source: Source) -> str:
    """Return what a motion predictor's run says of the baselines."""
    words = source.info.summary.get("verdict")
    return _capital(words) if isinstance(words, str) else ""


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _last_seconds(source: Source) -> float:
    return max((float(line.get("seconds") or 0.0) for line in source.lines), default=0.0)
