"""Statistics of data sets that are known, of real recordings, and the moments below them."""

from __future__ import annotations

import cmath
import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from motionkit.clips import walk as _pool
from motionkit.clips.convert import open_sources
from motionkit.clips.faults import floor_height
from motionkit.clips.profile.document import profile_document, profile_statistics
from motionkit.clips.profile.measure import FIGURES_FPS, Bins, Circle, Moments, measure
from motionkit.clips.profile.run import run_profile
from motionkit.clips.profile.settings_file import BLOCK
from motionkit.clips.profile.statistics import Profile, find_outliers, profile_sources
from motionkit.geometry import unwrap
from motionkit.kernels import physics_sums
from motionkit.motion import KIT
from motionkit.motion.clip import Clip
from motionkit.motion.corpus.captions import CaptionRow
from motionkit.motion.motion import JointMotion

from ...made.bodies import walker
from ...made.bvh_files import write_bvh
from .sets import Source, joints_only, profile_clips, walk, with_track


def test_lengths_speed_and_turn_are_those_of_the_walk() -> None:
    profile = profile_clips([("a", walk(61, 60.0, 1.2)), ("b", walk(241, 60.0, 1.2)), ("c", walk(121, 60.0, 1.2))])
    figures = profile_statistics(profile)
    assert figures["n_clips"] == 3
    assert figures["total_frames"] == 423
    assert figures["avg_seq_len"] == 141
    assert figures["median_seq_len"] == 121
    assert (figures["min_seq_len"], figures["max_seq_len"]) == (61, 241)
    assert figures["speed_mean"] == pytest.approx(1.2, abs=1e-3)
    assert figures["speed_std"] == pytest.approx(0.0, abs=1e-3)
    assert figures["yaw_mean_deg"] == pytest.approx(0.0, abs=3.0)  # hips and shoulders swing against each other
    assert figures["complexity"] == pytest.approx(0.0, abs=0.05)


def test_yaw_is_unwrapped_and_counted_both_ways_round() -> None:
    left, right = walk(301, turn=2.0, speed=0.0), walk(301, turn=-2.0, speed=0.0)
    profile = profile_clips([("left", left), ("right", right)])
    degrees = np.degrees(2.0 * np.arange(301) / 60.0)  # 0 to 573 degrees each way
    assert profile.yaw.mean == pytest.approx(degrees.mean(), abs=1.0)
    assert profile.yaw.std == pytest.approx(degrees.std(), abs=1.0)
    assert profile.facing.mean_deg == pytest.approx(
        math.degrees(math.atan2(0.0, np.cos(np.radians(degrees)).mean())), abs=2.0
    )
    assert profile.rows[0].turned_deg == pytest.approx(degrees[-1], rel=0.02)
    assert profile.complexity == 2.0


@pytest.mark.parametrize("bare", [False, True])
def test_joints_alone_give_the_same_yaw_and_no_angles(bare: bool) -> None:
    clip = walk(121, turn=1.0)
    one = measure(joints_only(clip) if bare else clip, "a", "a")
    assert one.yaw.most == pytest.approx(math.degrees(2.0), abs=2.0)
    assert (one.bone_angle.mean is None) is bare
    assert len(one.joints.angles) == (0 if bare else 22)


def test_a_body_without_known_names_turns_by_its_root() -> None:
    clip = walk(121, turn=1.0)
    nameless = replace(clip, motion=replace(clip.motion, names=tuple(f"j{n}" for n in range(22))))
    assert measure(nameless, "a", "a").yaw.most == pytest.approx(math.degrees(2.0), abs=0.01)
    bare = measure(joints_only(nameless), "a", "a")
    assert bare.yaw.count == 0
    assert bare.row.contact_ratio is None
    assert bare.row.skate is None


