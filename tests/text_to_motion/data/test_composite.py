"""Composite sets: reference motions, files, and the dataset that reads them."""

from __future__ import annotations

import io
import json
import math
import pickle
import shutil
import zipfile
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import bones_from_positions, rotate_yaw
from motionkit.motion import HUMANML, KIT, Skeleton, features_to_joints, joints_to_features
from motionkit.motion.features.extract import canonicalise
from motionkit.testing import check_dataset
from motionkit.text_to_motion.data.compose import Composed, Plan, compose, planned_files, write_composed
from motionkit.text_to_motion.data.composite import CompositeOptions, component
from motionkit.text_to_motion.data.humanml import HumanMLOptions, humanml
from motionkit.text_to_motion.data.joined import blend_seam, join_texts, reference_features, reference_joints
from motionkit.text_to_motion.data.starter import StarterOptions
from motionkit.text_to_motion.data.starter import component as starter

SMALL = StarterOptions(clips=96, val_clips=48, test_clips=48, max_frames=80, cache=False)


@pytest.fixture(scope="module")
def singles() -> Any:
    return starter.build(SMALL)


@pytest.fixture(scope="module")
def made(singles: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sets of three actions of every split."""
    out = tmp_path_factory.mktemp("composite")
    for split in ("train", "val", "test"):
        write(singles, Plan(split, max_samples=12), out, legacy=split == "train")
    return out


def write(dataset: Any, plan: Plan, out: Path, *, legacy: bool = False, overwrite: bool = False) -> Composed:
    files = planned_files(out, plan, legacy=legacy, overwrite=overwrite)
    composed = compose(dataset, plan)
    write_composed(composed, files)
    return composed


def opened(*paths: Path, **options: Any) -> Any:
    return component.build(CompositeOptions(path=paths, **options))


# Samples


@pytest.mark.parametrize("k", [2, 3, 4, 5, 6])
def test_samples_are_consistent(singles: Any, k: int) -> None:
    target = 240 if k == 6 else 160 if k == 2 else 196
    composed = compose(singles, Plan("train", k, target, max_samples=10))
    assert len(composed.samples) == 10
    lengths = {clip.key: len(clip.features) for clip in singles.clips("train")}
    captions = {clip.key: clip.captions for clip in singles.clips("train")}
    assert len({tuple(sorted(sample.source_ids)) for sample in composed.samples}) == 10
    for sample, joints in zip(composed.samples, composed.arrays.joints, strict=True):
        assert len(sample.sub_prompts) == len(set(sample.source_ids)) == k
        assert target - 20 <= sample.total_frames == sum(sample.durations_frames) <= target
        assert sample.durations == tuple(frames / 20 for frames in sample.durations_frames)
        assert sample.outside_tmr_range == tuple(frames < 40 for frames in sample.durations_frames)
        assert joints.shape == (sample.total_frames + 1, 22, 3)
        for name, text, frames, (start, end) in zip(
            sample.source_ids, sample.sub_prompts, sample.durations_frames, sample.source_frames, strict=True
        ):
            assert text in captions[name]
            assert 0 <= start < end <= lengths[name]
            assert end - start == frames
            if k < 4:
                assert frames == lengths[name]


def test_a_seed_is_a_set(singles: Any, tmp_path: Path) -> None:
    for name, seed in (("one", 0), ("two", 0), ("other", 1)):
        write(singles, Plan("val", 4, max_samples=5, seed=seed), tmp_path / name, legacy=True)
    one, two, other = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two", "other")
    )
    assert set(one) == {"composite_k4_val.json", "composite_k4_val.npz", "composite_k4_val.npy"}
    assert one == two
    assert all(one[name] != other[name] for name in one)


def test_the_smallest_target_that_is_named_is_the_smallest(singles: Any) -> None:
    for crop in (False, True):
        with pytest.raises(MotionkitError) as caught:
            compose(singles, Plan("train", 4, 100, crop=crop))
        named = int(caught.value.fix.split()[1])
        assert compose(singles, Plan("train", 4, named, tolerance=0, crop=crop, max_samples=1)).samples
        with pytest.raises(MotionkitError, match="add up to"):
            compose(singles, Plan("train", 4, named - 1, crop=crop, max_samples=1))
    largest = sum(sorted(len(clip.features) for clip in singles.clips("train"))[-3:]) + 20
    with pytest.raises(MotionkitError) as caught:
        compose(singles, Plan("train", 3, 500))
    assert f"--target-length {largest} is the largest" in caught.value.fix


def test_short_segments_are_marked_by_their_seconds(singles: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # TMR's least is two seconds: 40 frames of HumanML3D, 25 of KIT.
    monkeypatch.setattr(singles, "fps", 12.5)
    composed = compose(singles, Plan("train", 4, 150, max_samples=20))
    frames = [count for sample in composed.samples for count in sample.durations_frames]
    assert min(frames) < 40
    assert not any(mark for sample in composed.samples for mark in sample.outside_tmr_range)
    assert not any("TMR" in text for text in composed.warnings)


def test_too_few_combinations_are_reported(tmp_path: Path) -> None:
    few = starter.build(SMALL.model_copy(update={"clips": 5}))
    composed = compose(few, Plan("train", 2, 196, tolerance=190, max_samples=50))
    assert len(composed.samples) == math.comb(5, 2)
    (text,) = composed.warnings
    assert text.startswith("10 samples instead of 50: no other clips fit")
    assert sum(composed.histogram.values()) == 5
    assert all(f"{start}-{start + 19}: {count}" in text for start, count in composed.histogram.items())


def test_paths_mean_the_same_from_anywhere(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made.parent)
    options = CompositeOptions(path=(Path(made.name),), root=Path("x"))
    assert (options.path, options.root) == ((made,), made.parent / "x")
    monkeypatch.chdir("/")
    assert CompositeOptions.model_validate(options.model_dump(mode="json")) == options


def test_the_old_file_beside_a_set_stays_of_that_set(singles: Any, tmp_path: Path) -> None:
    write(singles, Plan("val", max_samples=3, seed=5), tmp_path, legacy=True)
    other = write(singles, Plan("val", max_samples=3, seed=9), tmp_path, overwrite=True)
    old = np.load(tmp_path / "composite_k3_val.npy", allow_pickle=True)[None][0]
    assert [sample["source_ids"] for sample in old["samples"]] == [list(sample.source_ids) for sample in other.samples]
    # Nor is a set written beside a file that would be of another one.
    (tmp_path / "composite_k3_val.json").unlink()
    (tmp_path / "composite_k3_val.npz").unlink()
    with pytest.raises(MotionkitError, match="composite_k3_val"):
        planned_files(tmp_path, Plan("val"), legacy=False, overwrite=False)


def test_what_cannot_be_composed(made: Path) -> None:
    few = starter.build(SMALL.model_copy(update={"clips": 5}))
    for dataset, plan, word in ((few, Plan("train", 6, 400), "has 5"), (opened(made), Plan(), "composed already")):
        with pytest.raises(MotionkitError, match=word):
            compose(dataset, plan)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["a man kicks.", "he sits down. "], "First a man kicks, then he sits down"),
        (["a man kicks.,", "he sits!", "he waves"], "First a man kicks, then he sits, finally he waves"),
        (["a", "b", "c", "d"], "First a, then b, then c, finally d"),
    ],
)
def test_captions_become_one_sentence(texts: list[str], sentence: str) -> None:
    assert join_texts(texts) == sentence


# Reference motions


def rest_pose(skeleton: Skeleton) -> Tensor:
    """A standing body with bones of 20 cm, its root 1 m above the ground."""
    places = torch.zeros(skeleton.joints, 3, dtype=torch.float64)
    for joint, parent in enumerate(skeleton.parents):
        if parent >= 0:
            places[joint] = places[parent] + 0.2 * torch.tensor(skeleton.raw_offsets[joint], dtype=torch.float64)
    return places + torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=lambda skeleton: skeleton.name)
def test_four_quarter_turns_close_a_circle(skeleton: Skeleton) -> None:
    # A statue carried along a quarter of a circle of 1 m; four of them end where they began, facing the same way.
    frames, still = 50, canonicalise(rest_pose(skeleton)[None], skeleton)
    angle = torch.linspace(0, math.pi / 2, frames + 1, dtype=torch.float64)
    path = torch.stack([1 - angle.cos(), torch.zeros_like(angle), angle.sin()], dim=-1)
    window = joints_to_features(rotate_yaw(still, angle[:, None]) + path[:, None], skeleton, target=False)
    joints = reference_joints([window] * 4, skeleton, skeleton.fps)
    assert joints.shape == (4 * frames + 1, skeleton.joints, 3)
    turns = torch.cat([angle[:-1] + k * math.pi / 2 for k in range(4)] + [angle.new_tensor([2 * math.pi])])
    whole = torch.stack([1 - turns.cos(), torch.zeros_like(turns), turns.sin()], dim=-1)
    assert (joints - rotate_yaw(still, turns[:, None]) - whole[:, None]).abs().max() < 1e-5
    features = reference_features(joints, skeleton)
    assert (features_to_joints(features, skeleton) - joints[:-1]).abs().max() < 1e-4


def test_bones_keep_their_length_at_seams(singles: Any) -> None:
    # Poses are blended by turning limbs: a straight way between two places of a hand would shrink the arm.
    composed = compose(singles, Plan(max_samples=20))
    for sample, joints in zip(composed.samples, composed.arrays.joints, strict=True):
        lengths = bones_from_positions(joints.double(), HUMANML.parents)[:, 1:].norm(dim=-1)
        assert (lengths / lengths[0] - 1).abs().max() < 1e-4, sample.id
        # Feet that were on the ground are not pushed into it, nor is the body lifted off.
        own = [clip.features for clip in singles.clips("train") if clip.key in sample.source_ids]
        ground = min(float(features_to_joints(part.double(), HUMANML)[..., 1].min()) for part in own)
        assert joints[..., 1].min() > ground - 1e-4


@pytest.mark.parametrize("degrees", [30.0, 179.0, 180.0])
def test_a_limb_swings_over_a_seam(degrees: float) -> None:
    still = canonicalise(rest_pose(HUMANML)[None], HUMANML)[0]
    other = still.clone()
    angle = math.radians(degrees)
    wrist, elbow = HUMANML.joint_names.index("left_wrist"), HUMANML.joint_names.index("left_elbow")
    arm = still[wrist] - still[elbow]
    # Turned about an axis at right angles to the arm.
    axis = torch.linalg.cross(arm, arm.new_tensor([0.3, 0.5, 0.8]))
    side = torch.linalg.cross(axis / axis.norm(), arm)
    other[wrist] = other[elbow] + math.cos(angle) * arm + math.sin(angle) * side
    before, after = still.repeat(30, 1, 1), other.repeat(30, 1, 1)
    blend_seam(before, after, HUMANML, 20.0)
    assert torch.allclose(before[-1], after[0], atol=1e-9)
    whole = torch.cat([before[:-1], after])
    forearm = whole[:, wrist] - whole[:, elbow]
    assert torch.allclose(forearm.norm(dim=-1), arm.norm().expand(len(whole)), rtol=1e-9)
    turned = torch.rad2deg(torch.acos((forearm @ arm / arm.norm() ** 2).clamp(-1, 1)))
    assert turned[29] == pytest.approx(degrees / 2, abs=1e-3)
    assert bool((turned.diff() >= -1e-4).all())
    assert torch.equal(before[:25], still.repeat(25, 1, 1))


def test_poses_meet_half_way_at_a_seam_and_nowhere_else(singles: Any) -> None:
    parts = [clip.features for clip in singles.clips("train")[:3]]
    joints = reference_joints(parts, HUMANML, 20.0)
    # Distances between joints do not depend on where a window was put.
    done = 0
    for part in parts:
        inside = slice(done + 4, done + len(part) - 4)
        own = features_to_joints(part.double(), HUMANML)[4:-4]
        assert (torch.cdist(joints[inside], joints[inside]) - torch.cdist(own, own)).abs().max() < 1e-6
        done += len(part)
    first, second = (
        features_to_joints(parts[0].double(), HUMANML)[-1],
        features_to_joints(parts[1].double(), HUMANML)[0],
    )
    assert (torch.cdist(first, first) - torch.cdist(second, second)).abs().max() > 0.1
    speed = (joints[1:] - joints[:-1]).norm(dim=-1).amax(1) * 20
    seam = len(parts[0])
    # Without the blend, the whole difference of the poses would be one frame's step.
    hard = (second[:, 1] - first[:, 1]).abs().max() * 20
    assert speed[seam - 5 : seam + 5].max() < max(float(hard), 6.0)


# The dataset


def test_the_contract(made: Path, tmp_path: Path, singles: Any) -> None:
    check_dataset("composite", options={"path": (made,)})
    write(singles, Plan("train", 2, 160, max_samples=4), tmp_path)
    check_dataset("composite", options={"path": (tmp_path,)})


def test_what_is_read_is_what_was_composed(made: Path, singles: Any) -> None:
    dataset = opened(made)
    composed = compose(singles, Plan("train", max_samples=12))
    prompts = dataset.prompts("train")
    assert [prompt.segments for prompt in prompts] == [sample.sub_prompts for sample in composed.samples]
    assert [prompt.frames for prompt in prompts] == [sample.durations_frames for sample in composed.samples]
    assert [prompt.source_ids for prompt in prompts] == [sample.source_ids for sample in composed.samples]
    assert dataset.prompts("train", k_segments=3, seed=5) == prompts
    assert (dataset.skeleton, dataset.fps, dataset.max_length) == (HUMANML, 20.0, 196)
    assert (dataset.source_name, dataset.splits) == ("starter", ("train", "val", "test"))
    assert torch.equal(dataset.normalizer.mean, singles.normalizer.mean)
    assert torch.equal(dataset.normalizer.std, singles.normalizer.std)
    assert dataset.physics_reference() == singles.physics_reference()
    clips = dataset.clips("train")
    assert [len(clip.features) for clip in clips] == [prompt.length for prompt in prompts]
    assert clips[0].captions == (prompts[0].text, composed.samples[0].composite_prompt)
    assert dataset.similarity("train") is None


def test_splits_never_stand_in_for_each_other(made: Path) -> None:
    train = opened(made / "composite_k3_train.json")
    with pytest.raises(MotionkitError) as caught:
        train.prompts("val")
    assert "--split val" in caught.value.fix
    assert "heldout" not in caught.value.fix  # whoever asks knows what else could be done
    assert train.clips("val") == ()
    ids = [{name for prompt in opened(made).prompts(s) for name in prompt.source_ids} for s in ("train", "val", "test")]
    assert all(not one & two for one, two in combinations(ids, 2))


def test_another_number_of_segments_is_refused_or_chosen(made: Path, tmp_path: Path, singles: Any) -> None:
    both = Path(shutil.copytree(made, tmp_path / "both"))
    write(singles, Plan("train", 2, 160, max_samples=4), both)
    dataset = opened(both)
    assert [len(dataset.prompts("train", k_segments=k)[0].segments) for k in (2, 3)] == [2, 3]
    for prompts, k, word in (
        (opened(made), {"k_segments": 4}, "--k-segments"),
        (dataset, {}, "several numbers of segments"),
        (opened(made / "composite_k3_test.json"), {}, "train split"),
    ):
        with pytest.raises(MotionkitError, match=word):
            prompts.prompts("train", **k)


def test_options_that_cannot_act(made: Path) -> None:
    for paths, options, word in (
        ((made,), {"random_crop": True}, "at random"),
        ((made,), {"fps": 12.5}, "12.5, 20"),
        ((made,), {"max_length": 100}, "max_length"),
        ((made, made / "composite_k3_train.npy"), {}, "both"),
        ((), {}, "dataset.path"),
    ):
        with pytest.raises(MotionkitError, match=word):
            opened(*paths, **options)
    assert opened(made, fps=20.0, max_length=240).max_length == 240
    assert opened(made).random_crop is False


def test_the_stored_matrices_are_cosines(singles: Any, tmp_path: Path) -> None:
    class Tower:
        name, fingerprint = "letters", "letters-1"

        def encode_texts(self, texts: Any) -> Tensor:
            return torch.tensor([[float(text.count(letter)) for letter in "aeiou"] for text in texts])

    plan = Plan("train", max_samples=5)
    composed = compose(singles, plan, tower=Tower())
    write_composed(composed, planned_files(tmp_path, plan, legacy=True, overwrite=False))
    found = opened(tmp_path).similarity("train")
    assert found.shape == (5, 3, 3)
    for sample, matrix in zip(composed.samples, found.tolist(), strict=True):
        counts = [[text.count(letter) for letter in "aeiou"] for text in sample.sub_prompts]
        for i, one in enumerate(counts):
            for j, two in enumerate(counts):
                cosine = sum(map(math.prod, zip(one, two, strict=True))) / (math.hypot(*one) * math.hypot(*two))
                assert matrix[i][j] == pytest.approx(cosine, abs=1e-6)
    assert composed.metadata.text_tower is not None
    assert composed.metadata.text_tower.fingerprint == "letters-1"
    legacy = np.load(tmp_path / "composite_k3_train.npy", allow_pickle=True)[None][0]
    assert np.allclose(legacy["samples"][2]["B_matrix"], found[2])


# Files that are not what they seem


def damaged(made: Path, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    shutil.copy(made / "composite_k3_train.npz", folder)
    document = json.loads((made / "composite_k3_train.json").read_text())
    change(document)
    path = folder / "composite_k3_train.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda d: d.update(kind="motions"), "composite prompt set"),
        (lambda d: d.update(schema=2), "schema 2"),
        (lambda d: d.update(samples=[]), "samples: "),
        (lambda d: d["metadata"].update(k_segments=4), "metadata says 4"),
        (lambda d: d["metadata"].update(split="everything"), "metadata.split"),
        (lambda d: d["metadata"].update(fps=0), "metadata.fps"),
        (lambda d: d["metadata"].update(skeleton="horse"), "horse"),
        (lambda d: d["samples"][1].pop("sub_prompts"), "samples.1.sub_prompts"),
        (lambda d: d["samples"][1].update(total_frames=7), "total_frames"),
        (lambda d: d["samples"][2].update(durations_frames=[100, 90]), "durations_frames"),
        (lambda d: d["samples"][2].update(durations_frames=[100, 90, 0]), "needs a frame"),
        (lambda d: d["samples"][2].update(sub_prompts=["a", " ", "c"]), "sub_prompt is empty"),
        (lambda d: d["samples"][1].update(id=d["samples"][0]["id"]), "one id"),
        (lambda d: d["metadata"].update(num_samples=999), "num_samples"),
        (lambda d: d["samples"][3].update(durations=[100, 1, 1]), "100 s"),
        # Arrays that are not those of the document:
        (lambda d: d["arrays"].update(file="../composite_k3_train.npz"), "outside"),
        (lambda d: d["arrays"].update(file="/etc/passwd"), "outside its folder"),
        (lambda d: d["arrays"].update(file="other.npz"), "other.npz"),
        (lambda d: d["arrays"].update(sha256="0" * 64), "written with"),
        (lambda d: d["metadata"].update(skeleton="kit"), "kit body"),
        (lambda d: (d["samples"].pop(), d["metadata"].update(num_samples=11)), "joints"),
    ],
)
def test_damaged_documents_are_refused(
    made: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], word: str
) -> None:
    with pytest.raises(MotionkitError, match=word):
        opened(damaged(made, tmp_path, change)).clips("train")


def test_an_archive_that_unpacks_to_more_than_it_is_is_refused(made: Path, tmp_path: Path) -> None:
    import hashlib

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("joints.npy", bytes(10_000_000))
    data = buffer.getvalue()
    entry = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    dataset = opened(damaged(made, tmp_path, lambda d: d["arrays"].update(entry)))
    (tmp_path / "composite_k3_train.npz").write_bytes(data)
    with pytest.raises(MotionkitError, match="unpacks to 9 MB"):
        dataset.clips("train")


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 5000, "\x00\x01", "null"])
def test_text_that_is_no_document_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "composite_k3_train.json"
    path.write_text(text)
    with pytest.raises(MotionkitError, match=r"neither JSON nor|composite prompt set"):
        opened(path)


def test_places_without_a_set_are_refused(tmp_path: Path) -> None:
    for path, word in ((tmp_path / "nothing.json", "nothing.json"), (tmp_path, "composite_k")):
        with pytest.raises(MotionkitError, match=word):
            opened(path)


# Files of the original code


class _Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def save_object(path: Path, value: object) -> None:
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|O", "fortran_order": False, "shape": ()})
        pickle.dump(np.array(value, dtype=object), file)


def test_a_pickle_is_not_executed(tmp_path: Path) -> None:
    path, mark = tmp_path / "composite_k3_train.npy", tmp_path / "mark"
    save_object(path, {"samples": [_Evil(mark)], "metadata": {}})
    with pytest.raises(MotionkitError, match="pathlib"):
        opened(path)
    assert not mark.exists()
    np.load(path, allow_pickle=True)
    assert mark.exists()  # what the reader was spared


def test_other_objects_and_cut_files_are_refused(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    data = (made / "composite_k3_train.npy").read_bytes()
    files = [data[:8], data[: len(data) // 2]]
    for value in ({}, [1, 2], {"samples": [], "metadata": {}}, {"samples": 3, "metadata": {"split": "train"}}):
        save_object(path, value)
        files.append(path.read_bytes())
    for content in files:
        path.write_bytes(content)
        with pytest.raises(MotionkitError, match=r"x\.npy"):
            opened(path)


def test_the_old_file_says_the_same(made: Path) -> None:
    ours, old = opened(made / "composite_k3_train.json"), opened(made / "composite_k3_train.npy")
    for one, two in zip(ours.prompts("train"), old.prompts("train"), strict=True):
        assert (one.segments, one.frames, one.source_ids) == (two.segments, two.frames, two.source_ids)
    assert len({prompt.key for prompt in old.prompts("train")}) == 12
    assert old.clips("train") == ()
    with pytest.raises(MotionkitError) as caught:
        _ = old.normalizer
    assert "--dataset.root" in caught.value.fix
    with pytest.raises(MotionkitError, match="no physics reference"):
        old.physics_reference()


def test_recorded_file_of_the_original_code(shared: Path, made: Path) -> None:
    folder = shared / "fixtures" / "mdm" / "mini_humanml3d"
    recorded = json.loads((folder / "composite" / "composite_k3_train.json").read_text())
    path = folder / "composite" / "composite_k3_train.npy"
    dataset = opened(path, root=folder / "dataset" / "HumanML3D")
    prompts = dataset.prompts("train", k_segments=3)
    assert [list(prompt.segments) for prompt in prompts] == [sample["sub_prompts"] for sample in recorded["samples"]]
    assert [list(prompt.frames) for prompt in prompts] == [sample["durations_frames"] for sample in recorded["samples"]]
    assert dataset.normalizer.width == 263
    assert dataset.physics_reference()[1] > 0
    # Ours has the same structure, and the original's own way to read it works.
    ours = np.load(made / "composite_k3_train.npy", allow_pickle=True)[None][0]
    theirs = np.load(path, allow_pickle=True)[None][0]
    assert ours.keys() == theirs.keys()
    assert ours["metadata"].keys() == theirs["metadata"].keys()
    for name, value in theirs["samples"][0].items():
        assert type(ours["samples"][0][name]) is type(value), name
        if isinstance(value, list):
            assert type(ours["samples"][0][name][0]) is type(value[0]), name
    assert list(ours["samples"][0]) == list(theirs["samples"][0])


def test_real_clips_with_timed_captions(shared: Path, tmp_path: Path) -> None:
    root = shared / "fixtures" / "mdm" / "mini_humanml3d" / "dataset" / "HumanML3D"
    clips = humanml.build(HumanMLOptions(root=root))
    composed = write(clips, Plan("train", max_samples=1000), tmp_path)
    files = {clip.source for clip in clips.clips("train")}
    items = [(clip.source, len(clip.features)) for clip in clips.clips("train")]
    fitting = {
        tuple(sorted(name for name, _ in some))
        for some in combinations(items, 3)
        if len({name for name, _ in some}) == 3 and 176 <= sum(frames for _, frames in some) <= 196
    }
    assert {tuple(sorted(sample.source_ids)) for sample in composed.samples} == fitting
    assert {name for sample in composed.samples for name in sample.source_ids} <= files
    # The lists of this fixture share motions between splits.
    assert any("also in the val split" in text for text in composed.warnings)
    timed = [
        (number, k)
        for number, sample in enumerate(composed.samples)
        for k, text in enumerate(sample.sub_prompts)
        if text == "then a person stops"
    ]
    assert timed
    number, k = timed[0]
    sample = composed.samples[number]
    start, end = sample.source_frames[k]
    assert start == 20
    # Inside the window, the reference has the poses of the file at the frames that were named.
    joints = features_to_joints(
        torch.from_numpy(np.load(root / "new_joint_vecs" / f"{sample.source_ids[k]}.npy")).double(), HUMANML
    )
    at = sum(sample.durations_frames[:k])
    ours = composed.arrays.joints[number][at + 4 : at + end - start - 4].double()
    own = joints[start + 4 : end - 4]
    assert (torch.cdist(ours, ours) - torch.cdist(own, own)).abs().max() < 1e-5
