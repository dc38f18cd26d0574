"""Which row of a table belongs to which clip, by their paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.motion.corpus._ids import plain_id

_Score = tuple[int, bool]
"""How many folders and names, counted from the end, two paths share; and whether the row is the clip's very id."""


def match_rows(names: Iterable[str], clips: Mapping[str, str]) -> dict[str, str]:
    """Return, for each clip that has a row, the row's id.

    A row belongs to the clip whose path ends most like it: ``a/walk`` to ``data/a/walk.bvh`` and not to
    ``data/b/walk.bvh``, ``walk`` to the only ``walk``. Where two files share a name and the row has another folder
    than both, it belongs to neither: it is the row of a clip that is not here.

    Args:
        names: Row ids: paths without ending, or clip ids.
        clips: Clip id to where the clip comes from.

    Raises:
        MotionkitError: A row fits several clips equally well, or a clip several rows, so that one might be given the
            caption of another.
    """
    places: dict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for key, origin in clips.items():
        path = tuple(plain_id(part) for part in Path(origin).absolute().with_suffix("").parts)
        for parts in {path, (key,)}:
            places[parts[-1]].append((key, parts))
    offers: dict[str, dict[str, _Score]] = defaultdict(dict)
    shared: list[tuple[str, dict[str, _Score]]] = []
    for name in names:
        parts = tuple(plain_id(part) for part in name.split("/") if part)
        if not parts:
            continue
        scores: dict[str, _Score] = {}
        for key, path in places.get(parts[-1], ()):
            scores[key] = max(scores.get(key, (0, False)), (_common(parts, path), parts == (key,)))
        best = max(scores.values(), default=(0, False))
        fitting = {key: score for key, score in scores.items() if score == best}
        if len(fitting) == 1:
            offers[next(iter(fitting))][name] = best
        elif fitting and best[0] == len(parts):
            shared.append((name, fitting))
    for name, fitting in shared:
        free = [key for key, score in fitting.items() if max(offers[key].values(), default=(0, False)) <= score]
        if len(free) > 1:
            raise MotionkitError(
                f"the row {name} of the table fits several clips: {', '.join(clips[key] for key in free[:3])}.",
                fix="put folders before the ids of the table.",
            )
        if free:
            offers[free[0]][name] = fitting[free[0]]
    return {key: _chosen(key, rows) for key, rows in offers.items() if rows}


def _common(row: tuple[str, ...], path: tuple[str, ...]) -> int:
    """Return how many parts two paths share at their ends."""
    count = 0
    for one, other in zip(reversed(row), reversed(path), strict=False):
        if one != other:
            break
        count += 1
    return count


def _chosen(key: str, rows: Mapping[str, _Score]) -> str:
    best = max(rows.values())
    names = [name for name, score in rows.items() if score == best]
    if len(names) > 1:
        raise MotionkitError(
            f"the clip {key} fits several rows of the table: {', '.join(names[:3])}.",
            fix="make the ids unique, or put folders before them.",
        )
    return names[0]
