"""Writes files atomically: after a kill a file is either the old or the new version.

In this order: errors of the disk, temporary files, and `write_bytes` with its relatives; `move_file` and `remove_file`
inside a folder, never through a link that leads out of it; `require_writable`, a check before the work begins; and
`OutputFolder`, the folder that a command fills, in which only files that the folder's record lists are replaced.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from motionkit.documents import read_json
from motionkit.errors import MotionkitError

TEMPORARY = ".tmp-"
"""Prefix of the names in `is_temporary`."""

_TEMPORARY = re.compile(r"\.tmp-(\d+-[0-9a-f]{8}(\.\w+)?|step-\d{8,}|replaced-\d+)")

_LIMIT = 256 << 20
"""Bytes of an output folder's record; a conversion notes up to a kilobyte for each clip."""


@contextmanager
def disk_errors(doing: str, path: Path, *, code: int = 1) -> Iterator[None]:
    """Turn an operating-system error while writing into one clear `MotionkitError` with exit code `code`.

    The safetensors writer wraps the system's error in its own class, which is recognised by its text.
    """
    try:
        yield
    except OSError as error:
        raise _explained(doing, path, error.errno, str(error), code) from error
    except Exception as error:
        if type(error).__name__ != "SafetensorError":
            raise
        text = str(error)
        full = errno.ENOSPC if "No space left" in text else errno.EFBIG if "File too large" in text else None
        raise _explained(doing, path, full, text, code) from error


def _explained(doing: str, path: Path, number: int | None, text: str, code: int) -> MotionkitError:
    if number in (errno.ENOSPC, errno.EDQUOT):
        why, fix = "the disk or the quota is full.", "free some space, then continue with --resume"
    elif number == errno.EFBIG:
        why, fix = "the file would be larger than the limit of this process.", "raise `ulimit -f`, then --resume"
    else:
        why, fix = text, "check the disk and its permissions, then continue with --resume"
    return MotionkitError(f"cannot {doing}: {path}", why=f"{why} What was saved before is intact.", fix=fix, code=code)


def temporary(path: Path, suffix: str = "") -> Path:
    """Return a temporary path in the folder of a file; its name is short, also for a long file name."""
    return path.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}{suffix}")


def is_temporary(path: Path) -> bool:
    """Whether a name is that of a temporary file or folder of motionkit."""
    return _TEMPORARY.fullmatch(path.name) is not None


def sweep(folder: Path, *, below: bool = False) -> None:
    """Delete the temporary files that a killed process left in `folder`; the caller must hold its lock.

    Args:
        folder: The folder.
        below: Whether to delete those in the folders in it as well; links are not followed.
    """
    for place in [Path(root) for root, *_ in os.walk(folder)] if below else [folder]:
        for path in filter(is_temporary, place.glob(f"{TEMPORARY}*")):
            remove(path)


def discard(path: Path) -> None:
    """Delete a file or folder, under a temporary name first: a kill in between leaves only what `sweep` deletes."""
    with suppress(OSError):
        remove(path.rename(temporary(path)))


def remove(path: Path) -> None:
    """Delete a file, a link or a folder; errors are ignored."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def sync_file(path: Path) -> None:
    """Flush a file to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Make renames inside a folder durable; a no-op if folders cannot be opened (Windows)."""
    if os.name == "posix":
        sync_file(path)


def write_bytes(path: Path, data: bytes, *, like: Path | None = None) -> None:
    """Write a file aside, flush it to the disk and rename it into place.

    An existing file keeps its permissions, so that a private file stays private.

    Args:
        path: The file.
        data: Its new contents.
        like: A file whose permissions it gets, if it exists; None takes those of `path` itself.
    """
    write_chunks(path, (data,), like=like)


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name as a packed .npz, as `write_bytes` does; objects, which need pickle, are refused."""
    import numpy as np

    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_bytes(path, buffer.getvalue())


def write_chunks(path: Path, chunks: Iterable[bytes], *, like: Path | None = None) -> None:
    """Write a file piece by piece as `write_bytes` does."""
    aside = temporary(path)
    try:
        with aside.open("wb") as file:
            with suppress(FileNotFoundError):
                # Set before the first byte is written, so that a private file is never readable in between.
                aside.chmod(stat.S_IMODE((like or path).stat().st_mode))
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_json(path: Path, document: object) -> None:
    """Write a JSON file as `write_text` does; NaN and infinity are refused (ValueError)."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # A path that is not valid UTF-8 is written with JSON escapes of its surrogates, and reads back the same.
    write_bytes(path, text.encode(errors="backslashreplace"))


def is_inside(name: object) -> bool:
    """Whether a value read from a file is a relative path that stays inside its folder."""
    if not isinstance(name, str) or not name or "\0" in name:
        return False
    path = PureWindowsPath(name)  # handles both kinds of slashes, and drives
    return not path.anchor and ".." not in path.parts


def is_obstacle(folder: Path) -> bool:
    """Whether a path that must be a folder is a file or a link."""
    return folder.is_symlink() or (folder.exists() and not folder.is_dir())


def folders_of(name: str) -> list[PurePosixPath]:
    """Return the folders that a path inside a folder goes through, the innermost first."""
    return list(PurePosixPath(name).parents)[:-1]


def move_file(source: Path, target: Path) -> None:
    """Replace `target` by `source` atomically, also across file systems."""
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        aside = temporary(target)
        shutil.copyfile(source, aside)
        aside.replace(target)


def remove_file(folder: Path, name: str) -> None:
    """Delete ``folder/name`` and the folders that this leaves empty, except `folder`."""
    parents = [folder / parent for parent in folders_of(name)]
    if (folder / name).is_dir() or any(map(is_obstacle, parents)):
        return
    (folder / name).unlink(missing_ok=True)
    for parent in parents:
        if not parent.is_dir() or any(parent.iterdir()):
            return
        parent.rmdir()


def require_writable(path: Path, *, parents: bool = False) -> None:
    """Refuse a path that cannot be written.

    Args:
        path: The file; an existing one will be replaced.
        parents: Whether missing folders will be made.
    """
    there = path.exists()
    if path.is_dir():
        raise MotionkitError(f"{path} is a folder, not a file.", fix="choose another name.")
    if there and not path.is_file():
        raise MotionkitError(f"{path} is not a regular file and cannot be replaced.", fix="choose another name.")
    folder = path.parent
    while parents and not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise MotionkitError(f"there is no folder {folder}.", fix="make it, or choose another place.")
    if not os.access(folder, os.W_OK) or (there and not os.access(path, os.W_OK)):
        raise MotionkitError(f"{path} cannot be written: no permission.", fix="choose another place.")


class OutputFolder:
    """A folder that a command fills under a temporary name and then moves into place.

    A record in the folder lists every file that the command wrote. A later command may replace only these files; other
    files in the folder are neither changed nor moved.

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
        """Refuse a folder that cannot be written or that the command did not make."""
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
        """Refuse names of existing files that no such command made.

        Args:
            names: Paths inside the folder, with ``/``.
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
        """Make a temporary folder next to `path`, to fill it for `settle`; it is deleted if the block fails."""
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
        """Move a finished folder into place, by one rename if there is no folder yet.

        In an existing folder files are replaced one by one, then outdated files of the earlier command are deleted.
        Meanwhile the record lists both, so that a later command can continue after a kill.

        Raises:
            MotionkitError: The folder was made meanwhile, or the disk is full or not writable; `part` keeps the files
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
        """Return the folder's record, or None if it has no valid one."""
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
    return MotionkitError(message, why=f"{why} The new files are in {part}.".strip(), fix=fix, code=1)
