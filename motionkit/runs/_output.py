"""Folders that commands make: only what the folder's own record lists is ever replaced in them."""

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
from motionkit.runs._atomic import write_bytes
from motionkit.runs._tree import folders_of, is_inside, is_obstacle, move_file, remove_file

_LIMIT = 256 << 20
"""Bytes of a record; a conversion notes up to a kilobyte for each clip."""


class OutputFolder:
    """A folder that a command makes beside its place and then moves there.

    A record in the folder lists every file that the command wrote. A later command may replace these files and no
    others: what a user put there, or what was there before, is neither changed nor moved.

    Args:
        path: The folder.
        record: Name of its record, a JSON file.
        kind: What the record says it is; records of other kinds do not count.
        overwrite: Whether what an earlier command made may be replaced.

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
        """Refuse a place that may not be written to.

        Raises:
            MotionkitError: It is a file, or may not be written; or something is in it that no such command made, or that
                may not be replaced.
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
        # A move that was cut short had been allowed; it may go on.
        if not self._overwrite and not record.get("unfinished"):
            raise MotionkitError(
                f"{self._shown} exists and is not empty.",
                fix="choose another OUT, or add --overwrite, which replaces what this command made there before.",
            )

    def require_free(self, names: Iterable[str]) -> None:
        """Refuse names of files to come that are taken by a file which no such command made.

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
        """Make a folder beside the place to collect what is made, for `settle`; it goes when the block fails.

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
        """Move a finished folder into place, in one step where nothing is there yet.

        In a folder that is there, each file is replaced by itself, then those of the earlier command that have no
        successor go. A process that dies meanwhile leaves a record of both, so that the next one may go on.

        Args:
            part: The folder with what was made, beside the place.
            document: What else the record says.
            also: Files that the same command will add.
            leave: Names in `part` that are no part of the result.

        Raises:
            MotionkitError: The place was taken meanwhile, or the disk refuses; `part` keeps what was made (exit
                code 1).
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
        """Return the folder's record, or None when it has none that can be trusted."""
        try:
            document: dict[str, Any] = read_json(self.path / self._record, dict, limit=_LIMIT, surrogates=True)
        except MotionkitError:
            return None
        if document.get("kind") != self._kind:
            return None
        files = document.get("files")
        # Anybody may have edited the record: only names inside the folder count.
        return document if isinstance(files, list) and all(map(is_inside, files)) else None

    def _owned(self) -> frozenset[str]:
        record = self._read()
        return frozenset(() if record is None else record["files"])

    def _is_taken(self, name: str, owned: frozenset[str]) -> bool:
        path = self.path / name
        return path.is_dir() or (name not in owned and (path.exists() or path.is_symlink()))


def _write(path: Path, document: Mapping[str, Any]) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    # A name that is not valid UTF-8 becomes the JSON escape of what Python makes of it, and reads back as such.
    write_bytes(path, text.encode(errors="backslashreplace"))


def _kept(message: str, why: str, fix: str, part: Path) -> MotionkitError:
    fix = f"{fix.rstrip('.')}; then run the same command again."
    return MotionkitError(message, why=f"{why} What was made is in {part}.".strip(), fix=fix, code=1)
