"""An output folder written under a temporary name, with a journal to resume from, and renamed when complete."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from motionkit.clips.convert.check_clip import ClipFacts
from motionkit.clips.convert.targets import Piece
from motionkit.clips.sources import FileSource
from motionkit.clips.walk import ClipOutcome
from motionkit.documents import parse_json, read_text
from motionkit.errors import MotionkitError
from motionkit.motion.clip import ClipSource
from motionkit.runs import OutputFolder, hold, still_holds, write_bytes_atomic

Converted = ClipOutcome[ClipFacts | Piece]

_LIMIT = 256 << 20
"""Bytes of a journal; a source takes up to a kilobyte."""

JOURNAL = ".journal.jsonl"
LOCK = ".lock"
"""Names in the part folder: the plan and a line for each finished source; the lock of the process that writes it."""


class ResumableFolder:
    """Writes ``OUT`` as ``.OUT.part`` first.

    The journal there gets a line for each finished source. After a process died, the next one with the same plan
    continues after the last line; with another plan it starts again. Files of a source that has changed since, or is
    no longer among `sources`, are deleted first. Leaving the ``with`` block before `finish` keeps the part folder,
    except after an error with exit code 2, which would occur again.

    Args:
        out: The folder to make.
        plan: Everything except the sources that the outputs depend on; plain data.
        sources: Fingerprint of each source by its id; a source with an empty one is always converted again.
        overwrite: Replace the files of an earlier conversion; other files in the folder are never touched.

    Attributes:
        path: The folder to write into until `finish`.
        done: Outcomes of unchanged sources that an earlier, interrupted process finished, by source id.
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
        """Make and lock the part folder."""
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
        assert self._journal is not None
        self._journal.write(outcome_line(outcome))
        self._journal.flush()

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
        """Lock the folder and check that another process has not just renamed it."""
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

    def _sweep(self) -> None:
        """Delete files of unfinished sources, left by a process that died."""
        keep = {self.path / file for outcome in self.done.values() for file in files_of(outcome)}
        keep |= {self.path / JOURNAL, self.path / LOCK}
        for path in self.path.rglob("*"):
            if path.is_file() and path not in keep:
                path.unlink(missing_ok=True)


def claim_folder(out: Path, *, overwrite: bool = False) -> OutputFolder:
    """Return the folder of a conversion."""
    place = OutputFolder(out, "convert.json", "motionkit-conversion", overwrite=overwrite)
    place.claim()
    return place


def refuse_sources(out: Path, sources: Iterable[ClipSource]) -> None:
    """Refuse an output that would replace an input."""
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


def read_journal(path: Path, plan: Mapping[str, Any], sources: Mapping[str, str]) -> dict[str, Converted]:
    """Return the outcomes of an earlier process by source id; an incomplete last line is skipped.

    Args:
        path: The journal; a missing one is empty.
        plan: Plan of this conversion; a journal with another plan counts as empty.
        sources: Fingerprint of each source by its id; outcomes of changed sources are left out.
    """
    done: dict[str, Converted] = {}
    try:
        # Not splitlines: it also breaks at U+2028 and the like, which JSON may hold as they are.
        first, *lines = read_text(path, limit=_LIMIT).split("\n")
        if _parsed(first, path) == {"plan": plan}:
            for line in lines:
                outcome = _outcome_of(_parsed(line, path)["outcome"])
                same = outcome.fingerprint and outcome.fingerprint == sources.get(outcome.key)
                if same and all((path.parent / file).is_file() for file in files_of(outcome)):
                    done[outcome.key] = outcome
    except (MotionkitError, ValueError, KeyError, TypeError):
        pass
    return done


def plan_line(plan: Mapping[str, Any]) -> str:
    """Return the first line of a journal."""
    return _line({"plan": plan})


def outcome_line(outcome: Converted) -> str:
    """Return the line of a finished source."""
    document = {
        "key": outcome.key,
        "origin": outcome.origin,
        "fingerprint": outcome.fingerprint,
        "clips": [asdict(result) for result in outcome.results if isinstance(result, ClipFacts)],
        "pieces": [asdict(result) for result in outcome.results if isinstance(result, Piece)],
        "problems": {key: error.sentence() for key, error in outcome.problems.items()},
    }
    return _line({"outcome": document})


def files_of(outcome: ClipOutcome[ClipFacts | Piece]) -> list[str]:
    """Return the files that were written for a source, inside the output folder."""
    return [file for result in outcome.results if isinstance(result, Piece) for file in result.files]


def _outcome_of(document: dict[str, Any]) -> ClipOutcome[ClipFacts | Piece]:
    """Rebuild the outcome of a journal's line (KeyError, TypeError for anything else)."""
    results: tuple[ClipFacts | Piece, ...] = tuple(map(_facts_of, document["clips"]))
    results += tuple(map(_piece_of, document["pieces"]))
    problems = {key: MotionkitError(sentence) for key, sentence in document["problems"].items()}
    return ClipOutcome(document["key"], document["origin"], document["fingerprint"], results, problems)


def _piece_of(piece: dict[str, Any]) -> Piece:
    return Piece(**{**piece, "files": tuple(piece["files"]), "warnings": tuple(piece.get("warnings", ()))})


def _facts_of(facts: dict[str, Any]) -> ClipFacts:
    kept = None if facts["kept"] is None else (int(facts["kept"][0]), int(facts["kept"][1]))
    warnings, findings = tuple(facts["warnings"]), tuple(facts["findings"])
    return ClipFacts(**{**facts, "warnings": warnings, "findings": findings, "kept": kept})


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False) + "\n"


def _parsed(line: str, path: Path) -> dict[str, Any]:
    return parse_json(line, str(path), dict, surrogates=True)
