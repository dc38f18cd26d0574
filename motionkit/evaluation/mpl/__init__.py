"""Motion predictors measured at horizons, beside baselines that every table shows."""

from motionkit.evaluation.mpl._data import EvalData, find_predictor, open_eval_data, open_predictor
from motionkit.evaluation.mpl._figures import Body
from motionkit.evaluation.mpl._folder import write_folder
from motionkit.evaluation.mpl._guide import FreeRunSettings, evaluate_freerun, evaluate_teacher, free_figures
from motionkit.evaluation.mpl._horizons import Horizons
from motionkit.evaluation.mpl._kept import FILE, KeptClip, KeptPath, Predictions
from motionkit.evaluation.mpl._measure import Measured, Row, fit_baselines, measure, measure_row
from motionkit.evaluation.mpl._predict import continue_clip
from motionkit.evaluation.mpl._run import evaluate

__all__ = [
    "FILE",
    "Body",
    "EvalData",
    "FreeRunSettings",
    "Horizons",
    "KeptClip",
    "KeptPath",
    "Measured",
    "Predictions",
    "Row",
    "continue_clip",
    "evaluate",
    "evaluate_freerun",
    "evaluate_teacher",
    "find_predictor",
    "fit_baselines",
    "free_figures",
    "measure",
    "measure_row",
    "open_eval_data",
    "open_predictor",
    "write_folder",
]
