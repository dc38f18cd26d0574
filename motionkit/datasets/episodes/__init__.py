"""Episodes that cameras saw, with the success of each frame: what `reward-collect` writes and `reward-train` reads.

Needs numpy, no torch. docs/reward-models.md describes the files.
"""

from motionkit.datasets.episodes._collector import Collector, Quota
from motionkit.datasets.episodes._export import export_trajectories, open_whole
from motionkit.datasets.episodes._labels import label_episodes
from motionkit.datasets.episodes._lerobot import is_lerobot
from motionkit.datasets.episodes._lerobot_write import export_lerobot
from motionkit.datasets.episodes._open import is_episodes, open_episodes
from motionkit.datasets.episodes._read import Episodes
from motionkit.datasets.episodes._records import ARTIFACT, LABEL_RULE, ColumnName, EpisodeRecord, Manifest, task_of
from motionkit.datasets.episodes._trajectories import Trajectories, import_trajectories, open_trajectories

__all__ = [
    "ARTIFACT",
    "LABEL_RULE",
    "Collector",
    "ColumnName",
    "EpisodeRecord",
    "Episodes",
    "Manifest",
    "Quota",
    "Trajectories",
    "export_lerobot",
    "export_trajectories",
    "import_trajectories",
    "is_episodes",
    "is_lerobot",
    "label_episodes",
    "open_episodes",
    "open_trajectories",
    "open_whole",
    "task_of",
]
