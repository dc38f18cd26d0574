"""Episodes that cameras saw, with the success of each frame: what `reward-collect` writes and `reward-train` reads.

Needs numpy, no torch. docs/reward-models.md describes the files.
"""

from motionkit_success.episodes.collector import Collector, Quota
from motionkit_success.episodes.labels import label_episodes
from motionkit_success.episodes.open import is_episodes, open_episodes, open_whole
from motionkit_success.episodes.read import ARTIFACT, ColumnName, EpisodeRecord, Episodes, task_of
from motionkit_success.episodes.trajectories import Trajectories, export_trajectories, open_trajectories

__all__ = [
    "ARTIFACT",
    "Collector",
    "ColumnName",
    "EpisodeRecord",
    "Episodes",
    "Quota",
    "Trajectories",
    "export_trajectories",
    "is_episodes",
    "label_episodes",
    "open_episodes",
    "open_trajectories",
    "open_whole",
    "task_of",
]
