"""Untrusted text documents: JSON, TOML, YAML and CSV, with checks of size, depth and types.

The size is checked before a file is opened, text that is neither UTF-8 nor UTF-16 with a byte order mark, or nested too
deep, is refused, and every fault is a `MotionkitError` that names the file. Imports neither torch nor numpy.

In this order: text of any kind; JSON, also with comments and trailing commas, and as a pydantic model; TOML; YAML, of
which only plain values are read, and aliases with a limit on their expansion; CSV, row by row; and the checks of a
parsed document (`check_values`).
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, time
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from motionkit.errors import MotionkitError

if TYPE_CHECKING:
    import yaml
    from pydantic import BaseModel

__all__ = [
    "CsvTable",
    "as_model",
    "open_file",
    "parse_json",
    "parse_toml",
    "parse_yaml",
    "read_json",
    "read_jsonl",
    "read_model",
    "read_text",
    "read_toml",
    "read_yaml",
]

T = TypeVar("T")
Model = TypeVar("Model", bound="BaseModel")

DEPTH = 100
"""Most levels of tables and lists; recursive Python code fails at about 300."""

LIMIT = 16 << 20
"""Default limit of a document in bytes."""

TOML_LIMIT = 1 << 20
"""Largest TOML file in bytes; the parser is pure Python."""

YAML_LIMIT = 256 << 10
"""Largest YAML file in bytes; the parser is pure Python and takes about 3 s at most."""

CSV_LIMIT = 256 << 20
"""Largest CSV file in bytes; rows are read one by one."""

_MANY = 5_000_000
"""Most tables and lists in one JSON document; an empty one, two characters long, takes 64 bytes of memory."""

_LINE = 1 << 20
"""Most characters of a line of a file with one JSON object per line."""

# A string, even an unterminated one, is matched as a whole, so that "//" inside it is not a comment; the possessive
# repeats keep the search linear in the length of the text.
_PIECE = re.compile(r'"(?:\\.|[^"\\])*+"?|//[^\r\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_COMMA = re.compile(r'"(?:\\.|[^"\\])*+"?|,(?=\s*+[}\]])', re.DOTALL)
_VISIBLE = re.compile(r"[^\s]")

_STATEMENT = re.compile(r"[=,{}\[\]\n]")
_DOT = re.compile(r"\.[ \t]*[\w\"'-]")
"""Where a statement of TOML may begin, and a dot in a key."""

_VALUES = 100_000
"""Most values of a YAML document with all aliases expanded."""

_SCALAR = 64
"""Most characters of a number in YAML; numbers in base 60 (YAML 1.1) take time quadratic in their length."""

_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$")
"""A number with an exponent, which YAML 1.2 and the other parsers here read as one."""

_COLUMNS = 1000
"""Most columns of a CSV file."""

_SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
"""What may separate the columns of a CSV file, in words."""

_QUOTED = re.compile(r'"[^"]*"?')
"""A name in quotes, which may contain a separator."""

_NUL = "NUL, as UTF-16 without a byte order mark and binary files do"

_MARK = 2
"""Bytes of UTF-16's byte order mark."""

_ROW = 4 << 20
"""Most characters of a row of a CSV file."""

_LARGEST = 2**64
"""Whole numbers from here on are refused."""

_WORDS = {dict: "a table (key: value)", list: "a list", str: "text", bool: "true or false", int: "a number"}
_WORDS |= {float: "a number", type(None): "nothing"}
"""Types of values in words, for errors."""


