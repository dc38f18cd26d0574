"""A folder with one file per replication, so that an evaluation that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.evaluation.text_to_motion._figures import Sheet
from motionkit.evaluation.text_to_motion._measure import Replication
from motionkit.runs import LOCK, disk_errors, hold, write_bytes_atomic

RECORD, PAGE, FOLDER = "evaluation.json", "evaluation.html", "replications"
KIND = "motionkit-evaluation"


class ReplicationStore:
    """The folder of an evaluation.

    Args:
        path: The folder.
        key: Everything that the figures depend on; JSON-able.
        overwrite: Whether an evaluation that is there may be replaced.
    """

    def __init__(self, path: Path, key: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self.path = path
        self._key = json.loads(json.dumps(key, default=str))
        self._overwrite = overwrite

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Claim the folder, and hold it while the block runs.

        Yields:
            How many replications it holds already.

        Raises:
            MotionkitError: It holds other files, another evaluation, a finished one, or another process works on it.
        """
        before = self._before()
        with disk_errors("make the folder", self.path, code=2):
            (self.path / FOLDER).mkdir(parents=True, exist_ok=True)
        with hold(self.path):
            if before is None or self._overwrite:
                for file in sorted((self.path / FOLDER).glob("[0-9]*.json")):
                    file.unlink()
                self._write(RECORD, {"kind": KIND, "schema": 1, "status": "running", "settings": self._key})
            yield sum(1 for _ in (self.path / FOLDER).glob("[0-9]*.json"))

    def read(self, number: int) -> Replication | None:
        """Return a replication that was measured before; None where there is none."""
        file = self.path / FOLDER / f"{number:04d}.json"
        if not file.is_file():
            return None
        document = read_json(file, dict, fix="delete that file, and it is measured again.")
        try:
            return Replication(*(_sheet(document[part]) for part in ("metrics", "ground_truth")))
        except (KeyError, TypeError, ValueError) as error:
            raise MotionkitError(
                f"{file} is damaged.", why=str(error), fix="delete that file, and it is measured again."
            ) from error

    def write(self, number: int, found: Replication, seconds: float) -> None:
        """Keep a replication.

        Raises:
            MotionkitError: It cannot be written (exit code 1).
        """
        parts = {"metrics": found.metrics, "ground_truth": found.truth}
        document = {name: vars(sheet) for name, sheet in parts.items()}
        self._write(f"{FOLDER}/{number:04d}.json", {"replication": number, "seconds": seconds, **document})

    def finish(self, document: Mapping[str, Any], page: str) -> None:
        """Write the result and its page.

        Raises:
            MotionkitError: They cannot be written (exit code 1).
        """
        with disk_errors("write the page", self.path):
            write_bytes_atomic(self.path / PAGE, page.encode())
        record = {"kind": KIND, "schema": 1, "status": "done", "settings": self._key, "result": dict(document)}
        self._write(RECORD, record)

    def _before(self) -> dict[str, Any] | None:
        """Return the record of an evaluation that may go on or be replaced; None for a new place."""
        if self.path.exists() and not self.path.is_dir():
            raise MotionkitError(f"--out {self.path} is a file.", fix="choose another --out.")
        if not self.path.is_dir() or not {file.name for file in self.path.iterdir()} - {FOLDER, LOCK}:
            return None  # new, or stopped before anything was measured
        record: dict[str, Any] = {}
        if (self.path / RECORD).is_file():
            record = read_json(self.path / RECORD, dict, fix="choose another --out.")
        if record.get("kind") != KIND:
            raise MotionkitError(f"{self.path} exists and holds something else.", fix="choose another --out.")
        if self._overwrite:
            return record
        if record.get("status") == "done":
            raise MotionkitError(
                f"{self.path} holds a finished evaluation.", fix="choose another --out, or --overwrite it."
            )
        settings = record.get("settings")
        changed = [
            name for name, value in self._key.items() if not isinstance(settings, dict) or settings.get(name) != value
        ]
        if changed:
            raise MotionkitError(
                f"{self.path} holds an evaluation with another {', '.join(changed)}.",
                why="its replications would not be repetitions of one thing.",
                fix="give the same options to go on, choose another --out, or --overwrite it.",
            )
        return record

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"
        with disk_errors(f"write {name}", self.path):
            write_bytes_atomic(self.path / name, text.encode(errors="backslashreplace"))


def _sheet(document: Mapping[str, Any]) -> Sheet:
    values = {str(name): float(value) for name, value in document["values"].items()}
    missing, notes = ({str(k): str(v) for k, v in document[name].items()} for name in ("missing", "notes"))
    return Sheet(values, missing, notes)
