"""Kimodo's files of motions, npz and the G1's CSV: read, written, looked at, made by `generate`; refusals."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from typer.testing import Result

import motionkit
from motionkit.errors import MotionkitError
from motionkit.formats import FORMATS, WriteOptions, kind_of, recognise
from motionkit.motion import Clip, Motion
from motionkit.starter import generate
from motionkit_policy_kimodo.motions import write_g1, write_kimodo
from motionkit_policy_kimodo.qpos import from_qpos, write_qpos
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.skeletons import body, soma30_rows

Tensors = Callable[[str], dict[str, Tensor]]
Cli = Callable[..., Result]
KEYS = {
    "posed_joints", "global_rot_mats", "local_rot_mats", "foot_contacts", "smooth_root_pos", "root_positions",
    "global_root_heading",
}  # fmt: skip


def arrays(path: str | Path) -> dict[str, np.ndarray]:
    with np.load(path) as content:
        return {name: content[name] for name in content.files}


@pytest.fixture
def g1(tensors: Tensors) -> Motion:
    known = tensors("g1_qpos.npz")
    return body("g1").motion(known["local_rot_mats"], known["root_positions"], 30.0)


@pytest.fixture
def soma(tensors: Tensors) -> Motion:
    """The recorded clip of SOMA, as a policy gives it."""
    features = tensors("representation_soma.npz")["features"]
    representation = KimodoRepresentation(body("soma30"))
    motion = representation.motion(features, representation.positions(features), 30.0)
    assert isinstance(motion, Motion)
    return motion


def test_soma_is_written_as_77_joints(soma: Motion, tensors: Tensors, tmp_path: Path) -> None:
    known, path = tensors("representation_soma.npz"), tmp_path / "walk.kimodo.npz"
    write_kimodo(path, [Clip(soma)], WriteOptions())
    made = {name: torch.from_numpy(values) for name, values in arrays(path).items()}
    assert set(made) == KEYS
    assert {values.dtype for values in made.values()} == {torch.float32, torch.bool}
    rows = soma30_rows()
    assert made["posed_joints"].shape == (60, 77, 3)
    same = [row for row, name in enumerate(soma.names) if "Thumb" not in name and "Middle" not in name]
    places = made["posed_joints"][:, rows][:, same]
    assert_close(places, known["posed_joints"][:, same], atol=3e-6, rtol=0)
    assert_close(made["global_rot_mats"][:, rows][:, same], known["global_rot_mats"][:, same], atol=2e-6, rtol=0)
    assert_close(made["root_positions"], known["decoded_root"], atol=2e-6, rtol=0)
    assert torch.equal(made["smooth_root_pos"], known["features"][:, :3])
    assert torch.equal(made["global_root_heading"], known["decoded_heading"])
    assert torch.equal(made["foot_contacts"], known["decoded_contacts"][:, [0, 1, 1, 2, 3, 3]].bool())
    (clip,) = FORMATS["kimodo"].read(path, motionkit.motion.ReadOptions())
    assert clip.motion.tracks["contacts"].tolist() == soma.tracks["contacts"].tolist()


@pytest.mark.parametrize("name", ["soma", "g1", "smplx"])
def test_files_come_back(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if name == "smplx":
        starter = generate("walk", frames=60)
        np.save(tmp_path / "walk.npy", starter.joints)
        motionkit.read(tmp_path / "walk.npy").save(tmp_path / "one.kimodo.npz")
        joints = arrays(tmp_path / "one.kimodo.npz")["posed_joints"]
        assert joints.shape[1] == 22
        assert (
            np.abs(
                joints[:, :3] - motionkit.read(tmp_path / "walk.npy").resample(30.0).positions()[:, :3].numpy()
            ).max()
            < 0.01
        )
    else:
        write_kimodo(tmp_path / "one.kimodo.npz", [Clip(request.getfixturevalue(name))], WriteOptions())
    read = motionkit.read(tmp_path / "one.kimodo.npz")
    read.save(tmp_path / "two.kimodo.npz")
    one, two = arrays(tmp_path / "one.kimodo.npz"), arrays(tmp_path / "two.kimodo.npz")
    for key in one:
        # The bones of SMPL-X are found from its joints, in float32.
        limit = 1e-6 if name == "smplx" and key == "posed_joints" else 0.0
        assert np.abs(one[key].astype(float) - two[key]).max() <= limit, key


def test_what_was_changed_is_found_anew(soma: Motion, tmp_path: Path) -> None:
    turned = torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]).double()  # a quarter turn, +Z to +X
    rotations, places = soma.rotations.clone(), soma.translations.clone()
    rotations[:, 0], places[:, 0] = turned @ rotations[:, 0], places[:, 0] @ turned.T
    for path, motion in (("one", soma), ("two", replace(soma, rotations=rotations, translations=places))):
        write_kimodo(tmp_path / path, [Clip(motion)], WriteOptions())
    one, two = arrays(tmp_path / "one"), arrays(tmp_path / "two")
    # Another direction rounds the rounds of the smoothing in another way.
    assert np.abs(two["smooth_root_pos"] - one["smooth_root_pos"] @ turned.T.numpy()).max() < 1e-4
    cos, sin = one["global_root_heading"].T
    assert np.abs(two["global_root_heading"] - np.stack([-sin, cos], axis=1)).max() < 1e-5
    assert (one["foot_contacts"] == two["foot_contacts"]).all()
    write_kimodo(tmp_path / "three", [Clip(replace(soma, tracks={}))], WriteOptions())
    assert (one["foot_contacts"] == arrays(tmp_path / "three")["foot_contacts"]).all()


def test_csv(g1: Motion, tensors: Tensors, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    known, path = tensors("g1_qpos.npz"), tmp_path / "g1.csv"
    fit = write_g1(path, [Clip(g1)], WriteOptions())
    assert 0.1 < fit.figures["hinges_max"] < 0.25
    (warning,) = fit.warnings
    assert f"up to {100 * fit.figures['hinges_max']:.1f} cm" in warning
    read = motionkit.read(path)
    assert read.fps == 30.0
    assert_close(read.positions()[:8].float(), known["projected_joints"], atol=1e-5, rtol=0)
    read.save(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text().splitlines()[3].split(",")[0] == f"{known['root_positions'][3, 2]:.9g}"
    again = motionkit.read(tmp_path / "again.csv")
    assert_close(again.positions(), read.positions(), atol=1e-7, rtol=0)
    # What is on the hinges is not moved, and nothing is said.
    assert not write_g1(path, [Clip(read.motion)], WriteOptions()).warnings  # type: ignore[arg-type]
    # Kimodo's own CSV.
    write_qpos(path, known["qpos"])
    local, root = from_qpos(known["qpos"].double())
    assert_close(motionkit.read(path).positions(), body("g1").motion(local, root, 30.0).positions(), atol=1e-6, rtol=0)


def test_commands(cli: Cli, g1: Motion, tensors: Tensors) -> None:
    write_qpos(Path("walk.csv"), tensors("g1_qpos.npz")["qpos"])
    known = tensors("representation_soma.npz")
    made = body("soma30")
    posed, turned = known["posed_joints"], known["global_rot_mats"]
    np.savez("clip.npz", posed_joints=posed, local_rot_mats=made.local(turned), root_positions=posed[:, 0])
    for source in ("walk.csv", "clip.npz"):
        for command in (
            ("convert", source, f"{source}.bvh"),
            ("convert", source, f"{source}.kimodo.npz"),
            ("view", source, "--no-open", "--out", f"{source}.html"),
            ("profile", source),
            ("convert", "--check", source),
        ):
            done = cli(*command)
            assert done.exit_code == 0, done.output
        bvh = motionkit.read(f"{source}.bvh", up="y", units="cm")
        first = motionkit.read(source)
        index = [bvh.motion.names.index(name) for name in first.motion.names]
        assert_close(bvh.positions()[:, index], first.positions(), atol=1e-4, rtol=0)
    # Another rate is that of the file, and other rates are made 30 on writing.
    assert cli("convert", "walk.csv", "slow.csv", "--source-fps", "15").exit_code == 0
    assert motionkit.read("slow.csv").motion.frames == 99
    done = cli("convert", "clip.npz", "clip.csv")
    assert done.exit_code != 0
    assert "Unitree G1" in done.output


def test_generate(
    cli: Cli,
    recorded: Path,
    make_table: Callable[..., Path],
    checkpoint: Path,
    make_checkpoint: Callable[[str, int], Path],
) -> None:
    soma = make_checkpoint("SOMASkeleton30", 30)
    words = ("--policy.embeddings", str(make_table(8)), "--durations", "1")
    for folder, kinds in ((soma, ("kimodo",)), (checkpoint, ("kimodo", "g1-qpos"))):
        to = [word for kind in kinds for word in ("--to", kind)]
        asked = ("generate", "--policy", "kimodo", "--policy.checkpoint", str(folder), "A person walks.")
        done = cli(*asked, folder.name, *words, *to)
        assert done.exit_code == 0, done.output
        (file,) = Path(folder.name, "kimodo").glob("*.kimodo.npz")
        (native,) = Path(folder.name, "motions").glob("*.npz")
        assert_close(
            motionkit.read(file).positions()[:, 0], motionkit.read(native).positions()[:, 0], atol=1e-6, rtol=0
        )
        tracks = motionkit.read(native).motion.tracks
        assert np.array_equal(arrays(file)["smooth_root_pos"], tracks["smooth_root_pos"].numpy())
    assert "hinges" in done.output
    # Formats of other bodies are refused before motions are made.
    asked = ("generate", "--policy", "kimodo", "--policy.checkpoint", str(soma), "A person walks.")
    for words_of_out in (("new", "--to", "g1-qpos"), ("new", "--to", "amass"), ("new.amass.npz",)):
        refused = cli(*asked, *words_of_out, *words)
        assert refused.exit_code == 2, refused.output
        assert "30 joints" in refused.output
        assert not Path(words_of_out[0]).exists()
    brought = cli(*asked, "new.amass.npz", *words, "--names", "smpl", "--inference-timesteps", "2")
    assert brought.exit_code == 0, brought.output
    (csv,) = Path(checkpoint.name, "g1-qpos").glob("*.csv")
    assert motionkit.read(csv).motion.frames == 30


def test_who_reads_and_writes_what(g1: Motion, tmp_path: Path) -> None:
    assert kind_of(Path("a.kimodo.npz")) == "kimodo"
    assert kind_of(Path("a.npz")) == "npz"
    assert kind_of(Path("a.csv")) == "g1-qpos"
    table = tmp_path / "captions.csv"
    table.write_text("clip,text\nwalk,a person walks\n")
    assert recognise(table) is None
    other = tmp_path / "other.npz"
    np.savez(other, posed_joints=np.zeros(3))
    assert recognise(other) is None
    other.write_bytes(b"PK no archive")
    assert recognise(other) is FORMATS["npz"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"root_positions": None}, "has no root_positions"),
        ({"posed_joints": np.zeros((3, 34))}, "posed_joints has the shape"),
        ({"local_rot_mats": np.zeros((9, 34, 3, 3))}, "are not rotations"),
        ({"root_positions": np.full((9, 3), np.nan)}, "not finite"),
        ({"root_positions": np.full((9, 3), 7.0)}, "of another skeleton"),
        ({"foot_contacts": np.zeros((9, 5))}, "has 5 columns"),
        ({"foot_contacts": np.zeros((9, 6))}, "has 6 columns"),
        ({"local_rot_mats": np.zeros((9, 5, 3, 3)), "posed_joints": np.zeros((9, 5, 3))}, "has 5 joints"),
        ({"local_rot_mats": np.zeros((0, 34, 3, 3))}, "local_rot_mats has the shape"),
    ],
)
def test_npz_that_is_refused(change: dict[str, Any], said: str, tmp_path: Path, cli: Cli) -> None:
    made = {
        "posed_joints": body("g1")
        .motion(torch.eye(3).repeat(9, 34, 1, 1), torch.zeros(9, 3), 30.0)
        .positions()
        .numpy(),
        "local_rot_mats": np.tile(np.eye(3), (9, 34, 1, 1)),
        "root_positions": np.zeros((9, 3)),
    } | change
    np.savez("bad.npz", **{name: values for name, values in made.items() if values is not None})
    done = cli("convert", "bad.npz", "out.bvh")
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([35, 35], "36 columns without a header"),
        ([36, 35], "line 2 has 35 columns"),
        ([36], "quaternion of length 0"),
    ],
)
def test_csv_that_is_refused(lines: list[int], said: str, cli: Cli) -> None:
    Path("bad.csv").write_text("".join(",".join(["0"] * count) + "\n" for count in lines))
    done = cli("convert", "bad.csv", "out.bvh")
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_csv_that_cannot_be_opened_is_said(cli: Cli, tensors: Tensors) -> None:
    Path("takes").mkdir()
    write_qpos(Path("takes/walk.csv"), tensors("g1_qpos.npz")["qpos"])
    os.mkfifo("takes/pipe.csv")
    Path("takes/gone.csv").symlink_to("nowhere.csv")
    done = cli("convert", "takes", "out", "--to", "bvh")
    assert "Traceback" not in done.output
    assert "pipe" in done.output
    assert "gone" in done.output
    assert [path.name for path in Path("out").glob("*.bvh")] == ["walk.bvh"]


def test_motions_that_are_not_written(g1: Motion, tmp_path: Path) -> None:
    long = replace(g1, offsets=2 * g1.offsets, translations=2 * g1.translations)
    named = replace(g1, names=tuple(f"x{name}" for name in g1.names))
    broken = replace(g1, rotations=torch.full_like(g1.rotations, torch.nan))
    refused = {
        "off those of g1": long,
        "joints": named,
        "no finite numbers": broken,
        "has 1 frame": g1.cut(0, 1),
    }
    for said, motion in refused.items():
        for write in (write_kimodo, write_g1):
            with pytest.raises(MotionkitError, match=said):
                write(tmp_path / "x", [Clip(motion)], WriteOptions())
    assert not list(tmp_path.iterdir())
