"""Captions, splits and groups of clips, from a CSV file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePosixPath

from motionkit.documents import read_csv
from motionkit.errors import MotionkitError
from motionkit.motion.corpus._captions import clean_caption
from motionkit.motion.corpus._ids import SPLIT_NAMES, plain_id


@dataclass(frozen=True, slots=True)
class CaptionRow:
    """Captions (without repeats), split and group of one clip; empty where the table has none."""

    captions: tuple[str, ...]
    split: str = ""
    group: str = ""


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


_USUAL = {
    "id": ("id", "clip", "clip_id", "motion_id", "name", "file", "filename"),
    "caption": ("caption", "captions", "text", "description"),
    "split": ("split",),
    "group": ("group",),
}
_ENDINGS = {".bvh", ".json", ".npy", ".npz", ".fbx", ".c3d", ".amc", ".txt", ".glb"}
"""What is cut off an id: endings that are read here, and those of files that a table may have been made for."""


_LIMIT = 64 << 20
"""Bytes of a table; one of HumanML3D's 87,000 captions has 9 MB. A row of 9 bytes takes some 500 of memory."""


@dataclass(frozen=True)
class CaptionTable:
    """Rows by clip id.

    Attributes:
        rows: Id, as a path without ending (``a/walk``), to the row of the clip.
        columns: Role (id, caption, split, group) to the column or columns used.
    """

    rows: dict[str, CaptionRow]
    columns: dict[str, str]

    def match(self, clips: Mapping[str, str]) -> dict[str, str]:
        """Return the id of the row that belongs to each clip; clips without a row are absent. See `match_rows`.

        Args:
            clips: Clip id to where the clip comes from.
        """
        return match_rows(self.rows, clips)

    def deal(self, clips: Mapping[str, str]) -> tuple[dict[str, CaptionRow], list[str]]:
        """Return the row of each clip that has one, and the ids of the rows that no clip has, sorted.

        Args:
            clips: As in `match`.
        """
        matched = self.match(clips)
        return {clip: self.rows[name] for clip, name in matched.items()}, sorted(self.rows.keys() - matched.values())


@dataclass(slots=True)
class _Row:
    """What the rows of one id say, while the table is read; captions are the keys, in order and without repeats."""

    captions: dict[str, None] = field(default_factory=dict)
    split: str = ""
    group: str = ""


def read_caption_table(
    path: Path,
    *,
    caption_columns: Sequence[str] = (),
    id_column: str = "",
    split_column: str = "",
    group_column: str = "",
) -> CaptionTable:
    """Read a table of captions; several rows of one id add their captions.

    Columns that are not named are found by their usual names (``clip``, ``description``, ``split``, ``group``, ...).
    An id may be a path with a file ending (see `CaptionTable.match`).

    Raises:
        MotionkitError: The file cannot be read, a column is missing, or a split is none of train, val and test.

    Example:
        >>> import csv
        >>> with Path("captions.csv").open("w", newline="") as file:
        ...     csv.writer(file).writerows([("clip", "description", "split"), ("walk.bvh", "a person walks", "train")])
        >>> read_caption_table(Path("captions.csv")).rows["walk"]
        CaptionRow(captions=('a person walks',), split='train', group='')
    """
    records = read_csv(path, limit=_LIMIT)
    if (first := next(records, None)) is None:
        raise MotionkitError(f"{path} has no rows.", why="the first line names the columns, the others are clips.")
    header = list(first)
    ids = _column(header, path, "id", id_column, required=True)
    texts = list(caption_columns) or [_column(header, path, "caption", "", required=True)]
    for name in caption_columns:
        _column(header, path, "caption", name, required=True)
    split = _column(header, path, "split", split_column, required=bool(split_column))
    group = _column(header, path, "group", group_column, required=bool(group_column))
    found: dict[str, _Row] = {}
    for number, record in enumerate(chain([first], records), start=2):
        name = record[ids].strip().replace("\\", "/")
        if not name:
            continue
        row = found.setdefault(_without_ending(name), _Row())
        captions = [clean_caption(record[column]) for column in texts]
        row.captions.update(dict.fromkeys(text for text in captions if text))
        value = record[split].strip().lower() if split else ""
        if value and value not in SPLIT_NAMES:
            raise MotionkitError(
                f"{path}, line {number}: {value!r} is no split.",
                why="splits are train, val (dev, validation) and test.",
            )
        row.split = SPLIT_NAMES.get(value, row.split)
        row.group = (record[group].strip() if group else "") or row.group
    rows = {key: CaptionRow(tuple(row.captions), row.split, row.group) for key, row in found.items()}
    columns = {"id": ids, "caption": ", ".join(texts), "split": split, "group": group}
    return CaptionTable(rows, {role: name for role, name in columns.items() if name})


def _without_ending(name: str) -> str:
    """Return an id without ``./`` and file ending; a dot within a name that is no ending stays."""
    path = PurePosixPath(name)
    return str(path.with_suffix("")) if path.suffix.lower() in _ENDINGS else str(path)


def _column(header: Sequence[str], path: Path, role: str, name: str, *, required: bool) -> str:
    """Return the column for a role, or an empty string when there is none and none is needed."""
    if name and name in header:
        return name
    if not name:
        found = next((usual for usual in _USUAL[role] if usual in header), "")
        if found or not required:
            return found
    wanted = f"no column {name!r}" if name else f"no column for the {role}"
    raise MotionkitError(
        f"{path} has {wanted}.", why=f"its columns are {', '.join(header)}.", fix=f"name it with --{role}-column."
    )