def test_a_kit_body_has_a_front_and_feet() -> None:
    joints = walker(100, turn=0.02, skeleton=KIT, sway=0.05)
    one = measure(Clip(JointMotion(KIT.joint_names, KIT.parents, joints, KIT.fps)), "a", "a")
    assert one.row.turned_deg == pytest.approx(math.degrees(99 * 0.02), rel=0.1)
    assert one.row.contact_ratio is not None
    assert one.joints.rig.name.startswith("21 joints")


def test_a_folder_of_features(shared: Path) -> None:
    folder = shared / "fixtures" / "mdm" / "mini_humanml3d" / "dataset" / "HumanML3D"
    files = sorted((folder / "new_joint_vecs").glob("*.npy"))
    lengths = [len(np.load(file)) for file in files]
    profile = profile_sources(open_sources([folder]).sources)
    assert profile.lengths == lengths
    assert profile.failed == {}
    lines = [line for file in files for line in (folder / "texts" / f"{file.stem}.txt").read_text().splitlines()]
    assert profile.captions.captions == sum(bool(line.strip()) for line in lines)
    listed = {name: set((folder / f"{name}.txt").read_text().split()) for name in ("train", "val", "test")}
    assert profile.splits() == {name: len(ids) for name, ids in listed.items()}
    document = profile_document(profile)
    several = {key: [name for name in listed if key in listed[name]] for key in set.union(*listed.values())}
    twice = {key: names for key, names in several.items() if len(names) > 1}
    assert twice
    assert document["listed_twice"] == twice
    assert document["leaks"] == sorted(twice)


def test_a_file_s_own_yaw_velocity_and_contacts_are_taken() -> None:
    yaw = torch.linspace(0.5, 1.5, 121)
    contacts = torch.zeros(121, 2)
    contacts[:30, 0], contacts[20:60, 1] = 0.9, 0.8
    clip = with_track(with_track(walk(121), "root_yaw", yaw), "contacts", contacts)
    one = measure(with_track(clip, "root_velocity", torch.tensor([3.0, 4.0]).repeat(121, 1)), "a", "a")
    assert one.speed.mean == pytest.approx(5.0)
    assert one.speed.count == 121
    assert one.yaw.mean == pytest.approx(math.degrees(1.0), abs=1e-3)
    assert one.facing.mean_deg == pytest.approx(math.degrees(0.5), abs=0.01)  # since the first frame
    assert (one.contacts.left, one.contacts.right, one.contacts.both, one.contacts.neither) == (30, 40, 10, 61)
    assert one.contacts.from_file == 121
    assert one.contacts.ratio == pytest.approx(70 / 242)


@pytest.mark.parametrize(("sideways", "place"), [(0.0, 12), (math.pi / 2, 18), (-math.pi / 2, 6)])
def test_direction_of_travel_is_relative_to_the_front(sideways: float, place: int) -> None:
    clip = walk(121, turn=0.0, speed=1.0)
    motion = clip.motion
    offset = torch.zeros(121, 1, 3, dtype=torch.float64)
    step = torch.arange(121) / 60.0
    offset[:, 0, 0], offset[:, 0, 2] = step * math.sin(sideways), step * (math.cos(sideways) - 1.0)
    # A body that faces +Z has its left at +X.
    moved = joints_only(clip)
    one = measure(replace(moved, motion=replace(moved.motion, joints=motion.positions() + offset)), "a", "a")
    share = one.travel_bins / one.travel_bins.sum()
    assert float(share[place - 1 : place + 2].sum()) > 0.95


def test_joint_ranges_are_quantiles_of_the_angles() -> None:
    clip = walk(241)
    profile = profile_clips([("a", clip)])
    (sums,) = profile.rig_sums()
    rig, clips, frames, ranges = sums.rig, sums.clips, sums.frames, sums.ranges()
    assert (clips, frames, rig.rotations, len(ranges)) == (1, 241, True, 22)
    knee_angle = np.degrees(0.4 * np.abs(np.sin(2 * np.pi * 0.9 * np.arange(241) / 60)))
    hip = next(joint for joint in ranges if joint.joint == "left_hip")
    assert hip.angle_deg == pytest.approx(tuple(np.quantile(knee_angle, (0.05, 0.5, 0.95))), abs=2.0)
    head = next(joint for joint in ranges if joint.joint == "head")
    height = clip.motion.positions()[:, clip.motion.names.index("head"), 1]
    assert head.height_m[1] == pytest.approx(float(height.median()), abs=0.03)


