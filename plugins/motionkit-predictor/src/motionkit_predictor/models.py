"""The models that are saved here: the predictor and its encoder."""

from __future__ import annotations

from motionkit.runs.forms import POLICY, POLICY_DOCUMENT, ModelForm

MODELS = (
    ModelForm(
        "encoder",
        "encoder.json",
        "a motion encoder: phase, gait and next pose",
        "motionkit train-mpl --encoder FOLDER",
        tags=("motion-prediction",),
    ),
    ModelForm(
        POLICY,
        POLICY_DOCUMENT,
        "a motion predictor",
        "motionkit predict FOLDER motion.html",
        tags=("motion-prediction",),
        word="mpl",
        plugin=("policies", "mpl"),
    ),
)
