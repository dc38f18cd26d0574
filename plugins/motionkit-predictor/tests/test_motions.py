"""Clips and windows for the motion predictor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.mpl import write_mpl_npz
from motionkit.geometry import rotate_yaw
from motionkit.motion import Clip, JointMotion, Motion
from motionkit.rigs import body_yaw
from motionkit.starter import Order, perform
from motionkit_predictor.data.clips import clip_set, cut_windows, motion_state
from motionkit_predictor.data.files import _motion, open_clip_set, read_clip_set, starter_clip_set
from motionkit_predictor.states import state_positions


def starter_motion(name: str = "walk/normal", frames: int = 70, seed: int = 0) -> Motion:
    return _motion(perform([Order(name, frames, seed)], fps=30.0)[0])


def test_a_state_is_the_motion_without_its_place_and_direction() -> None:
    motion = starter_motion()
    state, known = motion_state(motion)
    assert known
    yaw = body_yaw(motion)
    assert yaw is not None
    places = motion.positions()
    # Seen from the frame before the first window frame: where its root stands, and where it faces.
    origin = places[9, 0] * torch.tensor([1.0, 0.0, 1.0])
    seen = rotate_yaw(places[10:] - origin, -yaw[9])
    torch.testing.assert_close(state_positions(state.part(10), motion.offsets, motion.parents), seen)
    turned = replace(
        motion,
        rotations=torch.cat([_turn(1.1) @ motion.rotations[:, :1], motion.rotations[:, 1:]], dim=1),
        translations=torch.cat(
            [(_turn(1.1) @ motion.translations[:, :1, :, None]).squeeze(-1) + 3.0, motion.translations[:, 1:]], dim=1
        ),
    )
    other, _ = motion_state(turned)
    torch.testing.assert_close(other.rotations, state.rotations)
    torch.testing.assert_close(other.steps, state.steps)


def _turn(angle: float) -> torch.Tensor:
    from motionkit.geometry import yaw_matrix

    return yaw_matrix(torch.tensor(angle, dtype=torch.float64))


def test_windows_hold_what_is_known_and_then_what_follows() -> None:
    clips = clip_set("two", [("a", Clip(starter_motion(frames=70))), ("b", Clip(starter_motion(frames=61)))], 30.0)
    windows = cut_windows(clips.clips, past=25, future=30, stride=5)
    assert len(windows) == 4 + 2
    assert windows.clip.tolist() == [0, 0, 0, 0, 1, 1]
    index = torch.tensor([3, 5])
    whole = windows.known(index).then(windows.following(index))
    for row, (clip, start) in enumerate([(0, 15), (1, 5)]):
        assert torch.equal(whole.steps[row], clips.clips[clip].state.steps[start : start + 55])
    later = windows.known(index, shift=4).then(windows.following(index, shift=4))
    assert torch.equal(later.rotations, whole.rotations[:, 4:])
    assert windows.whole().tolist() == list(range(6))


def test_short_clips_are_filled_up_masked_and_named() -> None:
    motions = {"short": 40, "shorter": 12, "one": 1, "long": 60}
    clips = clip_set("set", [(key, Clip(starter_motion().cut(0, count))) for key, count in motions.items()], 30.0)
    windows = cut_windows(clips.clips, past=25, future=30, stride=5)
    assert windows.short == ("short", "shorter")
    assert windows.left_out == ("one",)
    assert windows.valid.tolist() == [15, 1, 30, 30]
    first = windows.known(torch.tensor([1]))
    state = clips.clips[1].state
    assert torch.equal(first.rotations[0, 14:], state.rotations[:11])
    assert torch.equal(first.rotations[0, :14], state.rotations[:1].expand(14, -1, -1, -1))
    assert not first.steps[0, :14].any()
    assert torch.equal(windows.following(torch.tensor([1])).heights[0, :1], state.heights[11:])
    assert windows.whole().tolist() == [2, 3]
    with pytest.raises(MotionkitError, match="two frames"):
        cut_windows(clips.clips[2:3], past=25, future=30, stride=5)


def test_what_follows_a_window_goes_on_to_the_end_of_its_clip_and_leads_on() -> None:
    motions = {"long": 70, "short": 40}
    clips = clip_set("set", [(key, Clip(starter_motion().cut(0, count))) for key, count in motions.items()], 30.0)
    windows = cut_windows(clips.clips, past=25, future=30, stride=5)
    assert windows.spans.tolist() == [[0, 70], [70, 110]]
    ways = windows.last_ways(10)
    assert torch.allclose(ways[1], clips.clips[1].state.steps[30:40].mean(0))
    state, real = windows.onward(torch.tensor([1, 4]), 50, ways)  # windows from frames 5 and 0
    assert real.tolist() == [40, 15]
    for row, (clip, first) in enumerate([(0, 30), (1, 25)]):
        own, count = clips.clips[clip].state, int(real[row])
        assert torch.equal(state.steps[row, :count], own.steps[first:])
        assert torch.equal(state.rotations[row, :count], own.rotations[first:])
        assert torch.equal(state.steps[row, count:], ways[clip].expand(50 - count, 3))
        assert torch.equal(state.rotations[row, count:], own.rotations[-1:].expand(50 - count, -1, -1, -1))


def test_mixed_skeletons_and_clips_without_rotations_are_refused() -> None:
    motion = starter_motion()
    other = replace(motion, names=("hips", *motion.names[1:]))
    joints = JointMotion(motion.names, motion.parents, motion.positions(), 30.0)
    broken = replace(motion, translations=motion.translations * torch.nan)
    for motions, word in (((motion, other), "a folder for each"), ((joints,), "positions"), ((broken,), "not finite")):
        with pytest.raises(MotionkitError) as raised:
            clip_set("set", [(f"clip{number}", Clip(one)) for number, one in enumerate(motions)], 30.0)
        assert word in raised.value.sentence()


def test_contacts_that_nobody_knows_are_said_to_be_unknown() -> None:
    motion = starter_motion()
    nameless = replace(motion, names=tuple(f"bone{joint}" for joint in range(22)), tracks={})
    clips = clip_set("set", [("a", Clip(nameless))], 30.0)
    assert not clips.clips[0].contacts_known
    assert "no foot contacts" in clips.notes[0]
    assert clips.clips[0].state.contacts.unique().tolist() == [0.5]


def test_a_folder_of_the_predictors_files_keeps_splits_and_rates(tmp_path: Path) -> None:
    for number, split in enumerate(("train", "train", "test", "")):
        clip = Clip(starter_motion(seed=number).resample(60.0), split=split, group="take")
        write_mpl_npz(tmp_path / f"clip{number}.npz", clip, source_hash="")
    clips = read_clip_set([tmp_path], fps=30.0)
    assert [clip.split for clip in clips.clips] == ["train", "train", "test", "test"]
    assert clips.names == starter_motion().names
    expected, _ = motion_state(starter_motion(seed=2))
    torch.testing.assert_close(clips.clips[2].state.rotations, expected.rotations, atol=1e-5, rtol=0)
    with pytest.raises(MotionkitError) as raised:
        clips.split("val")
    assert "train 2, test 2" in raised.value.why


def test_the_starter_gives_clips_of_every_class_with_its_own_contacts() -> None:
    clips = starter_clip_set(30.0, ("val",))
    assert len(clips.clips) == 144
    assert not clips.notes
    assert all(clip.contacts_known and 60 <= clip.state.frames <= 182 for clip in clips.clips)


def test_without_a_rate_the_clips_keep_theirs_if_it_is_one() -> None:
    motion = starter_motion(frames=40)
    own = clip_set("made", [("a", Clip(motion)), ("b", Clip(motion.cut(0, 20)))], 0)
    assert own.fps == 30.0
    assert own.clips[0].state.frames == 40
    with pytest.raises(MotionkitError) as caught:
        clip_set("made", [("a", Clip(motion)), ("b", Clip(motion.resample(20.0)))], 0)
    assert caught.value.why == "20 fps: 1 clips (b, ...); 30 fps: 1 clips (a, ...)."
    assert open_clip_set(["starter"], 0, ("val",)).fps == 30.0


def test_a_clip_set_has_the_gaits_that_its_files_say() -> None:
    motion = starter_motion(frames=4)
    action = torch.tensor([[0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
    said = replace(motion, tracks={**motion.tracks, "action": action})
    other = replace(motion, tracks={**motion.tracks, "action": torch.ones(4, 7)})
    found = clip_set("made", [("said", Clip(said)), ("silent", Clip(motion)), ("other", Clip(other))], 30.0)
    gaits = [clip.gait for clip in found.clips]
    assert gaits[0] is not None
    assert gaits[0].tolist() == [[0, 1, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert gaits[1:] == [None, None]
