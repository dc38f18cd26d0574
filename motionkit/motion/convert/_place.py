"""A folder that is written beside its place, remembers what is done, and moves there when it is whole."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from motionkit.errors import MotionkitError
from motionkit.motion.convert._outcome import Outcome
from motionkit.runs import hold, write_bytes_atomic

JOURNAL = ".journal.jsonl"


class Place:
    """Writes ``OUT`` as ``.OUT.part`` first.

    Every finished source is a line of a journal there. When a process dies, the next one with the same plan goes on
    after the last line; with another plan it starts again. Leaving the ``with`` block before `finish` keeps the part
    folder, unless the error says that nothing can come of it (exit code 2).

    Args:
        out: The folder to make.
        plan: Everything that the outputs depend on besides the sources; plain data.
        overwrite: Replace a folder that has something in it.

    Raises:
        MotionkitError: `out` is a file, is not empty and `overwrite` is False, cannot be made, or is being made
            by another process.
    """

    def __init__(self, out: Path, plan: Mapping[str, Any], *, overwrite: bool = False) -> None:
        if out.is_file():
            raise MotionkitError(f"{out} is a file, not a folder.", fix="choose another OUT.")
        if out.is_dir() and any(out.iterdir()) and not overwrite:
            raise MotionkitError(f"{out} exists and is not empty.", fix="choose another OUT, or add --overwrite.")
        self._out = out.resolve()
        self.folder = self._out.parent / f".{self._out.name}.part"
        self._plan = json.loads(json.dumps(plan))
        self._done: dict[str, Outcome] = {}
        self._finished = False
        self._lock: IO[str] | None = None
        self._journal: IO[str] | None = None

    def __enter__(self) -> Place:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MotionkitError(
                f"cannot make {self._out}: {error.strerror or error}.", fix="choose another OUT."
            ) from error
        self._lock = hold(self.folder)
        self._read_journal()
        self._sweep()
        self._journal = (self.folder / JOURNAL).open("a", encoding="utf-8")
        if not self._done:
            self._append({"plan": self._plan})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self._journal, self._lock):
            if file is not None:
                file.close()
        if not self._finished and isinstance(error, MotionkitError) and error.code == 2:
            shutil.rmtree(self.folder, ignore_errors=True)

    def done(self, key: str, fingerprint: str) -> Outcome | None:
        """Return what became of a source that an earlier, interrupted process finished and that has not changed."""
        outcome = self._done.get(key)
        return outcome if outcome is not None and fingerprint and outcome.fingerprint == fingerprint else None

    def note(self, outcome: Outcome) -> None:
        """Remember that a source is done."""
        self._append({"outcome": outcome.document()})

    def finish(self, record: Mapping[str, Any]) -> None:
        """Write ``convert.json`` and move the folder into place."""
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        write_bytes_atomic(self.folder / "convert.json", text.encode())
        for file in (self._journal, self._lock):
            if file is not None:
                file.close()
        for name in (JOURNAL, ".lock"):
            (self.folder / name).unlink(missing_ok=True)
        old = self._out.with_name(f".{self._out.name}.{os.getpid()}.old")
        if self._out.exists():
            self._out.replace(old)
        self.folder.replace(self._out)
        self._finished = True
        shutil.rmtree(old, ignore_errors=True)

    def _append(self, line: Mapping[str, Any]) -> None:
        assert self._journal is not None
        self._journal.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._journal.flush()

    def _read_journal(self) -> None:
        """Take over what an earlier process with the same plan finished; a torn last line does not count."""
        path = self.folder / JOURNAL
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            if lines and json.loads(lines[0]) == {"plan": self._plan}:
                for line in lines[1:]:
                    outcome = Outcome.parse(json.loads(line)["outcome"])
                    if all((self.folder / file).is_file() for piece in outcome.pieces for file in piece.files):
                        self._done[outcome.key] = outcome
        except (OSError, ValueError, KeyError, TypeError):
            pass
        whole = [{"plan": self._plan}, *({"outcome": outcome.document()} for outcome in self._done.values())]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in whole) if self._done else ""
        write_bytes_atomic(path, text.encode())

    def _sweep(self) -> None:
        """Delete what no finished source has written: leftovers of the process that died."""
        known = {
            self.folder / file for outcome in self._done.values() for piece in outcome.pieces for file in piece.files
        }
        known |= {self.folder / JOURNAL, self.folder / ".lock"}
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in known:
                path.unlink(missing_ok=True)
