"""The page of a run: one HTML file made from its folder, and a page that compares several runs.

What is shown follows from what the folder holds, so a trainer of any package gets its results, curves, alarms, settings
and environment; held-out motions in ``heldout/before.npz`` and ``after.npz`` are played side by side, with real ones of
the same actions in ``real.npz``, and a motion predictor's in ``heldout/predictions.npz`` over the truth; a success
classifier's worst errors are in ``figures``. A trainer that wants another page names it in its `Component`.
"""

from motionkit.report._card import hub_files, write_hub_folder
from motionkit.report._page import run_page, write_comparison, write_report
from motionkit.report._predictor import write_evaluation
from motionkit.report._regions import write_region_evaluation
from motionkit.report._sensitivity import write_sensitivity
from motionkit.report._success import write_reward_evaluation

__all__ = [
    "hub_files",
    "run_page",
    "write_comparison",
    "write_evaluation",
    "write_hub_folder",
    "write_region_evaluation",
    "write_report",
    "write_reward_evaluation",
    "write_sensitivity",
]
