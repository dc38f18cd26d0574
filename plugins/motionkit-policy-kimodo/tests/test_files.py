"""Folders: the official layout is opened and written again, others are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.geometry import positions_from_bones
from motionkit.motion import HUMANML
from motionkit.nn import add_adapters
from motionkit.weights import _hub
from motionkit_policy_kimodo.files import export_checkpoint, read_checkpoint

MODEL = "model.safetensors"


def _edit(folder: Path, old: str, new: str) -> None:
    text = (folder / "config.yaml").read_text()
    assert old in text
    (folder / "config.yaml").write_text(text.replace(old, new))


def test_open(checkpoint: Path) -> None:
    opened = read_checkpoint(str(checkpoint))
    assert opened.representation.body.name == "g1"
    assert (opened.representation.width, opened.representation.fps) == (417, 30.0)
    assert not opened.network.training
    assert opened.network.shape.text_slots == 3
    assert_close(opened.normalizer.std[0], torch.tensor(1 + 1e-5).sqrt())
    assert_close(opened.normalizer.mean[5:7], torch.tensor([0.0, 1 / 411]))
    assert_close(opened.network.local_scale[-1], torch.tensor(4 + 1e-5).sqrt())
    stored = load_file(checkpoint / MODEL)
    assert_close(opened.network.root_model.embed_text.weight, stored["denoiser.backbone.root_model.embed_text.weight"])


@pytest.mark.parametrize("name", ["tiny_soma", "tiny_g1_textmask"])
def test_recorded_folders(name: str, recorded: Path, tmp_path: Path) -> None:
    opened = read_checkpoint(str(recorded / name))
    out = export_checkpoint(opened, tmp_path / "out")
    _same(recorded / name, out)


def _same(before: Path, after: Path, changed: Callable[[str], bool] = lambda name: False) -> None:
    for file in (
        "config.yaml",
        *(f"stats/motion/{p}/{n}.npy" for p in ("body", "local_root") for n in ("mean", "std")),
    ):
        assert (before / file).read_bytes() == (after / file).read_bytes()
    old, new = load_file(before / MODEL), load_file(after / MODEL)
    assert old.keys() == new.keys()
    for name, value in old.items():
        assert torch.equal(value, new[name]) != changed(name), name


def test_export_of_adapters(checkpoint: Path, tmp_path: Path) -> None:
    opened = read_checkpoint(str(checkpoint))
    add_adapters(opened.network, r=2, targets=["text"])
    _same(checkpoint, export_checkpoint(opened, tmp_path / "same"))
    with torch.no_grad():
        for name, value in opened.network.named_parameters():
            if "body_model" in name and "lora_B" in name:
                value.add_(1.0)
    out = export_checkpoint(opened, tmp_path / "out")
    _same(checkpoint, out, changed=lambda name: name.endswith("body_model.embed_text.weight"))
    again = read_checkpoint(str(out))
    with torch.no_grad():
        given = {
            "x": torch.randn(1, 6, 417), "timestep": torch.tensor([3]), "lengths": torch.tensor([6]),
            "text": torch.randn(1, 1, 8), "text_mask": torch.ones(1, 1, dtype=torch.bool), "heading": torch.zeros(1),
        }  # fmt: skip
        assert_close(again.network(**given), opened.network(**given), atol=1e-5, rtol=0)
    with pytest.raises(MotionkitError, match="not empty"):
        export_checkpoint(opened, out)
    export_checkpoint(opened, out, overwrite=True)


def test_other_forms_of_weights(checkpoint: Path, tmp_path: Path) -> None:
    tensors = {
        name.removeprefix("denoiser.backbone."): value.half() for name, value in load_file(checkpoint / MODEL).items()
    }
    (checkpoint / MODEL).unlink()
    _edit(checkpoint, "/model.safetensors", "/last.ckpt")
    torch.save({"state_dict": tensors, "epoch": 3}, checkpoint / "last.ckpt")
    opened = read_checkpoint(str(checkpoint))
    out = export_checkpoint(opened, tmp_path / "out")
    written = weights.read(out / "last.ckpt")["state_dict"]
    assert all(torch.equal(written[name], value) for name, value in tensors.items())
    torch.save(tensors, checkpoint / "last.ckpt")
    assert torch.equal(read_checkpoint(str(checkpoint)).network.table, opened.network.table)


def test_keys_may_be_elsewhere(checkpoint: Path) -> None:
    _edit(checkpoint, "  latent_dim: 16\n", "")
    _edit(checkpoint, "num_base_steps: 1000\n", "num_base_steps: 1000\nsizes: {latent_dim: 16}\n")
    assert read_checkpoint(str(checkpoint)).network.shape.latent == 16
    _edit(checkpoint, "ff_size: 32", "ff_size: 32\n  latent_dim: 32")
    with pytest.raises(MotionkitError, match="two values of latent_dim"):
        read_checkpoint(str(checkpoint))


def test_unknown_keys_are_told(checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    _edit(checkpoint, "ff_size: 32", "ff_size: 32\n  rotary: true")
    read_checkpoint(str(checkpoint))
    assert "rotary is not read" in caplog.text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kimodo.skeleton.G1Skeleton34", "kimodo.skeleton.DogSkeleton20", "DogSkeleton20"),
        ("kimodo.model.Kimodo", "os.system", "os.system"),
        ("kimodo.model.Kimodo\n", "kimodo.model.tmr.TMR.from_args\n", "no policy of Kimodo"),
        ("norm_first: false", "norm_first: maybe", "norm_first is 'maybe'"),
        ("activation: gelu", "activation: silu", "activation is 'silu'"),
        ("input_first_heading_angle: true", "input_first_heading_angle: [1]", "input_first_heading_angle is [1]"),
        ("use_text_mask: false", "use_text_mask: 2", "use_text_mask is 2"),
        ("motion_mask_mode: concat", "motion_mask_mode: add", "'concat' is"),
        ("cfg_type: separated", "cfg_type: other", "cfg_type is 'other'"),
        ("num_base_steps: 1000", "num_base_steps: 50", "num_base_steps"),
        ("llm_shape: [1, 8]", "llm_shape: [1]", "llm_shape"),
        ("llm_shape: [1, 8]", "llm_shape: [1, 16]", "does not fit KimodoNetwork"),
        ("num_layers: 1", "num_layers: 2", "missing"),
        ("num_layers: 1", "num_layers: 100000000", "num_layers"),
        ("num_heads: 2", "num_heads: 3", "do not divide"),
        ("fps: 30", "fps: fast", "fps"),
        ("/model.safetensors", "/other.safetensors", "other.safetensors is missing"),
        ("/model.safetensors", "/../../etc/passwd", "passwd is missing"),
        ("kimodo.skeleton.G1Skeleton34", "kimodo.skeleton.SOMASkeleton30", "has the shape [412]"),
    ],
)
def test_configs_that_are_refused(old: str, new: str, said: str, checkpoint: Path) -> None:
    _edit(checkpoint, old, new)
    with pytest.raises(MotionkitError) as refused:
        read_checkpoint(str(checkpoint))
    assert said in refused.value.sentence()
    assert str(checkpoint) in refused.value.sentence()


def test_incomplete_folders(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(MotionkitError, match="no folder of a Kimodo model"):
        read_checkpoint(str(tmp_path / "nothing"))
    statistics = checkpoint / "stats" / "motion" / "local_root" / "std.npy"
    np.save(statistics, np.ones(5, dtype=np.float32))
    with pytest.raises(MotionkitError, match="shape"):
        read_checkpoint(str(checkpoint))
    np.save(statistics, np.full(4, np.nan, dtype=np.float32))
    with pytest.raises(MotionkitError, match="not finite"):
        read_checkpoint(str(checkpoint))
    statistics.unlink()
    with pytest.raises(MotionkitError, match="has no statistics: stats/motion/local_root/std"):
        read_checkpoint(str(checkpoint))


def test_retrieval_models_are_no_policies(recorded: Path) -> None:
    with pytest.raises(MotionkitError) as refused:
        read_checkpoint(str(recorded / "tiny_tmr"))
    assert "kimodo-tmr" in refused.value.sentence()


def test_smplx_needs_its_body(make_checkpoint: Callable[[str, int], Path], tmp_path: Path) -> None:
    folder = make_checkpoint("SMPLXSkeleton22", 22)
    with pytest.raises(MotionkitError, match="SMPL-X's body"):
        read_checkpoint(str(folder))
    assert HUMANML.target_offsets is not None
    rest = positions_from_bones(torch.tensor(HUMANML.target_offsets), HUMANML.parents)
    torch.save(rest, tmp_path / "joints.p")
    opened = read_checkpoint(str(folder), smplx=tmp_path / "joints.p")
    assert (opened.representation.body.name, opened.representation.width) == ("smplx22", 273)


def test_other_bodies_need_no_joints(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(MotionkitError, match="is a model of g1, and needs no joints of SMPL-X"):
        read_checkpoint(str(checkpoint), smplx=tmp_path / "joints.p")


def test_hub(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def download(source: str, *, files: tuple[str, ...]) -> tuple[Path, str]:
        asked.append((source, files))
        return checkpoint, "commit"

    monkeypatch.setattr(_hub, "download", download)
    assert read_checkpoint("nvidia/Kimodo-G1-TINY").folder == checkpoint
    assert asked[0][0] == "nvidia/Kimodo-G1-TINY"
    assert "config.yaml" in asked[0][1]
