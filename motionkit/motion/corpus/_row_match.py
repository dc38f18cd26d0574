"""Which row of a table belongs to which clip, by their paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.motion.corpus._ids import plain_id

_Parts = tuple[str, ...]
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
    rows = {name: tuple(plain_id(part) for part in name.split("/") if part) for name in names}
    asked = max(map(len, rows.values()), default=0)
    ending: dict[_Parts, dict[str, None]] = defaultdict(dict)
    for key, origin in clips.items():
        path = tuple(plain_id(part) for part in Path(origin).absolute().with_suffix("").parts)
        for size in range(1, min(len(path), asked) + 1):
            ending[path[-size:]][key] = None
        ending[(key,)][key] = None
    deepest = max(map(len, ending), default=0)
    offers: dict[str, dict[str, _Score]] = defaultdict(dict)
    shared: list[tuple[str, Mapping[str, None], _Score]] = []
    for name, parts in rows.items():
        common = next((size for size in range(min(len(parts), deepest), 0, -1) if parts[-size:] in ending), 0)
        own = len(parts) == 1 and parts[0] in clips
        fitting: Mapping[str, None] = {parts[0]: None} if own else ending[parts[-common:]] if common else {}
        if len(fitting) == 1:
            offers[next(iter(fitting))][name] = (common, own)
        elif fitting and common == len(parts):
            shared.append((name, fitting, (common, own)))
    for name, fitting, score in shared:
        free = [key for key in fitting if max(offers[key].values(), default=(0, False)) <= score]
        if len(free) > 1:
            raise MotionkitError(
                f"the row {name} of the table fits several clips: {', '.join(clips[key] for key in free[:3])}.",
                fix="put folders before the ids of the table.",
            )
        if free:
            offers[free[0]][name] = score
    return {key: _chosen(key, offered) for key, offered in offers.items() if offered}


def _chosen(key: str, rows: Mapping[str, _Score]) -> str:
    best = max(rows.values())
    names = [name for name, score in rows.items() if score == best]
    if len(names) > 1:
        raise MotionkitError(
            f"the clip {key} fits several rows of the table: {', '.join(names[:3])}.",
            fix="make the ids unique, or put folders before them.",
        )
    return names[0]
