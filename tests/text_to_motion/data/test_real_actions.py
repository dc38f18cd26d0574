"""What reference clips of an action do, by name and by caption, and motions measured against it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from motionkit.contracts.dataset import TextClip
from motionkit.metrics import joint_range, movement
from motionkit.motion import HUMANML, MotionBatch, joints_to_features
from motionkit.starter import generate
from motionkit.text import Prompt
from motionkit.text_to_motion.data.real_actions import RealActions


def _features(action: str, frames: int, seed: int = 0) -> Tensor:
    joints = torch.from_numpy(generate(action, frames=frames + 1, seed=seed).joints)
    return joints_to_features(joints, HUMANML, target=False).float()


def _clip(features: Tensor, captions: tuple[str, ...]) -> TextClip:
    return TextClip(captions[0], features, captions)


CLIPS = [
    _clip(_features("wave/left", 60), ("a man waves with the left hand", "left hand waves")),
    _clip(_features("wave/left", 48, 1), ("she waves the left hand",)),
    _clip(_features("wave/right", 60), ("a man waves with the right hand",)),
    _clip(_features("walk/normal", 60), ("a man walks",)),
    _clip(_features("nod/yes", 60), ("a man nods",)),
]


def _batch(*features: Tensor) -> MotionBatch:
    lengths = torch.tensor([len(one) for one in features])
    padded = torch.nn.utils.rnn.pad_sequence(list(features), batch_first=True, padding_value=torch.nan)
    return MotionBatch(padded, lengths, skeleton=HUMANML, fps=20.0)


def _still(features: Tensor) -> Tensor:
    return features[:1].expand_as(features).clone()


def test_an_action_is_known_by_its_nearest_captions_of_the_same_side() -> None:
    real = RealActions(CLIPS, HUMANML, 20.0)
    found = real.of("someone waves with the left hand")
    assert found.clips == (0, 1)
    batch = _batch(*(CLIPS[number].features for number in found.clips))
    each = movement(batch.joints, batch.headings, batch.lengths, 20.0).mean(0)
    assert HUMANML.joint_names[found.joint] == "left_wrist"
    assert found.movement == pytest.approx(float(each.max()))
    ranges = joint_range(batch.joints, batch.headings, batch.lengths)
    assert found.range == pytest.approx(float(ranges.amax(1).min()))  # the lower median of two
    assert real.of("someone waves with the right hand").clips == (2,)
    nothing = real.of("xylophone")
    assert nothing.clips == ()
    assert math.isnan(nothing.movement)
    assert math.isnan(nothing.range)


def test_an_action_with_a_name_is_known_by_its_name() -> None:
    names = {caption: f"class {number}" for number, clip in enumerate(CLIPS) for caption in clip.captions}
    real = RealActions(CLIPS, HUMANML, 20.0, action=lambda text: names.get(text, ""))
    assert real.of("left hand waves").clips == (0,)
    assert real.of("someone waves with the left hand").clips == (0, 1)  # no name: by caption


def test_real_motions_move_like_themselves_and_statues_do_not() -> None:
    real = RealActions(CLIPS, HUMANML, 20.0, action=lambda text: text)
    clips = (CLIPS[0], CLIPS[3], CLIPS[4])
    prompts = [Prompt((clip.captions[0],), (60,)) for clip in clips]
    found = real.measure(_batch(*(clip.features for clip in clips)), prompts)
    torch.testing.assert_close(found["movement"][:2], torch.ones(2))
    assert found["movement"][2].isnan()  # a nod moves nothing by 2 cm
    assert found["statues"][:2].tolist() == [0.0, 0.0]
    assert found["statues"][2].isnan()
    assert found["side"][0] == 1.0
    assert found["side"][1:].isnan().all()
    still = real.measure(_batch(*(_still(clip.features) for clip in clips)), prompts)
    assert float(still["movement"][:2].max()) < 0.01
    assert still["statues"][:2].tolist() == [1.0, 1.0]
    assert still["side"][0] == 0.0


def test_segments_are_measured_each_and_averaged() -> None:
    real = RealActions(CLIPS, HUMANML, 20.0)
    walk, wave = CLIPS[3].features, CLIPS[2].features
    prompt = Prompt(("a man walks", "a man waves with the right hand"), (60, 60))
    wrong = Prompt(("a man walks", "a man waves with the left hand"), (60, 60))
    made = torch.cat([walk, _still(wave)])
    both = torch.cat([walk, wave])
    found = real.measure(_batch(made, both, both), [prompt, prompt, wrong])
    assert found["movement"].tolist() == pytest.approx([0.5, 1.0, (1.0 + _share(real, wave)) / 2], abs=0.02)
    assert found["statues"].tolist() == [0.5, 0.0, 0.0]
    assert found["side"].tolist() == [0.0, 1.0, 0.0]


def _share(real: RealActions, features: Tensor) -> float:
    """Return what the left hand's swing in a wave of the right hand is of that in a wave of the left."""
    batch = _batch(features)
    own = movement(batch.joints, batch.headings, batch.lengths, 20.0)[0, HUMANML.limbs["arm"][0]]
    return float(own) / real.of("a man waves with the left hand").movement
