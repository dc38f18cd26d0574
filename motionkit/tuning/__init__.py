"""Searches over a trainer's settings with Optuna, which is imported only when a search runs."""

from motionkit.tuning._base import Base, open_base
from motionkit.tuning._plan import BEST_TOML, PLAN, Plan, Pruner, Sampler, make_plan, read_plan, read_space, save_plan
from motionkit.tuning._result import Result, diff_lines, study_page, write_config
from motionkit.tuning._search import Finished, default_jobs, search
from motionkit.tuning._storage import delete_studies, open_study
from motionkit.tuning._work import Worker, is_busy

__all__ = [
    "BEST_TOML",
    "PLAN",
    "Base",
    "Finished",
    "Plan",
    "Pruner",
    "Result",
    "Sampler",
    "Worker",
    "default_jobs",
    "delete_studies",
    "diff_lines",
    "is_busy",
    "make_plan",
    "open_base",
    "open_study",
    "read_plan",
    "read_space",
    "save_plan",
    "search",
    "study_page",
    "write_config",
]
