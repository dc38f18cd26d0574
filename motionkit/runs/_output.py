"""Output folders of commands, in which only files that the folder's record lists are replaced."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.runs.atomic import folders_of, is_inside, is_obstacle, move_file, remove_file, write_bytes

_LIMIT = 256 << 20
"""Bytes of a record; a conversion notes up to a kilobyte for each clip."""


class OutputFolder:
    """A folder that a command fills under a temporary name and then moves into place.

    A record in the folder lists every file that the command wrote. A later command may replace these files and no
    others; other files in the folder are neither changed nor moved.

    Args:
        path: The folder.
        record: Name of its record, a JSON file.
        kind: Value of ``kind`` in the record; records of other kinds are ignored.
        overwrite: Whether files of an earlier command may be replaced.

    Example:
        >>> place = OutputFolder(Path("out"), "out.json", "my-tool")
        >>> place.claim()  # refuses a folder that this tool did not make
        >>> with place.beside() as part:
        ...     size = (part / "clip.txt").write_text("walk")
        >>> place.settle(part, {"schema": 1})
        >>> sorted(file.name for file in Path("out").iterdir())
        ['clip.txt', 'out.json']
    """

    def __init__(self, path: Path, record: str, kind: str, *, overwrite: bool = False) -> None:
        self.path = Path(os.path.realpath(path))
        self._shown = path
        self._record, self._kind, self._overwrite = record, kind, overwrite

    def claim(self) -> None:
        """Refuse a place that cannot be written or belongs to others.

        Raises:
            MotionkitError: It is a file or not writable; or it holds files that no such command made, or files of an
                earlier one and `overwrite` is False.
        """
        if self.path.exists() and not self.path.is_dir():
            raise MotionkitError(f"{self._shown} is a file, not a folder.", fix="choose another OUT.")
        if not self.path.is_dir():
            return
        if not os.access(self.path, os.W_OK):
            raise MotionkitError(f"{self._shown} cannot be written: no permission.", fix="choose another OUT.")
        if not any(self.path.iterdir()):
            return
        record = self._read()
        if record is None:
            raise MotionkitError(
                f"{self._shown} exists and is not empty.",
                why="this command did not make what is in it, so nothing in it will be touched, "
                "with or without --overwrite.",
                fix="choose another OUT.",
            )
        # An interrupted move may always continue, because it was allowed before.
        if not self._overwrite and not record.get("unfinished"):
            raise MotionkitError(
                f"{self._shown} exists and is not empty.",
                fix="choose another OUT, or add --overwrite, which replaces what this command made there before.",
            )

    def require_free(self, names: Iterable[str]) -> None:
        """Refuse names that are taken by files which no such command made.

        Args:
            names: Paths inside the folder, with ``/``.

        Raises:
            MotionkitError: Naming the file that is in the way.
        """
        owned, names = self._owned(), list(names)
        folders = {folder for name in names for folder in folders_of(name)}
        taken = [folder for folder in folders if is_obstacle(self.path / folder)]
        taken += [PurePosixPath(name) for name in names if self._is_taken(name, owned)]
        if taken:
            raise MotionkitError(
                f"{self._shown / min(taken)} is in the way, and this command did not make it.",
                why="it would have to be replaced.",
                fix="move it elsewhere, or choose another OUT.",
            )

    @contextmanager
    def beside(self) -> Iterator[Path]:
        """Make a temporary folder beside the place, to fill it for `settle`; it is deleted when the block fails.

        Raises:
            MotionkitError: It cannot be made.
        """
        part = self.path.parent / f".{self.path.name}.{secrets.token_hex(4)}.part"
        try:
            part.mkdir(parents=True)
        except OSError as error:
            raise MotionkitError(
                f"cannot make {self._shown}: {error.strerror or error}.", fix="choose another OUT."
            ) from error
        try:
            yield part
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise

    def settle(
        self, part: Path, document: Mapping[str, Any], *, also: Sequence[str] = (), leave: Sequence[str] = ()
    ) -> None:
        """Move a finished folder into place, by one rename when nothing is there yet.

        In an existing folder files are replaced one by one, then outdated files of the earlier command are deleted.
        Meanwhile the record lists both, so that a later command can continue after a kill.

        Raises:
            MotionkitError: The place was taken meanwhile, or the disk is full or not writable; `part` keeps the files
                (exit code 1).
        """
        try:
            self._settle(part, document, also, leave)
        except MotionkitError as error:
            raise _kept(error.message, error.why, error.fix, part) from error
        except OSError as error:
            message = f"cannot write into {self._shown}: {error.strerror or error}."
            raise _kept(message, "", "check the disk and its permissions", part) from error

    def _settle(self, part: Path, document: Mapping[str, Any], also: Sequence[str], leave: Sequence[str]) -> None:
        inside = [(path, path.relative_to(part).as_posix()) for path in sorted(part.rglob("*"))]
        names = [name for path, name in inside if not path.is_dir() and name not in (*leave, self._record)]
        listed = sorted({*names, *also, self._record})
        final = {"kind": self._kind, **document, "files": listed}
        if not self.path.exists():
            _write(part / self._record, final)
            part.replace(self.path)
            return
        self.claim()
        self.require_free(listed)
        owned = self._owned()
        both = {"kind": self._kind, "unfinished": True, "files": sorted(owned.union(listed))}
        _write(self.path / self._record, both)
        for path, name in inside:
            if path.is_dir():
                (self.path / name).mkdir(parents=True, exist_ok=True)
        for name in names:
            move_file(part / name, self.path / name)
        for name in owned.difference(listed):
            remove_file(self.path, name)
        _write(self.path / self._record, final)
        shutil.rmtree(part, ignore_errors=True)

    def _read(self) -> dict[str, Any] | None:
        """Return the folder's record, or None when it has no valid one."""
        try:
            document: dict[str, Any] = read_json(self.path / self._record, dict, limit=_LIMIT, surrogates=True)
        except MotionkitError:
            return None
        if document.get("kind") != self._kind:
            return None
        files = document.get("files")
        # The record is untrusted: it counts only if all names in it stay inside the folder.
        return document if isinstance(files, list) and all(map(is_inside, files)) else None

    def _owned(self) -> frozenset[str]:
        record = self._read()
        return frozenset(() if record is None else record["files"])

    def _is_taken(self, name: str, owned: frozenset[str]) -> bool:
        path = self.path / name
        return path.is_dir() or (name not in owned and (path.exists() or path.is_symlink()))


def _write(path: Path, document: Mapping[str, Any]) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    # A name that is not valid UTF-8 is written with JSON escapes of its surrogates, and reads back the same.
    write_bytes(path, text.encode(errors="backslashreplace"))


def _kept(message: str, why: str, fix: str, part: Path) -> MotionkitError:
    fix = f"{fix.rstrip('.')}; then run the same command again."
    return MotionkitError(message, why=f"{why} What was made is in {part}.".strip(), fix=fix, code=1)
