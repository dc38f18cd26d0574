"""The heavy half of the motion predictor: imports torch."""

from motionkit.policies.mpl._course import Course
from motionkit.policies.mpl._delta import Delta
from motionkit.policies.mpl._factory import open_predictor
from motionkit.policies.mpl._features import Statistics
from motionkit.policies.mpl._network import PredictorNetwork
from motionkit.policies.mpl._one_shot import OneShot
from motionkit.policies.mpl._period import periods
from motionkit.policies.mpl._policy import MplPredictor
from motionkit.policies.mpl._predicted import Predicted
from motionkit.policies.mpl._roll_out import roll_out, teach
from motionkit.policies.mpl._store import ARTIFACT
from motionkit.policies.mpl._trunk import Trunk

__all__ = [
    "ARTIFACT",
    "Course",
    "Delta",
    "MplPredictor",
    "OneShot",
    "Predicted",
    "PredictorNetwork",
    "Statistics",
    "Trunk",
    "open_predictor",
    "periods",
    "roll_out",
    "teach",
]
