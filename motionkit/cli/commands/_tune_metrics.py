"""``motionkit tune --metrics RUN``: the guide's rules applied to the figures of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def run_metrics(
    run: Path, *, base: Path | None = None, write_config: Path | None = None, dry_run: bool = False
) -> Mapping[str, Any]:
    """Adjust settings by the recorded figures of a run.

    Args:
        run: Run of train-mpl, or a metrics folder, the guide's included.
        base: Settings file to adjust; by default the run's own settings.
        write_config: File that the result is written into; nothing is written without it.
        dry_run: Only say what would change.

    Returns:
        The document of the command, with ``table`` and ``closing`` for people; see `settings_command`.

    Raises:
        MotionkitError: There are no figures or settings, or the file cannot be written.
    """
    from motionkit.tuning._recorded import apply_rules, open_recorded, write_adjusted

    recorded = open_recorded(run, base)
    found = apply_rules(recorded)
    rows = recorded.rows(found.changes)
    lasting = [f"long runs, which no rule reads: {text}" for text in recorded.long]
    closing = [*found.notes, *lasting, f"figures of {recorded.metrics}, settings of {recorded.base}"]
    written = None
    if not rows:
        closing.append("nothing to change: no figure that depends on the model is too high.")
    elif write_config is None or dry_run:
        closing.append("nothing was written" + ("." if dry_run else "; --write-config FILE writes the result."))
    else:
        closing.append(write_adjusted(write_config, recorded, found))
        written = str(write_config)
    return {
        "metrics": str(recorded.metrics),
        "base": str(recorded.base),
        "changes": [
            {"key": key, "before": before, "after": after, "evidence": evidence}
            for key, before, after, evidence in rows
        ],
        "notes": list(found.notes),
        "long_alarms": list(recorded.long),
        "stages": found.stages if found.staged else [],
        "written": written,
        "table": {
            "title": f"{len(rows)} changes",
            "columns": ["setting", "before", "after", "evidence"],
            "rows": [(key, f"{before:g}", f"{after:g}", evidence) for key, before, after, evidence in rows],
        }
        if rows
        else None,
        "closing": closing,
    }
