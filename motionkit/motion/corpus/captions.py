"""Captions of clips: lines of HumanML3D's texts/, and tables (CSV) that may also give times, splits and groups."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath

from motionkit.documents import CsvTable, read_text
from motionkit.errors import MotionkitError
from motionkit.motion.corpus.ids import SPLIT_NAMES, plain_id

LONGEST = 10_000
"""Characters of a caption. HumanML3D's longest has some 500; tagging takes seconds for every megabyte."""

_LIMIT = 1 << 20
"""Bytes of a texts file; those of HumanML3D have some 500."""

_TABLE_LIMIT = 64 << 20
"""Bytes of a table; one of HumanML3D's 87,000 captions has 9 MB. A row of 9 bytes takes about 500 bytes of memory."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters except tab and line ends, which terminals act on, and surrogates, which no file can hold."""

_NO_TOKEN = re.compile(r"[#\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters and what would break a line of a texts file apart."""

_USUAL = {
    "id": ("id", "clip", "clip_id", "motion_id", "name", "file", "filename"),
    "caption": ("caption", "captions", "text", "description"),
    "split": ("split",),
    "group": ("group",),
    "start": ("start", "start_t", "start_time"),
    "end": ("end", "end_t", "end_time"),
}
_NEARLY_ALL = 0.9
"""Share of a column's cells without words from which the column is none of captions."""

_ID = re.compile(r"[!-~]*[\d_/\\][!-~]*")
"""One token with a digit, an underscore or a slash, as ids, numbers and files have; words have none."""

_ENDINGS = {".bvh", ".json", ".npy", ".npz", ".fbx", ".c3d", ".amc", ".txt", ".glb", ".gltf", ".vrm", ".vrma"}
"""Suffixes that are removed from an id: those of files that are read, and of files that a table may be made for."""

_LOOKED_AT = 200
"""Rows that are read to find the columns with texts."""

_Parts = tuple[str, ...]
_Score = tuple[int, bool]
"""How many parts, counted from the end, two paths share; and whether the row is the clip's id."""


@dataclass(frozen=True)
class Caption:
    """One caption of a clip, a line ``caption#word/POS word/POS#start#end`` of a texts file.

    Captions come from foreign files, so control characters become blanks here, once for all writers.

    Example:
        >>> Caption.parse("a man waves#a/DET man/NOUN wave/VERB#0.0#0.0").tokens
        ('a/DET', 'man/NOUN', 'wave/VERB')
    """

    text: str  # The caption as written, control characters excepted
    tokens: tuple[str, ...] = ()  # ``word/POS``, lemmatised, as the evaluator reads them; without line ends and ``#``
    start: float = 0.0  # Seconds into the clip where the caption begins; 0 with `end` 0 means the whole clip
    end: float = 0.0  # Seconds where it ends

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST:
            raise MotionkitError(
                f"a caption has {len(self.text)} characters: {self.text[:40]!r}...", why=f"at most {LONGEST} are read."
            )
        if _CONTROL.search(self.text):
            object.__setattr__(self, "text", _CONTROL.sub(" ", self.text))
        if self.tokens and _NO_TOKEN.search(tokens := " ".join(self.tokens)):
            object.__setattr__(self, "tokens", tuple(clean_caption(tokens).split()))

    @property
    def whole(self) -> bool:
        """Whether the caption describes the whole clip."""
        return self.start == 0.0 and self.end == 0.0

    def problem(self, seconds: float) -> str:
        """Return what is wrong with its times in a clip of so many seconds; empty for nothing."""
        if self.whole:
            return ""
        if not (math.isfinite(self.start) and math.isfinite(self.end)) or self.end <= self.start:
            return "which is not a stretch of time"
        return "" if self.start < seconds and self.end > 0.0 else f"outside of the clip's {seconds:.2f} s"

    def line(self) -> str:
        """Return the line of a texts file, without a line break."""
        return f"{self.text}#{' '.join(self.tokens)}#{self.start}#{self.end}"

    @classmethod
    def parse(cls, line: str) -> Caption:
        """Read one line; ``nan`` times count as 0, as in every peer."""
        fields = line.strip().split("#")
        if len(fields) < 4 or not fields[0].strip():
            raise MotionkitError(
                f"not a caption line: {line.strip()[:80]!r}.", why="expected caption#tokens#start#end."
            )
        if any(field.strip() for field in fields[4:]):
            raise MotionkitError(
                f"a caption line has {len(fields)} parts: {line.strip()[:80]!r}.",
                why="expected caption#tokens#start#end.",
            )
        try:
            start, end = (0.0 if math.isnan(value) else value for value in map(float, fields[2:4]))
        except ValueError as error:
            raise MotionkitError(f"a caption's times are not numbers: {line.strip()[:80]!r}.") from error
        return cls(fields[0], tuple(fields[1].split()), start, end)


def read_captions(path: Path) -> tuple[Caption, ...]:
    """Read a texts file; blank lines are skipped."""
    captions = []
    for number, line in enumerate(read_text(path, limit=_LIMIT).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            captions.append(Caption.parse(line))
        except MotionkitError as error:
            raise MotionkitError(f"{path}, line {number}: {error.message}", why=error.why) from error
    return tuple(captions)


def captions_within(captions: Iterable[Caption], start: float, end: float) -> tuple[Caption, ...]:
    """Return the captions of a part of a clip: untimed ones as they are, timed ones shifted and cut to the part.

    Timed captions are dropped if less than half of them is in the part and they are less than half of it.

    Args:
        captions: The clip's.
        start: Seconds into the clip at which the part begins.
        end: Seconds at which it ends.
    """
    kept = []
    for caption in captions:
        if caption.whole:
            kept.append(caption)
            continue
        # Rounded to the nanosecond: 1.2 - 1.0 would otherwise be written as 0.19999999999999996.
        first, last = round(max(caption.start - start, 0.0), 9), round(min(caption.end, end) - start, 9)
        if first < last and 2 * (last - first) >= min(caption.end - caption.start, end - start):
            kept.append(replace(caption, start=first, end=last))
    return tuple(kept)


def clean_caption(text: str) -> str:
    """Make a text fit for a caption line: one line, single spaces, no ``#``, no control characters."""
    return " ".join(_CONTROL.sub(" ", text).replace("#", " ").split())


def caption_lines(captions: Iterable[Caption]) -> str:
    """Return the contents of a texts file."""
    return "".join(f"{caption.line()}\n" for caption in captions)


@dataclass(frozen=True, slots=True)
class CaptionRow:
    """A clip of a table: captions (without repeats), split and group, empty if there are none, and its times."""

    captions: tuple[str, ...]
    split: str = ""
    group: str = ""
    start: float = 0.0  # Seconds of the recording at which the clip begins
    end: float = 0.0  # Seconds at which it ends; 0 for the recording's own end
    place: str = field(default="", repr=False, compare=False)  # File and line, for messages

    @property
    def whole(self) -> bool:
        """Whether the clip is the whole recording."""
        return self.start == 0.0 and self.end == 0.0


@dataclass(frozen=True)
class CaptionTable:
    """The clips of each recording by its id: the whole recording, then stretches of it in the order of their times."""

    rows: dict[str, tuple[CaptionRow, ...]]  # Id, as a path without ending (``a/walk``), to the clips of the recording
    columns: dict[str, str]  # Role (id, caption, split, group, start, end) to the column or columns used
    note: str = ""  # How the file was read where it is not UTF-8 with commas

    @property
    def timed(self) -> bool:
        """Whether a row is a stretch of a recording."""
        return any(not row.whole for rows in self.rows.values() for row in rows)

    def match(self, clips: Mapping[str, str]) -> dict[str, str]:
        """Return the id of the rows that belong to each clip; clips without a row are absent. See `match_rows`."""
        return match_rows(self.rows, clips)

    def deal(self, clips: Mapping[str, str]) -> tuple[dict[str, tuple[CaptionRow, ...]], list[str]]:
        """Return the rows of each clip that has some, and the ids of the rows that no clip has, sorted."""
        matched = self.match(clips)
        return {clip: self.rows[name] for clip, name in matched.items()}, sorted(self.rows.keys() - matched.values())


@dataclass(slots=True)
class _Row:
    """The rows of one clip while the table is read; captions are keys, in order and without repeats."""

    place: str
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
    """Read a table of captions; several rows of one clip add their captions.

    Columns that are not named are found by their usual names (``clip``, ``description``, ``split``, ``group``, ...).
    An id may be a path with a file ending (see `CaptionTable.match`). With a column ``start`` or ``end``, in seconds,
    a row may be a stretch of a recording; stretches may overlap. An empty cell is the recording's own start or end.

    Example:
        >>> import csv
        >>> with Path("captions.csv").open("w", newline="") as file:
        ...     csv.writer(file).writerows([("clip", "description", "split"), ("walk.bvh", "a person walks", "train")])
        >>> read_caption_table(Path("captions.csv")).rows["walk"]
        (CaptionRow(captions=('a person walks',), split='train', group='', start=0.0, end=0.0),)
    """
    table = CsvTable(path, limit=_TABLE_LIMIT)
    header = table.columns
    ids = _column(header, path, "id", id_column, required=True)
    texts = list(caption_columns) or [_column(header, path, "caption", "", required=True)]
    for name in caption_columns:
        _column(header, path, "caption", name, required=True)
    split = _column(header, path, "split", split_column, required=bool(split_column))
    group = _column(header, path, "group", group_column, required=bool(group_column))
    start = _column(header, path, "start", "", required=False)
    end = _column(header, path, "end", "", required=False)
    found: dict[tuple[str, float, float], _Row] = {}
    cells = {column: [0, 0] for column in texts}  # of each caption column: cells with words, and without
    for number, record in table.rows(ids, *texts):
        name, place = record[ids].strip().replace("\\", "/"), f"{path}, line {number}"
        if not name:
            raise MotionkitError(f"{place} has no id.", why=f"its column {ids!r} is empty.")
        times = _times(record, start, end, place)
        row = found.setdefault((_without_ending(name), *times), _Row(place))
        captions = [clean_caption(record[column]) for column in texts]
        for column, text in zip(texts, captions, strict=True):
            cells[column][bool(text) and _wordless(text)] += bool(text)
        row.captions.update(dict.fromkeys(text for text in captions if text))
        value = record[split].strip().lower() if split else ""
        if value and value not in SPLIT_NAMES:
            raise MotionkitError(
                f"{place}: {value!r} is not a split.", why="splits are train, val (dev, validation) and test."
            )
        row.split = _same(row.split, SPLIT_NAMES.get(value, ""), "split", place, name)
        row.group = _same(row.group, record[group].strip() if group else "", "group", place, name)
    if not found:
        raise MotionkitError(f"{path} has no rows.", why="the first line names the columns, the others are clips.")
    for column, (words, none) in cells.items():
        if none and none >= _NEARLY_ALL * (words + none):
            raise _no_captions(table, column, {ids, split, group, start, end})
    rows: dict[str, list[CaptionRow]] = {}
    for (key, first, last), row in found.items():
        clip = CaptionRow(tuple(row.captions), row.split, row.group, first, last, row.place)
        rows.setdefault(key, []).append(clip)
    columns = {
        "id": ids, "caption": ", ".join(texts), "split": split, "group": group, "start": start, "end": end
    }  # fmt: skip
    return CaptionTable(
        {key: tuple(sorted(clips, key=_by_time)) for key, clips in rows.items()},
        {role: name for role, name in columns.items() if name},
        table.note,
    )


def _wordless(text: str) -> bool:
    """Return whether a cell, not empty, says nothing about a motion: a number, a time, an id or a file."""
    return not any(map(str.isalpha, text)) or _ID.fullmatch(text) is not None or _without_ending(text) != text


def _no_captions(table: CsvTable, column: str, others: Collection[str]) -> MotionkitError:
    """Return the error for a caption column that holds numbers or ids, with the columns that hold texts."""
    texts = {name: 0 for name in table.columns if name != column and name not in others}
    rows, some = 0, ""
    for _, record in islice(table.rows(column), _LOOKED_AT):
        rows += 1
        some = some or record[column].strip()
        for name in texts:
            cell = clean_caption(record[name])
            texts[name] += " " in cell and not _wordless(cell)
    names = [name for name, number in texts.items() if 2 * number >= rows]
    one = "one of these is meant" if len(names) > 1 else "this is meant"
    return MotionkitError(
        f"{table.path}: the caption column {column!r} holds numbers or ids, such as {some[:40]!r}.",
        why="a caption says in words what the person does; a policy cannot learn from these.",
        fix=(
            f"if {one}: {', '.join(f'--caption-column {name}' for name in names[:5])}."
            if names
            else "add a column with texts, or write labels as words (walk_left: walk to the left)."
        ),
    )


def _by_time(row: CaptionRow) -> tuple[bool, float, float]:
    return not row.whole, row.start, row.end or math.inf


def _times(record: Mapping[str, str], start: str, end: str, place: str) -> tuple[float, float]:
    """Return the seconds at which a row's clip begins and ends; 0 and 0, as in texts/, is the whole recording."""
    first, last = (_seconds(record[name], name, place) if name else None for name in (start, end))
    if last is not None and (first or 0.0) >= last and (first or last):
        raise MotionkitError(f"{place}: {start or 'start'} {first or 0:g} is not before {end} {last:g}.")
    return first or 0.0, last or 0.0


def _seconds(cell: str, column: str, place: str) -> float | None:
    """Return a time, whose decimal mark may be a comma; None for an empty cell, for which pandas may write nan."""
    text = cell.strip()
    if text.lower() in ("", "nan"):
        return None
    try:
        value = float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise MotionkitError(
            f"{place}: {column} is {text[:40]!r}.", why="it is seconds from the recording's beginning, such as 12.5."
        )
    return value


def _same(before: str, value: str, what: str, place: str, name: str) -> str:
    """Return the value of the rows of a clip, of which some may have none; refuse two."""
    if before and value and before != value:
        raise MotionkitError(f"{place}: {name} has the {what} {value}, and {before} in an earlier line.")
    return value or before


def _without_ending(name: str) -> str:
    """Return an id without ``./`` and file ending; a dot within a name that is not an ending stays."""
    path = PurePosixPath(name)
    return str(path.with_suffix("")) if path.suffix.lower() in _ENDINGS else str(path)


def _column(header: Sequence[str], path: Path, role: str, name: str, *, required: bool) -> str:
    """Return the column for a role, or an empty string if there is none and none is required."""
    if name and name in header:
        return name
    if not name:
        usual_name = next((usual for usual in _USUAL[role] if usual in header), "")
        if usual_name or not required:
            return usual_name
    missing = f"no column {name!r}" if name else f"no column for the {role}"
    raise MotionkitError(
        f"{path} has {missing}.",
        why=f"its columns are {', '.join(header)}." if header else "it is empty.",
        fix=f"name it with --{role}-column.",
    )


def match_rows(names: Iterable[str], clips: Mapping[str, str]) -> dict[str, str]:
    """Return, for each clip that has a row, the row's id.

    A row belongs to the clip that shares the longest path suffix with it: ``a/walk`` to ``data/a/walk.bvh`` and not to
    ``data/b/walk.bvh``, ``walk`` to the only ``walk``. If two files share a name and the row has another folder than
    both, it belongs to neither: its clip is absent.
    """
    rows = {name: tuple(plain_id(part) for part in name.split("/") if part) for name in names}
    longest = max(map(len, rows.values()), default=0)
    ending: dict[_Parts, dict[str, None]] = defaultdict(dict)
    for key, origin in clips.items():
        path = tuple(plain_id(part) for part in Path(origin).absolute().with_suffix("").parts)
        for size in range(1, min(len(path), longest) + 1):
            ending[path[-size:]][key] = None
        ending[(key,)][key] = None
    deepest = max(map(len, ending), default=0)
    offers: dict[str, dict[str, _Score]] = defaultdict(dict)
    shared: list[tuple[str, Mapping[str, None], _Score]] = []
    for name, parts in rows.items():
        common = next((size for size in range(min(len(parts), deepest), 0, -1) if parts[-size:] in ending), 0)
        is_id = len(parts) == 1 and parts[0] in clips
        fitting: Mapping[str, None] = {parts[0]: None} if is_id else ending[parts[-common:]] if common else {}
        if len(fitting) == 1:
            offers[next(iter(fitting))][name] = (common, is_id)
        elif fitting and common == len(parts):
            shared.append((name, fitting, (common, is_id)))
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
