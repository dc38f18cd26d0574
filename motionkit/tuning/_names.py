"""Names in the folder of a study."""

from __future__ import annotations

PLAN = "study.json"
JOURNAL = "journal.log"
TRIALS, SEEDS, WORKERS = "trials", "seeds", "workers"
"""Folders: runs of trials, runs of the winner and the base with other seeds, locks and output of processes."""

HISTORY, BEST_JSON, BEST_TOML = "history.json", "best.json", "best.toml"
