"""The dataset on a folder that looks like 100STYLE's, written here, and the contract."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.bvh import write_bvh
from motionkit.motion import HUMANML, JointMotion, features_to_joints, joints_to_features
from motionkit.rigs import solve
from motionkit.starter import generate
from motionkit.testing import check_dataset
from motionkit_dataset_100style import StyleOptions
from motionkit_dataset_100style.dataset import StyleDataset, split_clips
from motionkit_dataset_100style.folder import Recording, captions_of, find_recordings

NAMES = {
    "pelvis": "Hips", "spine1": "Chest", "spine2": "Chest2", "spine3": "Chest4", "neck": "Neck", "head": "Head",
    **{
        f"{side}_{ours}": side.title() + theirs
        for side in ("left", "right")
        for ours, theirs in (
            ("collar", "Collar"), ("shoulder", "Shoulder"), ("elbow", "Elbow"), ("wrist", "Wrist"), ("hip", "Hip"),
            ("knee", "Knee"), ("ankle", "Ankle"), ("foot", "Toe"),
        )
    },
}  # fmt: skip
AWAY, FRAMES = 30, 160  # frames at 60 fps of getting ready, and frames at 20 fps of the good part


def _joints() -> torch.Tensor:
    return torch.from_numpy(generate("walk", frames=FRAMES).joints)


def _write(path: Path) -> None:
    """Write a walk at 60 fps with 100STYLE's joint names, behind half a second that is to be cut away."""
    motion = solve(JointMotion(HUMANML.joint_names, HUMANML.parents, _joints(), 20.0)).motion.resample(60.0)
    names = tuple(
        NAMES.get(name.removesuffix(" End"), name) + (" End" if " End" in name else "") for name in motion.names
    )
    ready = replace(motion.cut(0, 1), names=names)
    whole = replace(
        motion,
        names=names,
        rotations=torch.cat([ready.rotations.expand(AWAY, -1, -1, -1), motion.rotations]),
        translations=torch.cat([ready.translations.expand(AWAY, -1, -1), motion.translations]),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bvh(path, whole)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("100STYLE")
    for name in ("Zombie/Zombie_FW", "BentForward/BentForward_ID"):
        _write(root / f"{name}.bvh")
    (root / "Zombie" / "._Zombie_FW.bvh").write_bytes(b"\0")
    (root / "Zombie" / "Zombie_TR1.bvh").write_text("not read")
    (root / "Frame_Cuts.csv").write_text(
        "STYLE_NAME,FW_START,FW_STOP,ID_START,ID_STOP,TR1_START,TR1_STOP\n"
        "BentForward,N/A,N/A,30,507,N/A,N/A\nZombie,30,507,N/A,N/A,1,2\n"
    )
    (root / "Dataset_List.csv").write_text(
        'Style Name,Description\nBentForward,"Torso bent forward, arms hang."\nZombie,Arms raised to the front.\n'
    )
    return root


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))


def _open(folder: Path, **options: object) -> StyleDataset:
    return StyleDataset(StyleOptions.model_validate({"root": folder, "max_length": 40, **options}))


def test_contract(folder: Path) -> None:
    check_dataset("100style", options={"root": folder, "max_length": 40})


def test_recordings_have_their_good_frames_and_captions(folder: Path) -> None:
    bent, zombie = find_recordings(folder, (), ("FW", "ID"))
    assert (zombie.key, zombie.start, zombie.stop) == ("Zombie_FW", 30, 507)
    assert zombie.captions == (
        "a person walks forward in the style zombie.",
        "a person walks forward: arms raised to the front.",
    )
    assert bent.captions[1] == "a person stands: torso bent forward, arms hang."
    assert captions_of("Neutral", "SR", "") == ("a person runs sideways normally.",)


def test_a_clip_is_the_recorded_motion_without_what_was_cut_away(folder: Path) -> None:
    data = _open(folder, styles=("Zombie",))
    clip = data.clips("train")[0]
    wanted = joints_to_features(_joints()[:41].double(), HUMANML).float()
    moved = (features_to_joints(clip.features, HUMANML) - features_to_joints(wanted, HUMANML)).norm(dim=-1)
    assert clip.key == "Zombie_FW_00000"
    # The trunk's joints lie elsewhere in another rig; hands and feet must not.
    ends = [HUMANML.index(f"{side}_{part}") for side in ("left", "right") for part in ("wrist", "foot", "ankle")]
    assert float(moved[:, ends].max()) < 0.05
    assert float(moved.mean()) < 0.02


def test_splits_are_parts_of_a_recording_in_order_and_share_no_frame() -> None:
    recording = Recording(Path("x.bvh"), "X_FW", 0, 1, ("a person walks.",))
    made = split_clips(recording, torch.from_numpy(generate("walk", frames=301).joints), 40)
    assert [split for split, _ in made] == ["train"] * 5 + ["val", "test"]
    assert [clip.key for _, clip in made] == [f"X_FW_{start:05d}" for start in range(0, 280, 40)]
    assert {len(clip.features) for _, clip in made} == {40}
    short = split_clips(recording, torch.from_numpy(generate("walk", frames=100).joints), 40)
    assert [split for split, _ in short] == ["train", "train"]


def test_joints_come_from_the_cache_and_a_damaged_one_is_made_again(folder: Path, tmp_path: Path) -> None:
    first = _open(folder, styles=("Zombie",)).clips("train")[0].features
    (cached,) = (tmp_path / "cache" / "100style").iterdir()
    before = cached.stat().st_mtime_ns
    again = _open(folder, styles=("Zombie",)).clips("train")[0].features
    assert torch.equal(first, again)
    assert cached.stat().st_mtime_ns == before
    cached.write_bytes(b"broken")
    assert torch.equal(_open(folder, styles=("Zombie",)).clips("train")[0].features, first)


@pytest.mark.parametrize(
    ("table", "old", "new", "said"),
    [
        ("Frame_Cuts.csv", "Zombie,30,507", "Zombie,N/A,507", "which frames"),
        ("Frame_Cuts.csv", "Zombie,30,507", "Zombie,507,30", "before its start"),
        ("Frame_Cuts.csv", "Zombie,30,507", "Zombie,9000,9900", "9000"),
        ("Frame_Cuts.csv", "Zombie,30", "Zonbie,30", "no row"),
        ("Frame_Cuts.csv", "STYLE_NAME", "STYLE", "'STYLE_NAME'"),
        ("Dataset_List.csv", "Style Name", "Style", "'Style Name'"),
    ],
)
def test_a_wrong_table_is_refused_by_name(
    folder: Path, tmp_path: Path, table: str, old: str, new: str, said: str
) -> None:
    root = tmp_path / "copy"
    for path in folder.rglob("*.*"):
        (root / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
        (root / path.relative_to(folder)).write_bytes(path.read_bytes())
    (root / table).write_text((root / table).read_text().replace(old, new))
    with pytest.raises(MotionkitError, match=said):
        _open(root, contents=("FW",))


def test_what_is_not_there_is_refused(folder: Path, tmp_path: Path) -> None:
    for call, word in (
        (lambda: StyleDataset(StyleOptions()), "has no folder"),
        (lambda: _open(tmp_path / "nothing"), "there is no folder"),
        (lambda: _open(folder, styles=("Robot",)), "'Robot'"),
        (lambda: _open(folder, contents=("BR",)), "no recording"),
    ):
        with pytest.raises(MotionkitError, match=word):
            call()
