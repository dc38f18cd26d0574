"""Look up the definition of a metric: motionkit's own, or what a plugin defines in its `Component`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from motionkit.errors import MotionkitError
from motionkit.plugins import FREE, Metric, declared
from motionkit.tracking._definitions import DEFINED

METRICS: dict[str, Metric] = {metric.name: metric for metric in DEFINED}
"""All definitions by name, in the order of listings."""


@lru_cache
def _patterns() -> tuple[tuple[re.Pattern[str], Metric], ...]:
    patterns = [(metric.pattern, metric) for metric in METRICS.values() if "<" in metric.name]
    # Fewest free parts first: reward/<name>/mean before reward/<name>/<part>.
    return tuple(sorted(patterns, key=lambda item: item[1].name.count("<")))


def definition(name: str) -> Metric:
    """Return the definition of a logged name: motionkit's, or that of a plugin that was looked up in this process.

    Raises:
        KeyError: The name is not defined. Add it to `motionkit.tracking._definitions`; a plugin names it in
            ``Component(metrics=...)``, or begins it with ``my/``.

    Example:
        >>> definition("reward/physics/mean").unit
        '1'
    """
    if name in METRICS:
        return METRICS[name]
    known = declared(name)
    if known is not None and known.name == name:
        return known
    result = next((metric for pattern, metric in _patterns() if pattern.fullmatch(name)), known)
    if result is not None:
        return result
    raise KeyError(f"metric {name!r} is not defined in motionkit.tracking")


def require_defined(names: Iterable[str]) -> None:
    """Refuse names that are not defined, before anything of them is written.

    Raises:
        MotionkitError: There is such a name (exit code 1); says how a plugin defines it.
    """
    for name in names:
        try:
            definition(name)
        except KeyError:
            raise MotionkitError(
                f"metric {name!r} is not defined.",
                why="each metric has a unit, a direction and a meaning; pages and verdicts use them.",
                fix=f"log it as '{FREE}{name}', or define it in the plugin: Component(metrics=(Metric({name!r}, "
                "unit='1', better='down', meaning='What it measures.'),))",
                code=1,
            ) from None


def titled(*names: str) -> dict[str, str]:
    """Return metrics by what each is called, as charts and tables name them."""
    return {definition(name).title(name): name for name in names}
