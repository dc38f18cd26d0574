"""An output folder written under a temporary name, with a journal to resume from, and renamed when complete."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from motionkit.clips.convert._outcome import Outcome
from motionkit.documents import parse_json, read_text
from motionkit.errors import MotionkitError
from motionkit.runs import OutputFolder, hold, write_bytes_atomic

JOURNAL = ".journal.jsonl"
LOCK = ".lock"
_LIMIT = 256 << 20
"""Bytes of a journal; a source takes up to a kilobyte."""


class Place:
    """Writes ``OUT`` as ``.OUT.part`` first.

    The journal there gets a line for each finished source. After a process died, the next one with the same plan
    continues after the last line; with another plan it starts again. Files of a source that has changed since, or is
    no longer among `sources`, are deleted first. Leaving the ``with`` block before `finish` keeps the part folder,
    except after an error with exit code 2, which would occur again.

    Args:
        out: The folder to make.
        plan: Everything that the outputs depend on besides the sources; plain data.
        sources: Fingerprint of each source by its id; a source with an empty one is always converted again.
        overwrite: Replace the files of an earlier conversion; other files in the folder are never touched.

    Raises:
        MotionkitError: `out` is a file, is not empty and not an earlier conversion's, or `overwrite` is False.
    """

    def __init__(
        self, out: Path, plan: Mapping[str, Any], sources: Mapping[str, str], *, overwrite: bool = False
    ) -> None:
        self._output = claim_folder(out, overwrite=overwrite)
        self._out = self._output.path
        self.folder = self._out.parent / f".{self._out.name}.part"
        self._plan = json.loads(json.dumps(plan))
        self._sources = sources
        self._done: dict[str, Outcome] = {}
        self._finished = False
        self._lock: IO[str] | None = None
        self._journal: IO[str] | None = None

    def __enter__(self) -> Place:
        """Make and lock the part folder.

        Raises:
            MotionkitError: It cannot be made, is no conversion's, or another process works in it.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._refuse_strangers()
            self._lock = self._hold()
            self._read_journal()
            self._sweep()
            self._journal = (self.folder / JOURNAL).open("a", encoding="utf-8", errors="backslashreplace")
            if not self._done:
                self._append({"plan": self._plan})
        except OSError as error:
            self._close()
            raise MotionkitError(
                f"cannot make {self._out}: {error.strerror or error}.", fix="choose another OUT."
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._finished and isinstance(error, MotionkitError) and error.code == 2:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._close()

    def done(self, key: str) -> Outcome | None:
        """Return the outcome of an unchanged source that an earlier, interrupted process finished, else None."""
        return self._done.get(key)

    def note(self, outcome: Outcome) -> None:
        """Write the outcome of a finished source to the journal."""
        self._append({"outcome": outcome.document()})

    def finish(self, record: Mapping[str, Any]) -> None:
        """Move the folder into place, with its record ``convert.json``.

        Raises:
            MotionkitError: Another process made OUT meanwhile, or it cannot be written (exit code 1); the part folder
                stays.
        """
        if os.name == "nt":
            self._close()  # Windows moves no folder with open files, so the lock goes a moment too early there
        # The journal and the lock are deleted last: until then no other process may use the folder.
        self._output.settle(self.folder, record, leave=(JOURNAL, LOCK))
        self._finished = True
        for name in (JOURNAL, LOCK):
            (self._out / name).unlink(missing_ok=True)

    def _refuse_strangers(self) -> None:
        """Refuse a folder of that name without a journal: its files would be deleted."""
        names = {path.name for path in self.folder.iterdir()}
        if JOURNAL not in names and any(name != LOCK and not name.startswith(".tmp-") for name in names):
            raise MotionkitError(
                f"{self.folder} is in the way: OUT is written there first.",
                why="no conversion made what is in it, so nothing in it will be touched.",
                fix="move it elsewhere, or choose another OUT.",
            )

    def _hold(self) -> IO[str]:
        """Lock the folder and check that it is still there: another process may just have renamed it."""
        lock = hold(self.folder)
        try:
            if os.path.samestat(os.fstat(lock.fileno()), (self.folder / LOCK).stat()):
                return lock
        except FileNotFoundError:
            pass
        lock.close()
        raise MotionkitError(
            f"{self.folder} was in use by another process until now.", fix="run the same command again."
        )

    def _close(self) -> None:
        for file in (self._journal, self._lock):
            if file is not None:
                file.close()

    def _append(self, line: Mapping[str, Any]) -> None:
        assert self._journal is not None
        self._journal.write(_json_line(line))
        self._journal.flush()

    def _read_journal(self) -> None:
        """Read the outcomes of an earlier process with the same plan and sources; skip an incomplete last line."""
        path = self.folder / JOURNAL
        try:
            # Not splitlines: it also breaks at U+2028 and the like, which JSON may hold as they are.
            lines = read_text(path, limit=_LIMIT).split("\n")
            if _parsed(lines[0], path) == {"plan": self._plan}:
                for line in lines[1:]:
                    outcome = Outcome.parse(_parsed(line, path)["outcome"])
                    same = outcome.fingerprint and outcome.fingerprint == self._sources.get(outcome.key)
                    if same and all((self.folder / file).is_file() for piece in outcome.pieces for file in piece.files):
                        self._done[outcome.key] = outcome
        except (MotionkitError, ValueError, KeyError, TypeError):
            pass
        whole = [{"plan": self._plan}, *({"outcome": outcome.document()} for outcome in self._done.values())]
        text = "".join(map(_json_line, whole)) if self._done else ""
        write_bytes_atomic(path, text.encode(errors="backslashreplace"))

    def _sweep(self) -> None:
        """Delete files of no finished source: leftovers of the process that died."""
        known = {
            self.folder / file for outcome in self._done.values() for piece in outcome.pieces for file in piece.files
        }
        known |= {self.folder / JOURNAL, self.folder / LOCK}
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in known:
                path.unlink(missing_ok=True)


def claim_folder(out: Path, *, overwrite: bool = False) -> OutputFolder:
    """Return the folder of a conversion.

    Raises:
        MotionkitError: `out` is a file, is not empty and not an earlier conversion's, or `overwrite` is False.
    """
    place = OutputFolder(out, "convert.json", "motionkit-conversion", overwrite=overwrite)
    place.claim()
    return place


def refuse_sources(out: Path, paths: Iterable[Path]) -> None:
    """Refuse an output that would replace its own input.

    Args:
        out: File or folder to write.
        paths: Files that are read.

    Raises:
        MotionkitError: One of them is `out`, or lies in it.
    """
    place = Path(os.path.realpath(out))
    for path in paths:
        file = Path(os.path.realpath(path))
        if place == file or place in file.parents or place in path.absolute().parents:
            raise MotionkitError(
                f"{out} is an input itself."
                if place == file
                else f"{path} is an input, and OUT is the folder it is in.",
                why="what is read is never replaced.",
                fix="choose another OUT.",
            )


def _json_line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False) + "\n"


def _parsed(line: str, path: Path) -> dict[str, Any]:
    return parse_json(line, str(path), dict, surrogates=True)
