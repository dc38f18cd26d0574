"""A released model of SMPL-X's body, from the folder to its files: with the joints of the user's Kimodo or SMPL-X."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.testing import assert_close
from typer.testing import Result

import motionkit
from motionkit import load_dataset
from motionkit.errors import MotionkitError
from motionkit.geometry import positions_from_bones
from motionkit.motion import HUMANML, Motion
from motionkit.rigs import default_rest
from motionkit.testing import check_policy
from motionkit_policy_kimodo.files import JOINTS, read_checkpoint
from motionkit_policy_kimodo.policy import KimodoPolicy
from motionkit_policy_kimodo.settings import KimodoOptions
from motionkit_policy_kimodo.skeletons import read_smplx

Cli = Callable[..., Result]
MODEL = "model.safetensors"


@pytest.fixture
def joints() -> Tensor:
    """Joints ``[22, 3]`` of a made-up body, in its model space."""
    return positions_from_bones(default_rest(), HUMANML.parents) + torch.tensor([0.01, -0.12, 0.02])


@pytest.fixture
def body(joints: Tensor, tmp_path: Path) -> Path:
    """Write what Kimodo has of SMPL-X: joints, shape and hands."""
    folder = tmp_path / "smplx22"
    folder.mkdir()
    torch.save(joints.float()[None], folder / "joints.p")
    np.save(folder / "beta.npy", np.linspace(-1, 1, 300, dtype=np.float32))
    np.save(folder / "mean_hands.npy", np.linspace(-0.5, 0.5, 90))
    return folder / "joints.p"


@pytest.fixture
def smplx_file(joints: Tensor, tmp_path: Path) -> Path:
    """Write a file in the form of SMPL-X's, whose vertices are its joints."""
    vertices = torch.zeros(60, 3, dtype=torch.float64)
    vertices[:22] = joints
    parents = [2**32 - 1, *HUMANML.parents[1:], *[20] * 33]
    hands = {"hands_meanl": np.full(45, 0.2), "hands_meanr": np.full(45, -0.3)}
    np.savez(
        tmp_path / "SMPLX_NEUTRAL.npz", J_regressor=np.eye(55, 60), v_template=vertices.numpy(),
        shapedirs=np.zeros((60, 3, 20)), kintree_table=np.array([parents, range(55)], dtype=np.int64), **hands,
    )  # fmt: skip
    return tmp_path / "SMPLX_NEUTRAL.npz"


@pytest.fixture
def folder(make_checkpoint: Callable[[str, int], Path]) -> Path:
    return make_checkpoint("SMPLXSkeleton22", 22)


@pytest.fixture
def words(folder: Path, make_table: Callable[..., Path]) -> tuple[str, ...]:
    """Return what names the model on the command line, without the body."""
    return ("--policy", "kimodo", "--policy.checkpoint", str(folder), "--policy.embeddings", str(make_table(8)))


def test_contract(folder: Path, body: Path, joints: Tensor, make_table: Callable[..., Path]) -> None:
    policy = KimodoPolicy(KimodoOptions(checkpoint=str(folder), embeddings=make_table(8), body=body))
    check_policy(policy)
    assert (policy.skeleton.name, policy.skeleton.width, policy.skeleton.humanml) == ("smplx22", 273, tuple(range(22)))
    assert policy.skeleton.joint_names == HUMANML.joint_names
    assert policy.skeleton.feet == (7, 10, 8, 11)
    assert_close(policy.skeleton.body.offsets[1:], default_rest()[1:], atol=1e-6, rtol=0)


def test_both_files_of_the_body_are_read(body: Path, smplx_file: Path, joints: Tensor) -> None:
    kimodo, smplx = read_smplx(body), read_smplx(smplx_file)
    assert_close(kimodo.offsets, smplx.offsets, atol=1e-6, rtol=0)
    for made in (kimodo, smplx):
        assert_close(made.constants["smplx_pelvis"], joints[0], atol=1e-6, rtol=0)
    assert_close(kimodo.constants["smplx_betas"], torch.linspace(-1, 1, 300)[:16])
    assert_close(smplx.constants["smplx_hands"], torch.tensor([0.2] * 45 + [-0.3] * 45).double())
    np.save(body.with_name("beta.npy"), np.zeros(3))
    with pytest.raises(MotionkitError, match=r"beta\.npy has the shape"):
        read_smplx(body)


def test_the_body_is_asked_for(cli: Cli, words: tuple[str, ...], tmp_path: Path) -> None:
    lacking = cli("generate", *words, "A person walks.", "walk.bvh")
    assert lacking.exit_code == 2
    assert "SMPL-X's body" in lacking.output
    assert "--policy.body" in lacking.output
    (tmp_path / "other.p").write_bytes(b"no archive")
    for other in ("none.p", "other.p"):
        wrong = cli("generate", *words, "--policy.body", other, "A person walks.", "walk.bvh")
        assert wrong.exit_code == 2
        assert other in wrong.output
    assert not Path("walk.bvh").exists()


