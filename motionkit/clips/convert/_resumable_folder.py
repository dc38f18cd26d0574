"""An output folder written under a temporary name, with a journal to resume from, and renamed when complete."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from motionkit.clips._sources import FileSource
from motionkit.clips.convert._journal import Converted, files_of, outcome_line, plan_line, read_journal
from motionkit.errors import MotionkitError
from motionkit.motion._clip import ClipSource
from motionkit.runs import OutputFolder, hold, still_holds, write_bytes_atomic

JOURNAL = ".journal.jsonl"
LOCK = ".lock"


class ResumableFolder:
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

    Attributes:
        path: The folder to write into until `finish`.
        done: Outcomes of unchanged sources that an earlier, interrupted process finished, by source id.

    Raises:
        MotionkitError: `out` is a file, is not empty and not an earlier conversion's, or `overwrite` is False.
    """

    def __init__(
        self, out: Path, plan: Mapping[str, Any], sources: Mapping[str, str], *, overwrite: bool = False
    ) -> None:
        self._output = claim_folder(out, overwrite=overwrite)
        self._out = self._output.path
        self.path = self._out.parent / f".{self._out.name}.part"
        self._plan = json.loads(json.dumps(plan))  # as it is read back
        self._sources = sources
        self.done: dict[str, Converted] = {}
        self._finished = False
        self._lock: IO[str] | None = None
        self._journal: IO[str] | None = None

    def __enter__(self) -> ResumableFolder:
        """Make and lock the part folder.

        Raises:
            MotionkitError: It cannot be made, is no conversion's, or another process works in it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._refuse_strangers()
            self._lock = self._hold()
            journal = self.path / JOURNAL
            self.done = read_journal(journal, self._plan, self._sources)
            lines = [plan_line(self._plan), *map(outcome_line, self.done.values())]
            write_bytes_atomic(journal, "".join(lines).encode(errors="backslashreplace"))
            self._sweep()
            self._journal = journal.open("a", encoding="utf-8", errors="backslashreplace")
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
            shutil.rmtree(self.path, ignore_errors=True)
        self._close()

    def note(self, outcome: Converted) -> None:
        """Write the outcome of a finished source to the journal."""
        self._append(outcome_line(outcome))

    def finish(self, record: Mapping[str, Any]) -> None:
        """Move the folder into place, with its record ``convert.json``.

        Raises:
            MotionkitError: Another process made OUT meanwhile, or it cannot be written (exit code 1); the part folder
                stays.
        """
        if os.name == "nt":
            self._close()  # Windows moves no folder with open files, so the lock goes a moment too early there
        # The journal and the lock are deleted last: until then no other process may use the folder.
        self._output.settle(self.path, record, leave=(JOURNAL, LOCK))
        self._finished = True
        for name in (JOURNAL, LOCK):
            (self._out / name).unlink(missing_ok=True)

    def _refuse_strangers(self) -> None:
        """Refuse a folder of that name without a journal: its files would be deleted."""
        names = {path.name for path in self.path.iterdir()}
        if JOURNAL not in names and any(name != LOCK and not name.startswith(".tmp-") for name in names):
            raise MotionkitError(
                f"{self.path} is in the way: OUT is written there first.",
                why="no conversion made what is in it, so nothing in it will be touched.",
                fix="move it elsewhere, or choose another OUT.",
            )

    def _hold(self) -> IO[str]:
        """Lock the folder and check that it is still there: another process may just have renamed it."""
        lock = hold(self.path)
        if not still_holds(lock, self.path):
            lock.close()
            raise MotionkitError(
                f"{self.path} was in use by another process until now.", fix="run the same command again."
            )
        return lock

    def _close(self) -> None:
        for file in (self._journal, self._lock):
            if file is not None:
                file.close()

    def _append(self, line: str) -> None:
        assert self._journal is not None
        self._journal.write(line)
        self._journal.flush()

    def _sweep(self) -> None:
        """Delete files of no finished source: leftovers of the process that died."""
        known = {self.path / file for outcome in self.done.values() for file in files_of(outcome)}
        known |= {self.path / JOURNAL, self.path / LOCK}
        for path in self.path.rglob("*"):
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


def refuse_sources(out: Path, sources: Iterable[ClipSource]) -> None:
    """Refuse an output that would replace its own input.

    Args:
        out: File or folder to write.
        sources: What is read.

    Raises:
        MotionkitError: The file of a source is `out`, or lies in it.
    """
    place = Path(os.path.realpath(out))
    for path in (source.path for source in sources if isinstance(source, FileSource)):
        file = Path(os.path.realpath(path))
        if place == file or place in file.parents or place in path.absolute().parents:
            raise MotionkitError(
                f"{out} is an input itself."
                if place == file
                else f"{path} is an input, and OUT is the folder it is in.",
                why="what is read is never replaced.",
                fix="choose another OUT.",
            )
