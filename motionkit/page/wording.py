"""Values as text: the same digits, units and plurals in the terminal and on pages."""

from __future__ import annotations

from collections.abc import Sequence

UNKNOWN = "not known"


def count(number: int, thing: str, things: str = "") -> str:
    """Return a number with its noun: ``1 clip``, ``1,200 clips``.

    Example:
        >>> count(1, "clip"), count(1200, "clip")
        ('1 clip', '1,200 clips')
    """
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def joined(names: Sequence[str], most: int = 5) -> str:
    """Return names as a phrase: ``a, b and c``, or the first ones ``and 3 more``.

    Example:
        >>> joined(["a", "b", "c"]), joined(["a", "b", "c"], most=2)
        ('a, b and c', 'a, b and 1 more')
    """
    shown = [*names[:most], f"{len(names) - most} more"] if len(names) > most else list(names)
    return " and ".join(part for part in (", ".join(shown[:-1]), *shown[-1:]) if part)


def metres(value: float | None, unit: str = "") -> str:
    """Return a length or a speed to a centimetre."""
    return _fixed(value, 2, unit)


def degrees(value: float | None) -> str:
    """Return an angle to a tenth of a degree."""
    return UNKNOWN if value is None else f"{value:,.1f}°"


def share(value: float | None) -> str:
    """Return a fraction in percent."""
    return UNKNOWN if value is None else percent(100 * value)


def percent(value: float) -> str:
    """Return percent without decimals, with one below 1 %."""
    if value == 0 or value >= 1:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 0.1 else "under 0.1 %"


def plain(value: float | None, digits: int = 2) -> str:
    """Return a number without a unit."""
    return _fixed(value, digits, "")


def duration(seconds: float) -> str:
    """Return a duration: seconds below two minutes, then minutes, from two hours on hours.

    Example:
        >>> duration(90), duration(1800), duration(9000)
        ('90.0 s', '30.0 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def capped(value: float, uncapped: float) -> str:
    """Return a capped value, with its uncapped value if that is higher."""
    return plain(value) if uncapped <= value else f"{plain(value)} (uncapped {plain(uncapped)})"


def _fixed(value: float | None, digits: int, unit: str) -> str:
    return UNKNOWN if value is None else f"{value:,.{digits}f}{f' {unit}' if unit else ''}"