def test_two_skeletons_are_told_apart() -> None:
    clip = walk()
    other = replace(clip, motion=replace(clip.motion, names=tuple(f"{name}_x" for name in clip.motion.names)))
    profile = profile_clips([("a", clip), ("b", other), ("c", other)])
    assert [sums.clips for sums in profile.rig_sums()] == [2, 1]
    assert len({sums.rig.name for sums in profile.rig_sums()}) == 2


def test_what_is_not_finite_is_a_finding_and_spoils_no_figure() -> None:
    clip = walk(121)
    clip.motion.translations[100:] = math.nan
    profile = profile_clips([("a", clip)])
    assert profile_statistics(profile)["speed_mean"] == pytest.approx(1.0, abs=1e-2)
    assert profile.findings()["nan"] == {"error": 1, "warning": 0}
    json.dumps(profile_document(profile), allow_nan=False)


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_the_shortest_clips_do_no_harm(frames: int) -> None:
    profile = profile_clips([("a", walk(frames)), ("b", walk(60))])
    json.dumps(profile_document(profile), allow_nan=False)
    assert profile_statistics(profile)["min_seq_len"] == frames


def test_splits_groups_captions_and_fps_are_counted() -> None:
    profile = profile_clips(
        [
            ("a", walk(60, captions=("a person walks quickly", "someone walks"), split="train", group="g")),
            ("b", walk(60, 30.0, captions=("a person jumps",), split="test", group="g")),
            ("c", walk(60)),
        ]
    )
    document = profile_document(profile)
    assert document["splits"] == {"train": 1, "test": 1, "none": 1}
    assert document["leaks"] == ["g"]
    assert document["fps"] == {"60": 2, "30": 1}
    captions = document["captions"]
    assert captions["count"] == 3
    assert captions["clips_without"] == 1
    assert captions["words_mean"] == pytest.approx(3.0)
    assert captions["vocabulary"] == 6
    assert captions["verbs"] == {"walk": 2, "jump": 1}


def test_an_outlier_is_named_with_its_reason() -> None:
    clips = [(f"c{number}", walk(100 + 7 * number, speed=1.0 + 0.02 * number)) for number in range(12)]
    fast, long = walk(120, speed=6.0), walk(3000, speed=1.1)
    shaken = walk(130, speed=1.1)
    noise = torch.from_numpy(np.random.default_rng(0).normal(0, 0.03, (130, 3)))
    shaken.motion.translations[:, 0] += noise
    profile = profile_clips([*clips, ("fast", fast), ("long", long), ("shaken", shaken)])
    found = {(outlier.clip, outlier.figure): outlier for outlier in profile.outliers()}
    assert {("fast", "speed"), ("long", "seconds"), ("shaken", "jerk")} <= set(found)
    assert "6.00 m/s" in found["fast", "speed"].reason
    assert not [clip for clip, _ in found if clip.startswith("c")]
    assert find_outliers(profile.rows[:5]) == ()  # too few to say what is usual


def test_a_second_group_is_not_called_outliers_one_by_one() -> None:
    clips = [(f"slow{n}", walk(60, speed=0.5 + 0.01 * n)) for n in range(30)]
    clips += [(f"fast{n}", walk(60, speed=8.0 + 0.1 * n)) for n in range(12)]
    fast = [one.clip for one in profile_clips(clips).outliers() if one.figure == "speed"]
    assert fast == ["fast11", "fast10"]  # one in twenty of 42