def read_text(path: str | Path, *, limit: int = LIMIT, mark: bool = False) -> str:
    """Read a text file: UTF-8, or UTF-16 with a byte order mark, as Windows PowerShell writes it.

    Args:
        path: The file; devices and pipes are refused.
        limit: Largest file in bytes.
        mark: Whether a byte order mark stays in the text, which is then UTF-8.
    """
    path = Path(path)
    try:
        with open_file(path, limit) as file:
            data = file.read(min(limit, path.stat().st_size) + 1)  # Python allocates the requested size
    except OSError as error:
        raise unreadable(path, error) from error
    if len(data) > limit:
        raise _too_large(path, len(data), limit)
    try:
        text = data.decode("utf-8" if mark else _encoding(data))
    except UnicodeDecodeError as error:
        raise not_text(path, f"byte {error.start} is not part of such a text.") from error
    if "\0" in text[:2]:
        raise not_text(path, f"it begins with {_NUL}.")
    return text


def open_file(path: str | Path, limit: int | None = None) -> io.BufferedReader | io.BytesIO:
    """Open an untrusted plain file for reading bytes.

    Args:
        path: The file; pipes and devices, which may block for ever, are refused before they are opened.
        limit: Largest file in bytes.
    """
    path = Path(path)
    state = path.stat()
    if stat.S_ISDIR(state.st_mode):
        raise MotionkitError(f"{path} is a folder, a file was expected.", fix="give the file itself.")
    if not stat.S_ISREG(state.st_mode):
        raise MotionkitError(
            f"{path} is not a plain file.", why="a pipe or device may never end.", fix="copy it first."
        )
    if limit is not None and state.st_size > limit:
        raise _too_large(path, state.st_size, limit)
    # Some files of /proc report 0 bytes, and reading them blocks for ever.
    return path.open("rb") if state.st_size else io.BytesIO()


def unreadable(path: Path, error: OSError) -> MotionkitError:
    """Return the error for a file that cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return MotionkitError(f"{path} does not exist.", fix="check the path.")
    return MotionkitError(f"{path} cannot be read.", why=error.strerror or str(error))


def _encoding(start: bytes) -> str:
    """Return the encoding of a text that begins with these bytes."""
    return "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"


def not_text(path: Path, why: str) -> MotionkitError:
    """Return the error for a file that is not UTF-8."""
    return MotionkitError(f"{path} is not a text file (UTF-8).", why=why, fix="save it as UTF-8 if it is one.")


def _too_large(path: Path, size: int, limit: int) -> MotionkitError:
    return MotionkitError(
        f"{path} is too large: {size / 1e6:.0f} MB; at most {limit / 1e6:.0f} MB are read.",
        why="parsed, it would take many times that in memory.",
    )


def value_at(config: object, *keys: str) -> object:
    """Return the value at a path of keys of nested mappings; None if one is missing on the way.

    Example:
        >>> value_at({"train": {"rate": 0.1}}, "train", "rate"), value_at({"train": 3}, "train", "rate")
        (0.1, None)
    """
    value = config
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def read_json(
    path: str | Path,
    kind: type[T],
    *,
    limit: int = LIMIT,
    surrogates: bool = False,
    bulk: bool = False,
    unique: bool = False,
    fix: str = "",
) -> T:
    """Read a JSON file that may have comments and trailing commas.

    Args:
        path: The file, UTF-8 (a byte order mark is fine).
        kind: Required type of the document: ``dict``, ``list``, or ``object`` for any.
        limit: Largest file in bytes.
        surrogates: See `parse_json`.
        bulk: See `parse_json`.
        unique: See `parse_json`.
        fix: Fix for the error if the file cannot be read.

    Example:
        >>> Path("run.json").write_text('{"steps": 3}')
        12
        >>> read_json(Path("run.json"), dict)
        {'steps': 3}
    """
    try:
        text = read_text(path, limit=limit)
        return parse_json(text, str(path), kind, surrogates=surrogates, bulk=bulk, unique=unique)
    except MotionkitError as error:
        error.fix = error.fix or fix
        raise


def parse_json(
    text: str, origin: str, kind: type[T], *, surrogates: bool = False, bulk: bool = False, unique: bool = False
) -> T:
    """Parse JSON that may have comments and trailing commas.

    Comments are removed only if the text is not plain JSON.

    Args:
        text: The document.
        origin: Its file or other origin, for messages.
        kind: Required type of the document: ``dict``, ``list``, or ``object`` for any.
        surrogates: Whether text may hold lone surrogates, as in file names that are not UTF-8.
        bulk: Skip the checks of depth, whole numbers and texts, for files of millions of numbers whose caller checks
            every value.
        unique: Refuse a key that a table has twice, for files that people write; else the last one counts.

    Returns:
        The content; NaN and infinities are read as by Python's parser.
    """
    if not text.strip():
        raise MotionkitError(f"{origin} is empty.", why="a JSON document was expected.")
    if text.count("{") + text.count("[") > _MANY:
        raise MotionkitError(f"{origin} has more than {_MANY} tables and lists.")
    try:
        document = _parse(text, origin, unique)
    except json.JSONDecodeError:
        try:
            document = _parse(plain_json(text), origin, unique)
        except json.JSONDecodeError as error:
            raise _malformed(text, origin, error) from error
    if not bulk:
        check_values(document, origin, surrogates=surrogates)
    return require_kind(document, kind, origin)


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file with one per line; none if the file is missing.

    Damaged lines and lines of more than a megabyte are skipped, including an incomplete last line of a killed process.
    """
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        while text := file.readline(_LINE):
            try:
                line: dict[str, Any] = parse_json(text, str(path), dict)
            except MotionkitError:
                continue
            if text.endswith("\n"):
                yield line


