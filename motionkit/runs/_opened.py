"""Notes in a finished run that its model was measured on the test split."""

from __future__ import annotations

from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.runs._lock import hold
from motionkit.runs._origin import now
from motionkit.runs._record import read_record

ENTRY = "test_split_opened"
"""Entry of run.json: one note for each time, oldest first."""


def note_test_split(run: Path, command: str) -> str:
    """Add to run.json that the test split was opened to measure this run's model.

    Args:
        run: Run folder.
        command: What opened it, as it was typed.

    Returns:
        Why it could not be noted; empty when it was.
    """
    try:
        with hold(run):
            record = read_record(run)
            if record is None:
                return f"{run} has no run.json"
            before = (record.model_extra or {}).get(ENTRY)
            notes = before if isinstance(before, list) else []
            record.annotate(**{ENTRY: [*notes, {"when": now(), "command": command}]})
            record.write(run)
    except MotionkitError as error:
        return error.sentence()
    except OSError as error:
        return f"{run}: {error.strerror or error}"
    return ""