def test_generate(cli: Cli, words: tuple[str, ...], body: Path, joints: Tensor) -> None:
    to = [word for kind in ("bvh", "glb", "kimodo", "amass") for word in ("--to", kind)]
    done = cli("generate", *words, "--policy.body", str(body), "A person walks.", "out", "--durations", "1", *to)
    assert done.exit_code == 0, done.output
    (native,) = Path("out/motions").glob("*.npz")
    motion = motionkit.read(native).motion
    assert isinstance(motion, Motion)
    assert motion.names == HUMANML.joint_names
    expected = motion.positions()
    for kind, how in {"bvh": {"up": "y", "units": "cm"}, "glb": {"up": "y"}, "kimodo": {}}.items():
        (file,) = Path("out", kind).glob("a_person*")
        read = motionkit.read(file, **how)  # type: ignore[arg-type]
        index = [read.motion.names.index(name) for name in HUMANML.joint_names]
        assert_close(read.positions()[:, index], expected, atol=1e-4, rtol=0)
    (file,) = Path("out/amass").glob("*.amass.npz")
    with np.load(file) as content:
        made = {name: torch.as_tensor(content[name]) for name in content.files if content[name].dtype.kind == "f"}
    with np.load(next(Path("out/kimodo").glob("*.npz"))) as content:
        local, root = (torch.from_numpy(content[name]).double() for name in ("local_rot_mats", "root_positions"))
    # Z up: (x, y, z) -> (-x, z, y); the pelvis of SMPL-X stands at its place at rest, not turned, plus trans.
    turn = torch.tensor([[-1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]).double()
    assert_close(made["trans"].double(), root @ turn.T - joints[0], atol=1e-6, rtol=0)
    vectors = torch.cat([made["root_orient"], made["pose_body"]], dim=1).unflatten(1, (22, 3)).double()
    skew = torch.zeros(*vectors.shape, 3).double()
    for row, column, axis, sign in (
        (2, 1, 0, 1),
        (0, 2, 1, 1),
        (1, 0, 2, 1),
        (1, 2, 0, -1),
        (2, 0, 1, -1),
        (0, 1, 2, -1),
    ):
        skew[..., row, column] = sign * vectors[..., axis]
    local[:, 0] = turn @ local[:, 0]
    assert_close(torch.linalg.matrix_exp(skew), local, atol=1e-5, rtol=0)
    assert_close(made["betas"], torch.linspace(-1, 1, 300)[:16])
    assert_close(made["pose_hand"].double(), torch.linspace(-0.5, 0.5, 90).double().expand(30, -1), atol=1e-6, rtol=0)
    assert made["mocap_frame_rate"] == 30.0


def test_amass_is_read_back_on_the_body(cli: Cli, words: tuple[str, ...], smplx_file: Path) -> None:
    for name in ("walk.npz", "walk.amass.npz"):
        done = cli("generate", *words, "--policy.body", str(smplx_file), "A person walks.", name, "--durations", "1")
        assert done.exit_code == 0, done.output
    done = cli("convert", "walk.amass.npz", "back.npz", "--smpl-model", str(smplx_file), "--up", "z")
    assert done.exit_code == 0, done.output
    back = motionkit.read("back.npz")
    assert back.fps == 30.0
    assert_close(back.positions(), motionkit.read("walk.npz").positions(), atol=1e-5, rtol=0)


def test_one_step_of_grpo_and_of_pretrain(
    cli: Cli, words: tuple[str, ...], body: Path, folder: Path, texts: Path, make_table: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))
    given = ("--dataset", "kimodo-prompts", "--dataset.path", str(texts), "--reward", "physics", "--batch-size", "2")
    tuned = cli(
        "grpo", *words, "--policy.body", str(body), *given, "--group-size", "2", "--num-steps", "1", "--out", "run"
    )
    assert tuned.exit_code == 0, tuned.output
    before, official = load_file(folder / MODEL), cli("export", "run", "official", "--to", "kimodo")
    assert official.exit_code == 0, official.output
    assert not Path("official", JOINTS).exists()  # what is SMPL-X's stays with the user
    after = load_file(Path("official") / MODEL)
    assert list(after) == list(before)
    assert {name for name in before if not torch.equal(before[name], after[name])}
    assert Path("official/config.yaml").read_bytes() == (folder / "config.yaml").read_bytes()
    opened, trained = read_checkpoint("official", smplx=body), read_checkpoint("run")  # the run remembers its body
    for name, value in opened.network.state_dict().items():
        assert torch.equal(value, trained.network.state_dict()[name]), name
    captions = [
        text
        for split in ("train", "val")
        for clip in load_dataset("starter", clips=8).clips(split)
        for text in clip.captions
    ]
    small = ("--dataset.clips", "8", "--batch-size", "2", "--set", "train.val_clips=1", "--set", "train.samples=1")
    start = ("--init", "official", "--embeddings", str(make_table(8, *captions, name="clips.safetensors")))
    lacking = cli("pretrain", "kimodo", *start, *small, "--num-steps", "1", "--out", "on")
    assert lacking.exit_code == 2
    assert "--body" in lacking.output
    done = cli("pretrain", "kimodo", *start, "--body", str(body), *small, "--num-steps", "1", "--out", "on")
    assert done.exit_code == 0, done.output
    assert read_checkpoint("on").representation.name == "smplx22"
