"""The model that is saved here for others: the success classifier."""

from __future__ import annotations

from motionkit.runs.forms import ModelForm

MODELS = (
    ModelForm(
        "classifier",
        "classifier.json",
        "a success classifier of camera pictures",
        "motionkit ppo --reward success-classifier --reward.checkpoint FOLDER",
        tags=("reward-model",),
        blind="What its checks found stands above; other episodes: `motionkit eval reward FOLDER`.",
    ),
)
