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
from motionkit.tracking import (
    DOUBTED,
    FEWEST,
    GENERATE,
    GUIDANCE,
    HELDOUT_TABLES,
    MEASURED_BY,
    NO_CHANGE,
    NOISE,
    TOO_FEW,
    HeldoutResult,
    result_sentence,
    result_table,
    results,
    series,
)

_BETTER = {"up": "Higher is better.", "down": "Lower is better.", "one": "Best near 1.", "none": ""}

_SAMPLED = {
    GENERATE: "of the prompts, with the settings of motionkit generate: before and after with one guidance scale; one "
    "sample each. Reference: clips of the same actions.",
    "heldout_all_steps": "prompts sampled with every step of the ancestral sampler, one sample each.",
}
"""What the further tables were measured on; the number of prompts stands before it."""

_OLD_GUIDANCE = (
    "The run is of an older version: before and after may have been sampled with different guidance scales, so that a "
    "change may be that of the guidance alone."
)

_NARROW = 4
"""Columns of figures that fit beside each other on a telephone."""


def head(source: Source) -> str:
    """Return the title, the command line and the result in a sentence."""
    info, line = source.info, typed(source)
    when = f"started {info.created.replace('T', ' ')[:16]} UTC, " if info.created else ""
    sentence = " ".join(filter(None, (result_sentence(source.info.summary) or _so_far(source), _verdict(source))))
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
    rows = {row.name: row for row in source.others.get(HELDOUT_TABLES[GENERATE], source.results)}
    values = [(name, rows[name].text(rows[name].delta, sign=True)) for name in ("reward", "judge") if name in rows]
    named = [(f"change in {name}", value) for name, value in values]
    if not named:
        named = [(row.label, row.text(row.after)) for row in source.results[:2]]
    seconds = record.seconds if record and record.seconds else _last_seconds(source)
    total = source.info.total_steps if source.info.status == "running" else None
    steps = f"{source.steps:,}" + (f" of {total:,}" if total else "")
    return tiles([*named, ("steps", steps), ("time", duration(seconds))])


def result_tables(source: Source) -> str:
    """Return the tables of the result, each with what it was measured on."""
    if not source.results:
        return ""
    parts = {"heldout": note(_measured_on(source) + _compared(source, "heldout")) + _result_table(source.results)}
    more = ""
    for key, text in _SAMPLED.items():
        rows = results(source.info.summary.get(key))
        if rows and key == GENERATE and GUIDANCE not in source.info.summary:
            more = details("With the settings of motionkit generate", note(_OLD_GUIDANCE) + _result_table(rows))
        elif rows:
            parts[key] = note(f"{max(row.n for row in rows):,} {text}{_compared(source, key)}") + _result_table(rows)
    if GENERATE in parts:
        first = parts.pop(GENERATE)
        more += f"<h3>With the sampling steps of training</h3>{parts['heldout']}"
    else:
        first = parts["heldout"]
    if "heldout_all_steps" in parts:
        more += details("With all sampling steps", parts["heldout_all_steps"])
    others = [item for item in source.info.tables if "verdict" not in item["columns"]]
    more += "".join(
        f"<h3>{escape(str(item.get('title', '')))}</h3>"
        + table(item["columns"], item["rows"], numbers=range(1, len(item["columns"])), kind=_kind(item["columns"]))
        for item in others
    )
    return f"<h2>Result</h2>{_measured_by(source)}{first}{_how_to_read(source)}{more}"


def _compared(source: Source, key: str) -> str:
    """Return the sentence on the motions that KID compares in a table; empty without an evaluator."""
    words = value_at(source.info.summary, MEASURED_BY, "compared", key)
    return f" {words}." if isinstance(words, str) and words else ""


def _measured_by(source: Source) -> str:
    """Return which judge and evaluator measured, and which rows are missing or say little; empty for older runs."""
    said, notes = (value_at(source.info.summary, MEASURED_BY, key) for key in ("said", "notes"))
    texts = [said, *(notes if isinstance(notes, list) else ())]
    return "".join(note(f"{_capital(text)}.") for text in texts if isinstance(text, str) and text)


def _how_to_read(source: Source) -> str:
    """Return what each row of the result means, and what the verdicts do."""
    words = {
        row.label: f"{row.metric.meaning} {_BETTER[row.direction]}".strip()
        for row in source.results
        if row.metric.meaning and not row.metric.name.endswith("<name>")
    }
    if any(row.name == "judge" for row in source.results):
        words["reward and judge"] = (
            "The judge measures the same as the reward by another network, which is never trained on. Where the "
            "reward rises and the judge does not follow, the policy pleases the reward without being better."
        )
    shown = [row for rows in (source.results, *source.others.values()) for row in rows]
    if any(row.ci95 for row in shown):
        words[NO_CHANGE] = (
            "The 95 % interval of the change, as it is printed, contains 0; or the change is below half a percent."
        )
    if any(row.verdict == TOO_FEW for row in shown):
        words[TOO_FEW] = f"A verdict needs {FEWEST} held-out prompts, takes, regions or episodes."
    if doubt := next((row.doubt for row in shown if row.doubt), ""):
        words[DOUBTED] = f"No verdict, because {doubt}: what it says of a change may be chance."
    if any(row.noise for row in shown):
        words["noise"] = (
            f"The jerk after training is over {NOISE:g} times that of reference clips: no change is called good."
        )
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
    n = max(row.n for row in source.results)
    samples = value_at(source.info.config, "heldout", "samples")
    if not any(row.ci95 for row in source.results):
        return f"{n:,} held-out clips or prompts."
    each = f" x {samples} samples" if isinstance(samples, int) else ""
    return (
        f"{n:,} held-out prompts{each}, the same noise before and after. The interval is a 95 % bootstrap over "
        f"prompts; '{NO_CHANGE}': it contains 0."
        + (
            " Reference: clips of the same actions, joined."
            if any(row.real is not None for row in source.results)
            else ""
        )
    )


def _result_table(results: Sequence[HeldoutResult]) -> str:
    content = result_table(results)
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
    rows = [(key, _value(value), _origin(origins, key)) for key, value in flat(source.info.config)]
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


def _origin(origins: Mapping[str, str], key: str) -> str:
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