def plain_json(text: str) -> str:
    """Replace comments and trailing commas by blanks, which keeps positions."""
    plain = _PIECE.sub(_blank, text)
    return _COMMA.sub(lambda match: " " if match[0] == "," else match[0], plain)


def _parse(text: str, origin: str, unique: bool) -> object:
    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if (twice := _twice([key for key, _ in pairs])) is not None:
            raise MotionkitError(f"{origin} has the key {twice[:40]!r} twice in one table.", fix="take one out.")
        return dict(pairs)

    try:
        document: object = json.loads(text, object_pairs_hook=table if unique else None)
    except json.JSONDecodeError:
        raise
    except RecursionError as error:
        raise too_deep(origin) from error
    except ValueError as error:  # raised for a number of thousands of digits
        raise MotionkitError(f"{origin} cannot be read as JSON.", why=str(error)) from error
    return document


def _twice(names: Sequence[str]) -> str | None:
    """Return the first name that is there a second time; None if there is none."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _blank(match: re.Match[str]) -> str:
    """Replace a comment by as many blanks, which keeps line and column of errors."""
    return match[0] if match[0].startswith('"') else _VISIBLE.sub(" ", match[0])


def _malformed(text: str, origin: str, error: json.JSONDecodeError) -> MotionkitError:
    message = f"{origin} is not valid JSON: {error.msg}, line {error.lineno}, column {error.colno}."
    near = text[error.pos : error.pos + 3]
    if near == "...":
        return MotionkitError(
            message, why="``...`` stands for values that were left out; it is an example, not a file."
        )
    comment = text.rfind("/*", 0, error.pos)
    if comment >= 0 and "*/" not in text[comment:]:
        line = text.count("\n", 0, comment) + 1
        return MotionkitError(message, why=f"the comment that starts in line {line} has no end.")
    if error.pos >= len(text.rstrip()):
        return MotionkitError(message, why="the text ends there: the file is cut short.")
    return MotionkitError(message)


def read_model(path: Path, model: type[Model], kind: str, otherwise: str) -> Model:
    """Read a JSON document with a ``kind`` as a pydantic model.

    Args:
        path: The file.
        model: The model.
        kind: The required ``kind``.
        otherwise: End of the error for another kind, such as ``" policy, not mpl"``.
    """
    content = read_json(path, dict, fix="copy the folder again.")
    if content.get("kind") != kind:
        raise MotionkitError(f"{path} describes a {str(content.get('kind'))[:40]!r}{otherwise}.")
    return as_model(path, model, content)


def as_model(path: Path, model: type[Model], content: object, *, fix: str = "") -> Model:
    """Validate the content of a file as a model."""
    from pydantic import ValidationError

    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise MotionkitError(f"{path} is damaged.", why=f"{place or 'it'}: {first['msg']}.", fix=fix) from error


def read_toml(path: str | Path, *, limit: int = TOML_LIMIT) -> dict[str, Any]:
    """Read a TOML file, UTF-8, of at most `limit` bytes."""
    return parse_toml(read_text(path, limit=limit), str(path))


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Parse TOML."""
    # tomllib needs memory quadratic in the parts of a key: 40 KB of "a.a.a..." take 1.6 GB.
    if any(piece.count(".") > DEPTH and len(_DOT.findall(piece)) > DEPTH for piece in _STATEMENT.split(text)):
        raise MotionkitError(f"{origin} has a key of more than {DEPTH} parts.")
    try:
        document = tomllib.loads(text)
    except RecursionError as error:
        raise too_deep(origin) from error
    except ValueError as error:  # TOMLDecodeError; also raised for huge numbers and impossible dates
        raise MotionkitError(f"{origin} is not valid TOML: {error}") from error
    check_values(document, origin)
    return document


