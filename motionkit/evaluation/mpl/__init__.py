"""Motion predictors measured at horizons, beside baselines that every table shows."""

from motionkit.evaluation.mpl._data import EvalData, find_predictor, open_eval_data, open_predictor
from motionkit.evaluation.mpl._horizons import Horizons
from motionkit.evaluation.mpl._run import evaluate

__all__ = ["EvalData", "Horizons", "evaluate", "find_predictor", "open_eval_data", "open_predictor"]