def test_z_scores_are_those_of_the_formula() -> None:
    lengths = [60, 66, 72, 80, 100, 126, 145, 190, 1900]
    profile = profile_clips([(str(n), walk(n, speed=0.0)) for n in lengths])
    outlier = next(one for one in profile.outliers() if one.figure == "seconds")
    logs = np.log(np.array(lengths) / 60.0 + 0.05)
    spread = np.median(np.abs(logs - np.median(logs)))
    assert outlier.clip == "1900"
    assert outlier.z == pytest.approx(0.6745 * (logs[-1] - np.median(logs)) / spread)


def test_sources_that_cannot_be_read_are_listed_and_the_others_go_on() -> None:
    sources = [
        Source("a", [walk(60)]),
        Source("bad", problem="is broken."),
        Source("two", [walk(60, part="p0"), walk(60, part="p1")]),
    ]
    seen: list[str] = []
    profile = profile_sources(sources, progress=seen.append)
    assert seen == ["a", "bad", "two"]
    assert profile.failed == {"memory bad": "is broken."}
    assert [row.clip for row in profile.rows] == ["a", "two_p0", "two_p1"]


def test_worker_processes_give_the_same_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        write_bvh(tmp_path / f"w{number}.bvh", 40 + 10 * number)
    sources = open_sources([tmp_path]).sources
    alone = profile_document(profile_sources(sources))
    monkeypatch.setattr(_pool, "_TRYING", 0.0)
    monkeypatch.setattr(_pool, "_STARTING", 0.0)
    assert profile_document(profile_sources(sources, jobs=2)) == alone


def test_an_empty_profile_has_figures_too() -> None:
    json.dumps(profile_document(Profile()), allow_nan=False)


def test_real_recordings(shared: Path) -> None:
    folder = shared / "data" / "cmu" / "bvh"
    profile = profile_sources(open_sources([folder / "cs_walking_train_1.bvh", folder / "cc_02_04.bvh"]).sources)
    walking, _ = sorted(profile.rows, key=lambda row: row.clip != "cs_walking_train_1")
    assert walking.speed_mean == pytest.approx(_mean_speed(shared, "cs_walking_train_1"), abs=0.05)
    assert 0.4 < (walking.contact_ratio or 0.0) < 0.85


def _mean_speed(shared: Path, clip: str) -> float:
    with (shared / "data" / "cmu" / "index.csv").open() as file:
        return next(float(row["mean_speed_mps"]) for row in csv.DictReader(file) if row["clip"] == clip)


def test_a_split_of_a_table_settles_what_lists_disagree_on() -> None:
    leaky = walk(60, split="test", splits=("train", "test"))
    settled = leaky.with_row(CaptionRow((), "train", ""))
    profile = profile_clips([("a", settled), ("b", leaky.with_row(CaptionRow(("x",), "", "")))])
    assert profile.splits() == {"train": 2, "test": 1}
    assert list(profile.listed_twice()) == ["b"]


def test_without_an_advisor_nothing_is_suggested_and_the_figures_are_written(tmp_path: Path) -> None:
    config = tmp_path / "mine.json"
    config.write_text('{"epochs": 3}')
    result = run_profile([Source("a", [walk(60)])], html=tmp_path / "a.html", config=config)
    assert json.loads(config.read_text()).keys() == {"epochs", BLOCK}
    assert result.document()["suggested"] == []
    assert not [table.title for table in result.tables() if "suggested" in table.title]
    assert "Suggested settings" not in (tmp_path / "a.html").read_text()


numbers = st.lists(st.floats(-100, 100), min_size=1, max_size=30)


@given(numbers, numbers)
def test_moments_of_two_sets_are_those_of_both_together(first: list[float], second: list[float]) -> None:
    both = Moments.of(torch.tensor(first)) + Moments.of(torch.tensor(second))
    values = np.array(first + second, dtype=np.float32).astype(np.float64)
    assert both.count == len(values)
    assert both.mean == pytest.approx(values.mean(), abs=1e-9)
    assert both.std == pytest.approx(values.std(), abs=1e-5)
    assert (both.least, both.most) == (values.min(), values.max())


