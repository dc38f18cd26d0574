"""Reading foreign files: formats by content, damage in words, what they hold; nothing is ever executed."""

from __future__ import annotations

import argparse
import collections
import io
import os
import pickle
import tarfile
import zipfile

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from motionkit.errors import MotionkitError
from motionkit.weights import build, describe, find_tensors, load_strict, read, read_array


class Evil:
    """A pickle that makes a file when it is opened carelessly."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


class Unknown:
    """An object of the training program."""


TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2, dtype=torch.int64)}


def same(found):
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], TENSORS[name]) for name in TENSORS)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".ckpt", ".tar", ".bin", ""])
@pytest.mark.parametrize("zipped", [True, False])
def test_torch_files_whatever_their_name(tmp_path, suffix, zipped):
    path = tmp_path / f"weights{suffix}"
    torch.save(TENSORS, path, _use_new_zipfile_serialization=zipped)
    same(read(path))


def test_safetensors(tmp_path):
    safetensors.torch.save_file(TENSORS, tmp_path / "x.pt")
    same(read(tmp_path / "x.pt"))


def test_plain_containers_and_arrays_are_admitted(tmp_path):
    obj = {
        "state": collections.OrderedDict(TENSORS),
        "array": np.arange(4.0, dtype="f4"),
        "scalar": np.float64(2.5),
        "int": np.int64(3),
        "args": argparse.Namespace(lr=0.1),
        "more": [1, "two", (3.0, None, True), {4}],
    }
    for zipped in (True, False):
        torch.save(obj, tmp_path / "x.ckpt", _use_new_zipfile_serialization=zipped)
        found = read(tmp_path / "x.ckpt")
        assert np.array_equal(found["array"], obj["array"])
        assert found["scalar"] == 2.5
        assert found["args"].lr == 0.1
        assert found["more"] == obj["more"]


def evil_files(tmp_path, target):
    payload = {"weights": TENSORS, "extra": Evil(target)}
    torch.save(payload, tmp_path / "zip.pt")
    torch.save(payload, tmp_path / "legacy.tar", _use_new_zipfile_serialization=False)
    (tmp_path / "plain.pkl").write_bytes(pickle.dumps({"weights": np.ones(3), "extra": Evil(target)}))
    # In place of the magic number that a legacy file starts with:
    (tmp_path / "first.tar").write_bytes(pickle.dumps(Evil(target)) + pickle.dumps(0x1950A86A20F9469CFC6C))
    np.save(tmp_path / "object.npy", np.array({"x": Evil(target)}, dtype=object), allow_pickle=True)
    np.savez(tmp_path / "object.npz", x=np.array([Evil(target)], dtype=object))
    return ["zip.pt", "legacy.tar", "plain.pkl", "first.tar", "object.npy", "object.npz"]


@pytest.mark.parametrize("index", range(6))
def test_a_pickle_that_runs_code_is_refused_and_does_not_run(tmp_path, index):
    target = tmp_path / "executed"
    name = evil_files(tmp_path, target)[index]
    reader = read_array if name.endswith((".npy", ".npz")) else read
    with pytest.raises(MotionkitError) as caught:
        reader(tmp_path / name)
    assert not target.exists()
    assert "nothing was executed" in caught.value.why
    assert caught.value.code == 2
    # The same file, opened carelessly, does run: the test can fail.
    if name == "plain.pkl":
        pickle.loads((tmp_path / name).read_bytes())
        assert target.exists()


def test_an_object_of_another_program_says_how_to_get_the_weights(tmp_path):
    torch.save({"state_dict": TENSORS, "hyper_parameters": Unknown()}, tmp_path / "x.ckpt")
    with pytest.raises(MotionkitError, match="Unknown") as caught:
        read(tmp_path / "x.ckpt")
    assert "state_dict()" in caught.value.fix


@pytest.mark.parametrize("zipped", [True, False])
def test_truncated_torch_files(tmp_path, zipped):
    path = tmp_path / "x.pt"
    torch.save({"w": torch.randn(200)}, path, _use_new_zipfile_serialization=zipped)
    whole = path.read_bytes()
    for size in (1, 12, 40, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:size])
        with pytest.raises(MotionkitError) as caught:
            read(path)
        assert caught.value.code == 2
        assert str(path) in caught.value.message


def zipped(**members):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return archive.getvalue()


def tarred():
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        file.addfile(tarfile.TarInfo("inside"))
    return archive.getvalue()


def array():
    archive = io.BytesIO()
    np.save(archive, np.arange(100.0))
    return archive.getvalue()


SCRIPT = {f"clip/{name}": b"\x80\x02}." for name in ("constants.pkl", "data.pkl", "code/__torch__.py", "version")}
NO_WEIGHTS = {
    "none.pt": (None, "cannot be opened"),
    "empty.pt": (b"", "empty"),
    "folder.pt": ("a folder", "folder"),
    "cut.safetensors": (safetensors.torch.save({"w": torch.randn(200)})[:-30], "damaged safetensors"),
    "page.pt": (b"<!DOCTYPE html><html>quota exceeded", "web page"),
    "pointer.pt": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "LFS pointer"),
    "text.pt": (b"just some text that is no file of weights", "not a weight file"),
    "zip.pt": (zipped(**{"readme.txt": "hello"}), "zip archive"),
    "script.pt": (zipped(**SCRIPT), "TorchScript"),
    "some.tar": (tarred(), "tar archive"),
    "cut.npy": (array()[:300], "numpy data"),
    "text.npy": (b"nothing", "not a .npy"),
    "none.npy": (None, "does not exist"),
}


@pytest.mark.parametrize("name", NO_WEIGHTS)
def test_what_is_no_weight_file(tmp_path, name):
    content, word = NO_WEIGHTS[name]
    if content == "a folder":
        (tmp_path / name).mkdir()
    elif content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(MotionkitError) as caught:
        (read_array if name.endswith(".npy") else read)(tmp_path / name)
    assert word in caught.value.message


def test_arrays(tmp_path):
    for array in (np.arange(12.0).reshape(3, 4), np.asfortranarray(np.arange(6).reshape(2, 3)), np.zeros((0, 3), "f4")):
        np.save(tmp_path / "a.npy", array)
        found = read_array(tmp_path / "a.npy")
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)
        assert np.array_equal(read(tmp_path / "a.npy"), array)
    np.savez(tmp_path / "b.npz", x=np.arange(3), y=np.ones(2))
    assert read_array(tmp_path / "b.npz")["x"].tolist() == [0, 1, 2]
    np.savez_compressed(tmp_path / "c.npz", x=np.arange(300))
    assert read(tmp_path / "c.npz")["x"].tolist() == list(range(300))
    sample = {"prompts": ["a", "b"], "frames": np.array([3, 4]), "total": np.int64(7)}
    np.save(tmp_path / "d.npy", sample, allow_pickle=True)
    found = read_array(tmp_path / "d.npy")
    assert found["prompts"] == ["a", "b"]
    assert found["frames"].tolist() == [3, 4]


def test_recorded_composite_file(shared):
    found = read_array(shared / "fixtures" / "mdm" / "mini_humanml3d" / "composite" / "composite_k3_train.npy")
    assert {"samples", "metadata"} <= set(found)


T = torch.zeros


def test_recorded_files(shared):
    fixtures = shared / "fixtures"
    for path, words in {
        "tmr/real_L2/last_weights/motion_encoder.pt": "TMR motion encoder, 263",
        "tmr/real_L2/last_weights/text_encoder.pt": "TMR text encoder (DistilBERT features), 768",
        "tmr/real_L2/last_weights/motion_decoder.pt": "TMR motion decoder",
        "tmr/tiny/variants/lightning_last.ckpt": "Lightning checkpoint",
        "mdm/tiny_trans_enc/model000000100.pt": "MDM diffusion model (trans_enc, 263",
        "mdm/evaluator_tiny_t2m/checkpoints/t2m/text_mot_match/model/finest.tar": "Guo et al.",
    }.items():
        assert words in describe(read(fixtures / path))


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        ({"a.lora_A.weight": T(2, 2), "a.lora_B.weight": T(2, 2)}, "LoRA"),
        ({"input_process.poseEmbedding.weight": T(8, 263), "embed_target_cond.mlp.0.weight": T(2)}, "DiP"),
        (
            {"input_process.poseEmbedding.weight": T(8, 251), "seqTransDecoder.layers.0.linear1.weight": T(2)},
            "trans_dec, 251",
        ),
        ({"skel_embedding.weight": T(8, 263), "global_motion_token": T(2, 8)}, "OpenTMA"),
        (
            {"encoder.input_blocks.0.x": T(1), "encoder.middle_block.x": T(1), "encoder.output_blocks.0.x": T(1)},
            "MotionReward",
        ),
        ({"visual.transformer.resblocks.0.attn.in_proj_weight": T(1)}, "CLIP"),
        ({"transformer.layer.0.attention.q_lin.weight": T(1)}, "DistilBERT"),
        ({"text_encoder": {"gru.weight_ih_l0": T(3, 2), "hidden": T(2, 1, 2), "output_net.0.weight": T(1)}}, "Guo"),
        ({"x": T(1), "y": T(1)}, "2 tensors of an unknown model"),
        ({}, "empty"),
        ({"epoch": 3}, "without recognisable weights"),
        ([1, 2], "a list"),
        (T(3, 4), r"[3, 4]"),
    ],
)
def test_words(obj, words):
    assert words in describe(obj)


def test_wrappings_are_looked_through():
    flat = {"w": T(2)}
    for obj in (
        flat,
        {"state_dict": flat},
        {"model": {"module.w": T(2)}},
        {"model_state_dict": {"_orig_mod.module.w": T(2)}},
    ):
        assert list(find_tensors(obj) or {}) == ["w"]
    assert find_tensors({"epoch": 1}) is None


def test_a_network_is_looked_at_without_random_values_and_then_loaded(monkeypatch):
    drawn = []
    monkeypatch.setattr(nn.init, "_no_grad_normal_", lambda tensor, *_, **__: drawn.append(tensor.device.type))
    table = torch.arange(6.0).view(3, 2)
    network = build(lambda: nn.Embedding(3, 2), {"weight": table}, "words.safetensors")
    assert drawn == ["cpu"], "on the meta device torch would import its compiler for it"
    assert torch.equal(network.weight, table)


def test_load_strict_says_what_differs():
    module = nn.Linear(3, 2)
    before = module.weight.clone()
    with pytest.raises(MotionkitError) as caught:
        load_strict(module, {"weight": torch.zeros(5, 3), "gamma": torch.zeros(2)}, "file.pt")
    assert "1 of 2 tensors missing: bias" in caught.value.why
    assert "unknown: gamma" in caught.value.why
    assert "weight is [5, 3], should be [2, 3]" in caught.value.why
    assert torch.equal(module.weight, before)
    load_strict(module, {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}, "file.pt")
    assert bool((module.weight == 1).all())
