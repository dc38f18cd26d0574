"""What others use of the predictor's trainer beside its command: advice for its settings. Imports torch."""

from motionkit.trainers.train_mpl._advice import PredictorAdvisor, suggest
from motionkit.trainers.train_mpl._schedule import schedule_problems

__all__ = ["PredictorAdvisor", "schedule_problems", "suggest"]
