"""Motion predictor: light half, imports no torch."""

from __future__ import annotations

from pydantic import Field

from motionkit.config import Group
from motionkit.plugins import Component


class MplOptions(Group):
    """Where a motion predictor comes from."""

    checkpoint: str = Field(default="", description="Run of train-mpl, one of its checkpoints, or a policy folder.")


component = Component(
    summary="Motion predictor: a run of train-mpl, or its exported folder",
    options=MplOptions,
    factory="motionkit.policies.mpl._factory:open_predictor",
    gives="predictor",
    exports={
        "safetensors": "motionkit.policies.mpl._export:export_weights",
        "numpy": "motionkit.policies.mpl._export:export_numpy",
        "onnx": "motionkit.policies.mpl._export:export_onnx",
    },
)
