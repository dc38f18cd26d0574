"""Fingerprints of what a run of grpo reads, by setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from motionkit.datasets.base import TextMotionDataset
from motionkit.datasets.content import clips_fingerprint, is_generated, prompt_fingerprint
from motionkit.policies.base import DiffusionPolicy
from motionkit.runs import fingerprint_tensors
from motionkit.text import Prompt
from motionkit.trainers.base import dataset_inputs, inputs_of
from motionkit.trainers.grpo._settings import GrpoSettings


def fingerprints(
    settings: GrpoSettings,
    dataset: TextMotionDataset,
    prompts: Sequence[Prompt],
    policy: DiffusionPolicy,
    reference: DiffusionPolicy | None,
    rewards: Mapping[str, Any],
) -> dict[str, str]:
    """Return the fingerprints of data, weights and rewards; those of the judge are added where it is opened.

    Args:
        settings: All settings.
        dataset: The dataset.
        prompts: Those that are trained on.
        policy: As it starts, without adapters.
        reference: What KL is measured to, where it is another policy.
        rewards: The rewards by their setting, such as ``reward.tmr-dense``.
    """
    chosen = {"policy": settings.policy, **{f"reward.{one.name}": one for one in settings.reward}}
    found = inputs_of({"policy": policy, **rewards}, chosen)
    if reference is not None:
        found["policy.reference"] = fingerprint_tensors(reference.tensors())
    splits = [settings.prompts.split, *([settings.heldout.split] if settings.heldout.prompts else [])]
    read = [] if is_generated(dataset) else [clips_fingerprint(dataset.clips(split)) for split in splits]
    found |= dataset_inputs(settings.dataset, dataset, *read, *map(prompt_fingerprint, prompts))
    # A run may be resumed on a machine with other devices: where a reward is does not change its scores' meaning.
    return found | {f"reward.{one.name}.device": "any" for one in settings.reward if hasattr(one.options, "device")}
