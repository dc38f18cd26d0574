"""The models that are saved here: the small policy, and what training changed of a Sa2VA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from motionkit.documents import value_at
from motionkit.errors import MotionkitError
from motionkit.runs.forms import POLICY, POLICY_DOCUMENT, ModelForm


def _refuse_without_base(path: str, document: Mapping[str, Any]) -> None:
    """Refuse what was trained on a Sa2VA that nobody else has: `document` names no place of its base."""
    if not value_at(document, "base", "place"):
        raise MotionkitError(
            f"{path} was trained on a Sa2VA in a folder of this machine, which nobody else has.",
            fix="train with --policy.checkpoint ORG/NAME of the hub, or --to hf, which writes the whole model.",
        )


MODELS = (
    ModelForm(
        POLICY,
        POLICY_DOCUMENT,
        "a small policy that captions and segments regions",
        "motionkit eval sa2va FOLDER",
        tags=("image-segmentation",),
        word="regions",
        plugin=("policies", "tiny-sa2va"),
    ),
    ModelForm(
        POLICY,
        POLICY_DOCUMENT,
        "what training changed of a Sa2VA",
        "motionkit eval sa2va FOLDER",
        tags=("image-segmentation", "sa2va"),
        word="sa2va",
        plugin=("policies", "sa2va"),
        refuse=_refuse_without_base,
    ),
)
