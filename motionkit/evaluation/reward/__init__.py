"""Success classifiers, measured: held-out figures, and checks that find what ruins a learned reward."""

from motionkit.evaluation.reward._checks import reset_frames, run_checks, shuffled_auroc, verdict
from motionkit.evaluation.reward._data import Episode, Episodes, Split, refuse_one_class
from motionkit.evaluation.reward._figures import FIGURES, curves, figures, heldout_block, intervals
from motionkit.evaluation.reward._folder import write_reward_folder
from motionkit.evaluation.reward._report import RewardReport, measure_classifier
from motionkit.evaluation.reward._score import Scored, score
from motionkit.evaluation.reward._strips import FILE, Strip, load_strips, save_strips, worst_strips

__all__ = [
    "FIGURES",
    "FILE",
    "Episode",
    "Episodes",
    "RewardReport",
    "Scored",
    "Split",
    "Strip",
    "curves",
    "figures",
    "heldout_block",
    "intervals",
    "load_strips",
    "measure_classifier",
    "refuse_one_class",
    "reset_frames",
    "run_checks",
    "save_strips",
    "score",
    "shuffled_auroc",
    "verdict",
    "worst_strips",
    "write_reward_folder",
]