def test_no_values_have_no_mean() -> None:
    assert Moments.of(torch.zeros(0)).mean is None
    assert Moments().std is None
    assert Circle().mean_deg is None
    assert Circle().std_deg is None


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=20))
def test_circular_mean_and_std_are_of_the_mean_vector(angles: list[float]) -> None:
    circle = Circle.of(torch.tensor(angles[:3], dtype=torch.float64)) + Circle.of(
        torch.tensor(angles[3:], dtype=torch.float64)
    )
    vector = sum(cmath.exp(1j * angle) for angle in angles) / len(angles)
    if abs(vector) > 1e-6:
        assert circle.length == pytest.approx(abs(vector))
        assert math.cos(math.radians(circle.mean_deg or 0.0) - cmath.phase(vector)) == pytest.approx(1.0)
        expected = math.degrees(math.sqrt(max(-2 * math.log(min(abs(vector), 1.0)), 0.0)))
        assert circle.std_deg == pytest.approx(expected, abs=1e-5)


def test_directions_on_both_sides_of_straight_back_agree() -> None:
    circle = Circle.of(torch.deg2rad(torch.tensor([170.0, -170.0], dtype=torch.float64)))
    assert abs(circle.mean_deg or 0.0) == pytest.approx(180.0)
    assert (circle.std_deg or 0.0) < 11.0


def test_bins_count_every_value_once_and_give_quantiles_back() -> None:
    bins = Bins(-1.0, 0.1, 20)
    values = torch.from_numpy(np.random.default_rng(0).normal(0, 0.4, (3, 5000)))
    counts = bins.tally(values)
    assert counts.sum(1).tolist() == [5000] * 3
    expected = np.histogram(np.clip(values[1].numpy(), -1, 0.9999), np.linspace(-1, 1, 21))[0]
    assert np.abs(counts[1] - expected).max() <= 1  # an edge may fall either way
    for part in (0.05, 0.5, 0.95):
        exact = np.quantile(np.clip(values.numpy(), -1, 1), part, axis=1)
        assert bins.quantile(counts, part) == pytest.approx(exact.tolist(), abs=0.02)


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=40))
def test_unwrapping_undoes_wrapping(steps: list[float]) -> None:
    angle = torch.tensor(steps, dtype=torch.float64).cumsum(0)
    wrapped = torch.atan2(angle.sin(), angle.cos())
    expected = np.unwrap(wrapped.numpy())
    assert unwrap(wrapped).tolist() == pytest.approx(expected.tolist(), abs=1e-9)


def test_a_rig_without_toes_is_profiled_by_its_ankles() -> None:
    """As of files whose rig ends at the feet: an ankle counts once."""
    whole = walk(61, 60.0, 1.2)
    toes = [joint for joint, name in enumerate(whole.motion.names) if name.endswith("_foot")]
    kept = [joint for joint in range(len(whole.motion.names)) if joint not in toes]
    names = tuple(whole.motion.names[joint] for joint in kept)
    parents = tuple(
        kept.index(whole.motion.parents[joint]) if whole.motion.parents[joint] >= 0 else -1 for joint in kept
    )
    motion = JointMotion(names, parents, whole.motion.positions()[:, kept], 60.0)
    row = measure(replace(whole, motion=motion), "a", "a").row
    floor = floor_height(motion.positions(), 60.0)
    joints = motion.resample(FIGURES_FPS).joints - torch.tensor([0.0, floor, 0.0])
    ankles = tuple(names.index(f"{side}_ankle") for side in ("left", "right"))
    skate, _ = physics_sums(joints[None], torch.tensor([len(joints)]), fps=FIGURES_FPS, feet=ankles)
    assert row.skate == pytest.approx(float(skate))
