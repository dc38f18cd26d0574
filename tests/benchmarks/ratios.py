"""Times of one session, told as ratios: seconds say more about the machine than about the code."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Ratios:
    """Groups of measurements; the first row of a group is what the others are compared with."""

    groups: dict[str, dict[str, float]] = field(default_factory=dict)
    told: dict[str, list[str]] = field(default_factory=dict)

    def add(self, group: str, row: str, seconds: float) -> None:
        """Note the time of a row."""
        self.groups.setdefault(group, {})[row] = seconds

    def tell(self, group: str, line: str) -> None:
        """Note a line of a table that holds other figures than times."""
        self.told.setdefault(group, []).append(line)

    def of(self, group: str, row: str) -> float:
        """Return how many times faster `row` is than the first row of its group."""
        rows = self.groups[group]
        return next(iter(rows.values())) / rows[row]

    def lines(self) -> list[str]:
        """Return the tables as text."""
        out = []
        for group, rows in self.groups.items():
            out += ["", group]
            out += [f"  {row:<44} {self.of(group, row):6.2f}x" for row in rows]
        for group, lines in self.told.items():
            out += ["", group, *(f"  {line}" for line in lines)]
        return out
