"""The TMR that ships with the starter pack, on the starter's held-out clips."""

from __future__ import annotations

import pytest
import torch

from motionkit import plugins
from motionkit.motion import MotionBatch
from motionkit.starter import weights_path
from motionkit.text import Prompt
from motionkit.text_to_motion.rewards.components import DenseOptions
from motionkit.text_to_motion.rewards.joint_space import TmrDense


@pytest.fixture(scope="module")
def scored():
    """Dense scores of 48 held-out clips: with their own captions, and each with every other's."""
    assert weights_path("tmr").is_dir()
    component = plugins.get("datasets", "starter")
    dataset = component.build(component.options())
    clips = dataset.clips("val")
    clips = clips[:: max(1, len(clips) // 48)][:48]
    lengths = torch.tensor([len(clip.features) for clip in clips])
    features = torch.nn.utils.rnn.pad_sequence([clip.features for clip in clips], batch_first=True)
    reward = TmrDense(DenseOptions(), dataset=dataset, device="cpu")

    def score(shift):
        texts = [clips[(i + shift) % len(clips)].captions[0] for i in range(len(clips))]
        prompts = [Prompt((text,), (int(length),)) for text, length in zip(texts, lengths, strict=True)]
        return reward.score(MotionBatch(features, lengths, skeleton=dataset.skeleton, fps=dataset.fps), prompts).total

    return score(0), torch.cat([score(shift) for shift in (7, 19, 31)])


def test_true_motions_score_above_shuffled_ones(scored):
    """Verification test 23: AUC > 0.9."""
    own, other = scored
    assert float((own[:, None] > other[None, :]).double().mean()) > 0.9
