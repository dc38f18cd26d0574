"""Which of the two trainers of the command settings ask for."""

from __future__ import annotations

from motionkit.trainers.reward_collect._import import ImportEpisodes
from motionkit.trainers.reward_collect._settings import RewardCollectSettings
from motionkit.trainers.reward_collect._trainer import RewardCollect


def open_trainer(settings: RewardCollectSettings) -> RewardCollect | ImportEpisodes:
    """Return what collects episodes, or what imports them."""
    return RewardCollect(settings) if settings.import_from is None else ImportEpisodes(settings)
