"""`motionkit pretrain t2m-evaluator`: training of a text-to-motion evaluator."""

from motionkit.plugins import Component
from motionkit.trainers.pretrain.t2m_evaluator._settings import PretrainEvaluatorSettings

component = Component(
    summary="Train a text-to-motion evaluator on a dataset (Guo et al.): R-precision, MM-Dist, FID.",
    options=PretrainEvaluatorSettings,
    factory="motionkit.trainers.pretrain.t2m_evaluator._trainer:PretrainEvaluator",
)