def read_yaml(path: str | Path, kind: type[T], *, limit: int = YAML_LIMIT) -> T:
    """Read a YAML file.

    Args:
        path: The file, UTF-8.
        kind: Required type of the document: ``dict``, ``list``, or ``object`` for any.
        limit: Largest file in bytes.
    """
    return parse_yaml(read_text(path, limit=limit), str(path), kind)


def parse_yaml(text: str, origin: str, kind: type[T]) -> T:
    """Parse YAML; an empty document is an empty table if `kind` is dict.

    Args:
        text: The document.
        origin: Its file or other origin, for messages.
        kind: Required type of the document: ``dict``, ``list``, or ``object`` for any.

    Example:
        >>> parse_yaml("{alpha: 0.5, names: [a, b]}", "rewards.yaml", dict)
        {'alpha': 0.5, 'names': ['a', 'b']}
    """
    import yaml

    try:
        document: object = yaml.load(text, Loader=_loader())
    except RecursionError as error:
        raise too_deep(origin) from error
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError) as error:
        # Besides YAMLError, PyYAML raises others for impossible dates, malformed numbers, and tables in place of
        # scalars.
        raise MotionkitError(f"{origin} is not valid YAML: {' '.join(str(error).split())}") from error
    check_values(document, origin)
    return require_kind({} if document is None and kind is dict else document, kind, origin)


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        """PyYAML's safe loader with limits."""

        level = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.level += 1
            if self.level > DEPTH:
                raise RecursionError
            try:
                return super().compose_node(parent, index)
            finally:
                self.level -= 1

        def compose_document(self) -> Any:
            node = super().compose_document()
            unfolded = _unfolded(node, {})
            if unfolded > _VALUES:
                raise yaml.YAMLError(f"it holds more than {_VALUES} values, counting what its aliases stand for")
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value if isinstance(key.value, str)]
            if (twice := _twice(keys)) is not None:
                raise yaml.YAMLError(f"it has the key {twice[:40]!r} twice in one table")
            return super().construct_mapping(node, deep)

        def construct_scalar(self, node: Any) -> Any:
            value = super().construct_scalar(node)
            if node.tag.endswith((":int", ":float")) and len(value) > _SCALAR:
                raise yaml.YAMLError(f"a number has {len(value)} letters, at most {_SCALAR} are read")
            return value

    # YAML 1.2 and the other parsers here read 1e-3 as a number; PyYAML requires a point and a sign.
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, [*"-+0123456789"])
    return Loader


