"""The heavy half of the motion predictor: imports torch."""

from motionkit.policies.mpl._course import Course
from motionkit.policies.mpl._factory import open_predictor
from motionkit.policies.mpl._features import Statistics
from motionkit.policies.mpl._network import MplNetwork
from motionkit.policies.mpl._policy import MplPredictor
from motionkit.policies.mpl._predicted import Predicted
from motionkit.policies.mpl._roll_out import roll_out, teach
from motionkit.policies.mpl._store import ARTIFACT

__all__ = [
    "ARTIFACT",
    "Course",
    "MplNetwork",
    "MplPredictor",
    "Predicted",
    "Statistics",
    "open_predictor",
    "roll_out",
    "teach",
]
