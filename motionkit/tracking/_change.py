"""`Change`: one quantity before and after, with label, unit, digits and direction of its definition, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from motionkit.plugins import Direction, Metric, declared
from motionkit.tracking._metrics import row_definition
from motionkit.tracking._verdict import CLOSER, DOUBTED, FURTHER, came_closer, decimals, ends_of, moved, word_of

Tone = Literal["good", "bad", ""]
"""Whether a result is good or bad news; empty for neither."""

_TONES: dict[str, Tone] = {"better": "good", CLOSER: "good", "worse": "bad", FURTHER: "bad"}

_CHANGES = 3
"""Decimals of a change, even if tables of values have fewer."""


@dataclass(frozen=True)
class Change:
    """One quantity before and after, or of two things, measured on the same items."""

    name: str  # Its name in a document, such as ``reward``
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
    noise: str = ""  # Why no change of what was measured is good news; empty if nothing speaks against it
    doubt: str = ""  # Why the model that measured it says little about these data; empty if nothing is known against it
    digits: int | None = None  # Decimals that are shown; None follows the definition, or the size of the values

    @classmethod
    def read(cls, name: str, block: object) -> Change | None:
        """Return the entry of a document; None if it is none.

        Args:
            name: Its name.
            block: ``before``, ``after``, ``delta``, ``n``, and perhaps ``ci95``, ``real`` or ``data``, and others.
        """
        if not isinstance(block, Mapping):
            return None
        before, after, delta = (_number(block.get(key)) for key in ("before", "after", "delta"))
        n = block.get("n")
        count = n if isinstance(n, int) and n >= 0 else 0
        interval = ends_of(block.get("ci95"), count)
        if not all(map(math.isfinite, (before, after, delta))):
            interval, count = None, 0
        real, chance = (_number(block.get(key)) for key in ("data" if "data" in block else "real", "chance"))
        doubt = block.get("doubt")
        return cls(
            name, metric_of(name), before, after, delta, interval, count,
            real=real if math.isfinite(real) else None,
            trained_on=block.get("trained_on") is True,
            chance=chance if math.isfinite(chance) else None,
            doubt=doubt if isinstance(doubt, str) else "",
        )  # fmt: skip

    @property
    def unit(self) -> str:
        """Its unit as people write it; empty for a pure number."""
        return self.metric.shown_unit

    @property
    def title(self) -> str:
        """Its name for people, without the unit."""
        return self.metric.title(self.name) if self.metric.label else self.name

    @property
    def label(self) -> str:
        """Its name for people, with its unit."""
        named = f"{self.title} ({self.unit})" if self.unit else self.title
        named += "" if self.chance is None else f", chance {self.chance:.2f}"
        return f"{named}, trained on" if self.trained_on else named

    @property
    def short(self) -> str:
        """Its name in a list: the part before the comma, without what it is a share of."""
        return self.title.partition(",")[0]

    @property
    def direction(self) -> Direction:
        """Which way is better; for a value that is best at 1, the way towards 1."""
        if self.metric.better != "one":
            return self.metric.better
        # The higher value is nearer to 1 if the middle of both is below 1.
        return "up" if self.before + self.after < 2 else "down"

    @property
    def percent(self) -> float | None:
        """Change in percent of the value before; None if that is zero."""
        return 100 * self.delta / abs(self.before) if self.before else None

    @property
    def changed(self) -> str:
        """The change in percent; as it is where a share says nothing."""
        share = None if self.metric.offset else self.percent
        return f"{share:+.0f} %" if share is not None else self.text(self.delta, sign=True)

    @property
    def _sign(self) -> int | None:
        """1 if it rose, -1 if it fell, 0 if neither is certain; None if too little was measured."""
        share = not self.metric.offset and declared(self.name) is None
        return moved(self.delta, self.ci95, self.n, digits=self._places, whole=self.before if share else None)

    @property
    def verdict(self) -> str:
        """``better``, ``worse``, ``no change``, ``too few``, ``not measured``, or how it moved if nothing is better.

        What is best where reference motions have it: ``closer to reference``, ``further from reference``. Of motions
        that are noise no change is called good: it is ``noise``. What is in doubt has the verdict ``n/a``.
        """
        sign = self._sign
        if self.doubt and self.n:
            return DOUBTED
        closer = came_closer(self.before, self.after, self.real) if self.metric.matched else None
        if sign and closer is not None:
            return FURTHER if not closer else "noise" if self.noise else CLOSER
        word = word_of(sign, self.direction, n=self.n, words=self.metric.words)
        return "noise" if self.noise and sign and word != "worse" else word

    @property
    def tone(self) -> Tone:
        """Whether the verdict is good or bad news."""
        return _TONES.get(self.verdict, "")

    @property
    def _places(self) -> int:
        """Decimals that are shown."""
        if self.digits is not None:
            return self.digits
        places = decimals(self.before, self.after, *([self.real] if self.real is not None else ()))
        return places if self.metric.digits is None else min(places, max(self.metric.digits, _CHANGES))

    def text(self, value: float, *, sign: bool = False) -> str:
        """Return a value with the digits of this row, so that its columns align."""
        places = self._places
        # Adding zero turns a rounded -0.0 into 0.0.
        return f"{round(value, places) + 0.0:{'+' if sign else ''}.{places}f}" if math.isfinite(value) else "-"

    @property
    def interval(self) -> str:
        """The interval as text; empty without one."""
        return " to ".join(self.text(end, sign=True) for end in self.ci95) if self.ci95 else ""


def entry_of(before: float, after: float, n: int) -> dict[str, Any]:
    """Return the entry of a quantity that was measured on `n` items before and after, for a document."""
    return {"before": before, "after": after, "delta": after - before, "n": n}


def label_of(name: str) -> str:
    """Return the name of a quantity for people, without its unit."""
    metric = metric_of(name)
    return metric.title(name) if metric.label else name


def metric_of(name: str) -> Metric:
    """Return the definition of a quantity of a document; a bare one if nobody defines it."""
    return row_definition(name) or Metric(name, "1", "none", f"{name}.")


def table_of(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[int] | None = None
) -> dict[str, Any]:
    """Return a table as documents, the console and pages have it.

    Args:
        title: Its title; empty for none.
        columns: Heads.
        rows: A cell per column.
        numbers: Columns that are numbers, which are aligned to the right; by default all but the first.
    """
    places = range(1, len(columns)) if numbers is None else numbers
    return {"title": title, "columns": list(columns), "rows": list(rows), "numbers": list(places)}


def metric_table(
    title: str, metrics: Sequence[Metric], rows: Iterable[tuple[str, Sequence[float | None]]]
) -> dict[str, Any]:
    """Return a table with a column per metric, with its unit and digits.

    Args:
        title: Its title.
        metrics: The metrics.
        rows: What each row is of, and a value per metric; None if it has none.
    """
    cells = [
        (label, *("" if value is None else metric.text(value) for metric, value in zip(metrics, values, strict=True)))
        for label, values in rows
    ]
    return table_of(title, ["", *(metric.heading for metric in metrics)], cells)


def _number(value: object) -> float:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if good else math.nan  # type: ignore[arg-type]