def _unfolded(node: Any, sizes: dict[int, float]) -> float:
    """Return the number of values below a node, including it; infinite if it contains itself."""
    if (size := sizes.get(id(node))) is not None:
        return size
    sizes[id(node)] = float("inf")
    inside = node.value if isinstance(node.value, list) else []
    parts = [part for item in inside for part in (item if isinstance(item, tuple) else (item,))]
    sizes[id(node)] = 1 + sum(_unfolded(part, sizes) for part in parts)
    return sizes[id(node)]


class CsvTable:
    r"""A CSV file: its columns, and its rows, which are read one by one.

    The separator is the one of comma, semicolon and tab that the first line has; the text is UTF-8, or UTF-16 with a
    byte order mark. A cell may have 131,072 characters, a row 4 million.

    Raises:
        MotionkitError: The file is no such table, or two of its columns have one name.

    Example:
        >>> size = Path("clips.csv").write_text("clip;caption\nwalk;he walks, then turns\n")
        >>> table = CsvTable("clips.csv")
        >>> table.note, next(table.rows())
        ('clips.csv: a semicolon separates its columns', (2, {'clip': 'walk', 'caption': 'he walks, then turns'}))
    """

    columns: tuple[str, ...]  # Names of the first line, without blanks around them; none of an empty file
    note: str  # How the file is read where it is not UTF-8 with commas, for a message; else empty

    def __init__(self, path: str | Path, *, limit: int = CSV_LIMIT) -> None:
        """Read the first line.

        Args:
            path: The file.
            limit: Largest file in bytes.
        """
        self.path, self._limit = Path(path), limit
        self._encoding, self._separator = "utf-8-sig", ","
        with self._opened() as file:
            self._encoding = _encoding(file.buffer.read(_MARK))
        with self._opened() as file:
            header = _QUOTED.sub("", next((line for line in _Lines(file) if line.strip()), ""))
        found = [mark for mark in _SEPARATORS if mark in header]
        if len(found) > 1:
            raise MotionkitError(
                f"the first line of {self.path} has {' and '.join(_SEPARATORS[mark] for mark in found)}.",
                why="one of them separates the columns.",
                fix="put names that contain the other in double quotes.",
            )
        self._separator = found[0] if found else ","
        line, names = next(self._read(), (1, []))
        names = [name.strip() for name in names]
        while names and not names[-1]:  # spreadsheets write empty columns
            names.pop()
        if len(names) > _COLUMNS:
            raise MotionkitError(f"{self.path} has {len(names)} columns; at most {_COLUMNS} are read.")
        if (twice := _twice(names)) is not None:
            called = f"called {twice[:40]!r}" if twice else "without a name"
            raise MotionkitError(
                f"{self.path}, line {line} has two columns {called}.", fix="give each column a name of its own."
            )
        self.columns = tuple(names)
        odd = ["it is UTF-16"] if self._encoding == "utf-16" else []
        odd += [f"{_SEPARATORS[self._separator]} separates its columns"] if self._separator != "," else []
        self.note = f"{self.path}: {', '.join(odd)}" if odd else ""

    def rows(self, *required: str) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the line in which each row begins, and its cells by column; rows without any text are left out.

        Args:
            required: Columns whose cell has to be there (it may be empty); other cells that are missing are empty.

        Raises:
            MotionkitError: A row has more cells than there are columns, or lacks a required one.
        """
        rows = self._read()
        next(rows, None)
        for line, row in rows:
            if any(cell.strip() for cell in row[len(self.columns) :]):
                raise MotionkitError(
                    f"{self.path}, line {line} has {len(row)} cells for {len(self.columns)} columns.",
                    why=f"{_SEPARATORS[self._separator]} separates cells.",
                    fix="put a text that contains one in double quotes.",
                )
            if missing := [name for name in required if self.columns.index(name) >= len(row)]:
                raise MotionkitError(
                    f"{self.path}, line {line} has no {missing[0]!r}.",
                    why=f"it has {len(row)} of {len(self.columns)} cells.",
                )
            yield line, dict(zip_longest(self.columns, row[: len(self.columns)], fillvalue=""))

    def _read(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line and the cells of each row that has text, the names of the columns first."""
        with self._opened() as file:
            lines = _Lines(file)
            # Strict: a quote that is never closed would take all rows after it into one cell.
            rows = csv.reader(lines, delimiter=self._separator, skipinitialspace=True, strict=True)
            end = 0
            try:
                for row in rows:
                    lines.taken = 0
                    line, end = end + 1, rows.line_num
                    if any(map(str.strip, row)):
                        yield line, row
            except csv.Error as error:
                raise csv.Error(f"line {end + 1}: {error}") from error

    @contextmanager
    def _opened(self) -> Iterator[TextIO]:
        try:
            with io.TextIOWrapper(open_file(self.path, self._limit), encoding=self._encoding, newline="") as file:
                yield file
        except OSError as error:
            raise unreadable(self.path, error) from error
        except UnicodeDecodeError as error:  # its place is one in the piece that was decoded
            raise not_text(self.path, "a byte is not part of such a text.") from error
        except csv.Error as error:
            raise MotionkitError(f"{self.path} is not a CSV file: {error}.") from error


