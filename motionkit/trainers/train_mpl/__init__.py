"""The motion predictor's room: advice for its settings. The trainer itself comes later."""

from motionkit.trainers.train_mpl._advice import PredictorAdvisor, suggest
from motionkit.trainers.train_mpl._schedule import schedule_problems

__all__ = ["PredictorAdvisor", "schedule_problems", "suggest"]
