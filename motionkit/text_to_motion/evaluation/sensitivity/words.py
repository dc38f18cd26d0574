"""The sentences, tables and document of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from motionkit.text import KINDS
from motionkit.text_to_motion.evaluation.sensitivity.audit import PLAIN, Audit, Figure, Measured
from motionkit.text_to_motion.evaluation.sensitivity.bench import SOURCES
from motionkit.tracking import FEWEST, TOO_FEW, table_of

UNSEEN, SEEN = 0.2, 0.6  # a change is not seen below the first and seen from the second on, else seen weakly
UNSEEN_STD, SEEN_STD = 0.2, 1.0  # the same for rewards that read no text, in standard deviations over reference clips
DISTURBED = 0.1  # largest cost of a change that should not matter
_LISTED = 5  # clips from which a kind of caption is listed, and shares of an unrelated caption are shown
_WIDEST = 1.0  # widest interval of a figure that is used in the sentence

ASKED: Mapping[str, tuple[str, ...]] = {
    "movement": ("mean-pose", "held-frame", "swing-0.3", "lively-statue"),
    "order": ("shuffled-pieces", "swapped-quarters", "reversed"),
    "order of segments": ("swapped-segments", "text-segments"),
    "order of events": ("text-order",),
    "left and right": ("mirrored", "text-side"),
    "tempo": ("tempo-0.5", "tempo-2", "text-tempo"),
    "path": ("no-path",),
    "direction": ("other-direction", "text-direction"),
    "counts": ("text-count",),
}
"""What captions ask for, with the rows that test it. The row that is seen least counts: an optimiser exploits it."""

_SAID = {"counts": "how often something is done"}
"""Topics that are said in other words than their names."""

SHIPPED: Mapping[str, Mapping[str, float]] = {
    "tmr-dense": {"tempo": 0.63, "order of events": 0.14, "counts": 0.03},
    "tmr-cosine": {"tempo": 0.63, "order of events": 0.14, "counts": 0.03},
    "tmr-matching": {"tempo": 0.63, "order of events": 0.14, "counts": 0.03},
    "mdm-matching": {"tempo": 0.15, "order of events": 0.03, "counts": 0.01},
    "mdm-dense": {"tempo": 0.06, "order of events": 0.01, "counts": 0.0},
    "mdm-r-precision": {"tempo": 0.08, "order of events": 0.06, "counts": -0.01},
    "mdm-combined": {"tempo": 0.13, "order of events": 0.04, "counts": 0.0},
    "movement": {"tempo": 0.54, "order of events": 0.0, "counts": 0.15},
}
"""What is seen by rewards with the weights of the starter, where a short audit has too few clips: docs/rewards.md."""

PHYSICS: Mapping[str, tuple[str, ...]] = {
    "the floor": ("above-floor", "below-floor"),
    "sliding feet": ("sliding-feet",),
    "noise": ("noise",),
}
"""What every motion should have, whatever the caption."""

_BADLY = 6  # actions that are shown as the worst
_LEAST_ROWS = 3


@dataclass(frozen=True)
class Verdict:
    """The sensitivity of a reward, by what captions ask for."""

    name: str
    reads_text: bool  # whether captions change its scores
    constant: bool  # whether it returns the same value for everything
    # By topic of `ASKED` and `PHYSICS`, the figure of the row that is seen least: `Figure.seen`, or `Figure.fall` for a
    # reward that reads no text.
    levels: Mapping[str, float]
    disturbed: Mapping[str, float]  # rows that should not matter but cost more than `DISTURBED`, with the cost
    # Whether unrelated captions score less than true ones, by two standard errors; True with too few clips to say.
    unrelated: bool = True
    dead: bool = False  # whether it gives no clip a finite score
    most: int = 0  # clips of the change with the most of them

    def topics(self, level: str) -> list[str]:
        """Return the topics of a level: ``unseen``, ``part`` or ``seen``."""
        low, high = (UNSEEN, SEEN) if self.reads_text else (UNSEEN_STD, SEEN_STD)
        ranges = {"unseen": (-np.inf, low), "part": (low, high), "seen": (high, np.inf)}
        return [name for name, value in self.levels.items() if ranges[level][0] <= value < ranges[level][1]]

    @property
    def sees_nothing(self) -> bool:
        """Whether it sees nothing of what captions ask for, so that a gain in it does not mean better motions."""
        asked = [name for name in self.levels if name in ASKED]
        return (
            self.dead
            or self.constant
            or not self.unrelated
            or (bool(asked) and set(asked) <= set(self.topics("unseen")))
        )

    @property
    def sentence(self) -> str:
        """Return the verdict in a sentence or two."""
        if self.dead:
            return f"{self.name} gives no clip a finite score: nothing can be said of what it sees"
        if self.constant:
            return f"{self.name} returns the same for every clip, changed or not, and every text: it sees nothing"
        if self.reads_text and not self.unrelated:
            return (
                f"{self.name} scores unrelated captions no lower than a clip's own, within the error of these clips: "
                "it does not tell captions apart"
            )
        unseen, part, seen = (
            ", ".join(_SAID.get(topic, topic) for topic in self.topics(level)) for level in ("unseen", "part", "seen")
        )
        cost = (
            f"{UNSEEN:.0%} to {SEEN:.0%} of the cost of an unrelated caption"
            if self.reads_text
            else f"{UNSEEN_STD:g} to {SEEN_STD:g} standard deviations of reference clips"
        )
        weakly = f"sees weakly (a fault costs {cost}): {part}"
        parts = [f"does not see: {unseen}" if unseen else "", weakly if part else ""]
        parts.append(f"sees: {seen}" if seen else "")
        text = "; ".join(part for part in parts if part)
        if not unseen and not part and seen:
            text = f"misses nothing of what could be measured; it {text}"
        if not text:
            few = f"{FEWEST} clips that can be changed in one way are needed, and there are {self.most}"
            why = few if self.most < FEWEST else f"over {self.most} clips its scores are too uncertain to say"
            return f"what {self.name} sees of a motion, and what it does not, is not known: {why}"
        if self.disturbed:
            worst = ", ".join(f"{name} ({cost:.0%})" for name, cost in self.disturbed.items())
            text += f"; falls where nothing is wrong: {worst}"
        return f"{self.name} {'' if self.reads_text else '(reads no text) '}{text}"


def verdict(audit: Audit, name: str, known: Mapping[str, float] | None = None) -> Verdict:
    """Return the verdict on a reward.

    Args:
        audit: What was measured.
        name: The reward.
        known: Levels of topics from another audit of the same weights, for those that were not measured here.
    """
    rows = {row.row.name: row for row in audit.rows}
    reads = audit.reads_text[name]
    most = max((audit.figure(row, name).n for row in audit.rows), default=0)
    if not (apart := _tells_apart(audit, name)):  # shares of what an unrelated caption costs would be noise
        unknown = most < FEWEST
        return Verdict(name, reads, name in audit.constant, {}, {}, apart or unknown, name in audit.dead, most)
    levels: dict[str, float] = {}
    for topic, tests in {**ASKED, **PHYSICS}.items():
        figures = [audit.figure(rows[test], name) for test in tests if test in rows]
        values = [
            figure.seen if reads else figure.fall for figure in figures if figure.n >= FEWEST and not _vague(figure)
        ]
        if not reads and topic in ("order of segments", "order of events"):
            continue  # without texts there is no right order
        if any(np.isfinite(values)):
            levels[topic] = float(np.nanmin(values))
    levels = {topic: levels.get(topic, (known or {}).get(topic, np.nan)) for topic in {**ASKED, **PHYSICS}}
    levels = {topic: value for topic, value in levels.items() if np.isfinite(value)}
    disturbed = {}
    for row in audit.rows:
        figure = audit.figure(row, name)
        sure = reads and figure.n >= FEWEST and not _vague(figure)
        if row.row.family == "harmless" and sure and figure.seen > DISTURBED:
            disturbed[row.row.name] = figure.seen
    return Verdict(name, reads, name in audit.constant, levels, disturbed, apart, name in audit.dead, most)


def _tells_apart(audit: Audit, name: str) -> bool:
    """Return `Verdict.unrelated`."""
    largest = max(audit.rows, key=lambda row: row.n, default=None)
    if largest is None or not audit.reads_text[name] or audit.figure(largest, name).n < _LISTED:
        return True
    return largest.columns[name].tells_apart()


def _vague(figure: Figure) -> bool:
    """Whether the interval of a figure is too wide to draw a conclusion."""
    low, high = figure.ci95
    return bool(high - low > _WIDEST)


def tables(
    audit: Audit,
    title: str,  # title of the first table
    names: Sequence[str] = (),  # rewards that get the further tables; all that read texts by default
) -> list[dict[str, Any]]:
    """Return the tables of an audit: all rewards, then for each its kinds of captions and worst actions."""
    detailed = [
        name
        for name in audit.names
        if audit.reads_text[name] and (not names or name in names) and _tells_apart(audit, name)
    ]
    further = [make(audit, name) for make in (kind_table, action_table) for name in detailed]
    return [main_table(audit, title), *(table for table in further if table["rows"])]


def main_table(audit: Audit, title: str) -> dict[str, Any]:
    """Return a row per change and a column per reward, with a last column for `Measured.alone` if it is known."""
    alone = any(np.isfinite(row.alone) for row in audit.rows)
    body: list[list[str]] = []
    by_name = {row.row.name: row for row in audit.rows}
    for name, source in SOURCES.items():
        if name in by_name:
            row = by_name[name]
            cells = [_cell(audit, row, reward) for reward in audit.names]
            told_alone = [_percent(row.alone)] if alone else []
            body.append([_family(source.row.family), name, str(row.n), *cells, *told_alone])
        elif name in audit.missing:
            body.append([_family(source.row.family), name, "0", *["n/a"] * (len(audit.names) + alone)])
    columns = ["", "change", "clips", *audit.names, *(["told alone"] if alone else [])]
    return table_of(title, columns, body, range(2, len(columns)))


def kind_table(audit: Audit, name: str) -> dict[str, Any]:
    """Return a row per change and a column per kind of caption."""
    kinds = [*KINDS, PLAIN]
    body = []
    for row in audit.rows:
        figures = audit.by_kind(row, name)
        shown = {
            kind: f"{_percent(figure.seen)} ({figure.n})" for kind, figure in figures.items() if figure.n >= _LISTED
        }
        if shown:
            body.append([row.row.name, *(shown.get(kind, "") for kind in kinds)])
    columns = ["change", *(f"names {kind}" if kind != PLAIN else kind for kind in kinds)]
    return table_of(f"{name}: seen, by what the caption names (clips)", columns, body)


def action_table(audit: Audit, name: str) -> dict[str, Any]:
    """Return a table of the actions of which a reward sees least."""
    body = []
    for action, mean, worst in worst_actions(audit, name)[:_BADLY]:
        share, count = audit.by_action(worst, name)[action]
        body.append([action, _percent(mean), worst.row.name, f"{_percent(share)} ({count})"])
    title = f"{name}: the actions of which it sees least, on average over what should be seen"
    return table_of(title, ["action", "seen", "least", "of it (clips)"], body, (1, 3))


def worst_actions(audit: Audit, name: str) -> list[tuple[str, float, Measured]]:
    """Return actions with their mean share seen and their least seen row, the worst first.

    Rows of physics, of captions and of two segments, rows that should not matter, and actions with fewer than three
    rows are left out.
    """
    by_action: dict[str, list[tuple[float, Measured]]] = {}
    for row in audit.rows:
        if row.row.family in ("harmless", "physics", "text") or row.row.name == "swapped-segments":
            continue
        for action, (share, _) in audit.by_action(row, name).items():
            if np.isfinite(share):
                by_action.setdefault(action, []).append((share, row))
    listed = [
        (action, float(np.mean([share for share, _ in seen])), min(seen, key=lambda pair: pair[0])[1])
        for action, seen in by_action.items()
        if len(seen) >= _LEAST_ROWS
    ]
    return sorted(listed, key=lambda entry: entry[1])


def document(audit: Audit, known: Mapping[str, Mapping[str, float]] | None = None) -> dict[str, Any]:
    """Return the audit as ``--json`` has it; see `verdict` for `known`, by reward."""
    verdicts = {name: verdict(audit, name, (known or {}).get(name)) for name in audit.names}
    return {
        "rewards": {
            name: {
                "sentence": reward.sentence,
                "reads_text": reward.reads_text,
                "constant": reward.constant,
                "dead": reward.dead,
                "sees_nothing": reward.sees_nothing,
                "does_not_see": reward.topics("unseen"),
                "sees_in_part": reward.topics("part"),
                "sees": reward.topics("seen"),
                "levels": dict(reward.levels),
                "disturbed_by": dict(reward.disturbed),
                "trained_against": sorted(audit.kinds.get(name, ())),
                "cannot_read": len(audit.unread.get(name, ())),
            }
            for name, reward in verdicts.items()
        },
        "rows": [_row_document(audit, row) for row in audit.rows],
        "missing": dict(audit.missing),
        "notes": list(audit.notes),
    }


def _row_document(audit: Audit, row: Measured) -> dict[str, Any]:
    scores = {}
    for name in audit.names:
        scores[name] = {
            **audit.figure(row, name).document(),
            "trained_against": row.row.name in audit.kinds.get(name, ()),
            "by_kind": {kind: figure.document() for kind, figure in audit.by_kind(row, name).items()},
            "by_action": {
                action: {"n": count, "seen": share if np.isfinite(share) else None}
                for action, (share, count) in audit.by_action(row, name).items()
            },
        }
    about = {"change": row.row.name, "family": row.row.family, "meaning": row.row.meaning, "where": row.row.where}
    told_alone = row.alone if np.isfinite(row.alone) else None
    return {**about, "n": row.n, "told_alone": told_alone, "scores": scores}


def _cell(audit: Audit, row: Measured, name: str) -> str:
    figure = audit.figure(row, name)
    if name in audit.dead:
        return "no score"
    if name in audit.constant:
        return "0"
    mark = " *" if row.row.name in audit.kinds.get(name, ()) else ""
    if not audit.reads_text[name] and (row.row.family == "text" or row.row.name == "other-wording"):
        return "reads no text"
    mark = f", {TOO_FEW}{mark}" if figure.n < FEWEST else mark
    if not audit.reads_text[name] or not _tells_apart(audit, name):
        return f"{figure.fall:+.2f} std{mark}" if np.isfinite(figure.fall) else "n/a"
    if not np.isfinite(figure.seen):
        return "n/a"
    low, high = figure.ci95
    right = f", {figure.told:.0%} right" if row.row.family == "text" else ""
    return f"{_percent(figure.seen)} ({round(100 * low)}..{round(100 * high)}){right}{mark}"


def _percent(value: float) -> str:
    # Rounded to a whole number first: a value just below zero is "0%", not "-0%".
    return f"{round(100 * value)}%" if np.isfinite(value) else "n/a"


def _family(family: str) -> str:
    return {"harmless": "should not matter", "text": "caption"}.get(family, family)