class _Lines:
    """The lines of a file, with a limit for those of one row (a quoted cell may hold many)."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.taken = 0  # characters of the current row so far

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._file.readline(_ROW)
        self.taken += len(line)
        if not line:
            raise StopIteration
        if self.taken >= _ROW:
            raise csv.Error(f"a row has more than {_ROW} letters")
        if "\0" in line:
            raise csv.Error(f"it holds {_NUL}")
        return line


def require_kind(document: object, kind: type[T], origin: str) -> T:
    """Return `document` if it is of the type `kind`."""
    if isinstance(document, kind):
        return document
    actual = _WORDS.get(type(document), type(document).__name__)
    raise MotionkitError(f"{origin} does not hold {_WORDS.get(kind, kind.__name__)} at its top, but {actual}.")


def check_values(document: object, origin: str, *, surrogates: bool = False) -> None:
    """Check every value and key: plain values, text keys, numbers of at most 64 bits, at most `DEPTH` levels.

    Args:
        document: Output of a parser.
        origin: Its file or other origin, for messages.
        surrogates: Whether text may hold lone surrogates, as in file names that are not UTF-8.
    """
    level: list[object] = [document]
    for _ in range(DEPTH):
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                for key in value:
                    _check_key(key, origin, surrogates)
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif type(value) is not float:  # most are: nothing can be wrong with them
                _check_leaf(value, origin, surrogates)
        if not below:
            return
        level = below
    raise too_deep(origin)


def too_deep(origin: str) -> MotionkitError:
    """Return the error for a document that is nested too deep."""
    return MotionkitError(f"{origin} is nested too deep to be read.", why=f"at most {DEPTH} levels are.")


def _check_key(key: object, origin: str, surrogates: bool) -> None:
    if not isinstance(key, str):
        raise MotionkitError(
            f"{origin} has a key that is not text: {str(key)[:40]}.",
            why="YAML reads numbers, dates, and words like on, yes, off and no, as values.",
            fix='put the key in quotes, as in "on": 1.',
        )
    _check_leaf(key, origin, surrogates)


def _check_leaf(value: object, origin: str, surrogates: bool) -> None:
    if isinstance(value, str):
        if not surrogates and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise MotionkitError(
                    f"{origin} holds text that is not Unicode: {value[error.start]!a}.",
                    why="half of a surrogate pair stands alone.",
                ) from error
    elif isinstance(value, int):
        if not -_LARGEST < value < _LARGEST:
            raise MotionkitError(f"{origin} holds a whole number of more than 64 bits.")
    elif not isinstance(value, (float, date, time, type(None))):
        raise MotionkitError(f"{origin} holds a value of type {type(value).__name__}, which no document here has.")
