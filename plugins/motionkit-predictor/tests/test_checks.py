"""`check_predictor`: what follows the contract passes, and each violation is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from motionkit_predictor.checks import check_predictor
from motionkit_predictor.evaluation.baselines import Extrapolation
from motionkit_predictor.network.features import Statistics
from motionkit_predictor.network.predictor import PredictorNetwork
from motionkit_predictor.policy import MplPredictor
from motionkit_predictor.settings import PredictorSettings
from motionkit_predictor.states import MotionState

NAMES = ("hips", "spine", "head")


def test_a_baseline_and_a_network_follow_it() -> None:
    check_predictor(Extrapolation(NAMES, 30.0, keep=0.5))
    settings = PredictorSettings(width=32, window=4, heads=2, shot=0.1, cosines=2)
    network = PredictorNetwork(settings, 3, 30.0, Statistics.neutral(3))
    check_predictor(MplPredictor(settings, network, names=NAMES, parents=(-1, 0, 1), offsets=torch.zeros(3, 3)))


class _Bad(Extrapolation):
    def __init__(self, fault: str) -> None:
        super().__init__(NAMES, 30.0, keep=0.5)
        self._fault, self._asked = fault, 0

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        found = super().predict(known, frames + (self._fault == "frames"), command=command)
        self._asked += 1
        match self._fault:
            case "finite":
                return replace(found, heights=found.heights * torch.nan)
            case "rotation":
                return replace(found, rotations=found.rotations * 1.1)
            case "input":
                known.heights.add_(1.0)
            case "answers":
                return replace(found, heights=found.heights + self._asked)
            case "samples":
                return replace(found, steps=found.steps + len(known.heights))
        return found


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("frames", "must be"), ("finite", "must be finite"), ("rotation", "orthonormal"),
        ("input", "changed the heights"), ("answers", "two answers"), ("samples", "depend on the other samples"),
    ],
)  # fmt: skip
def test_a_violation_is_named(fault: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_predictor(_Bad(fault))
