"""A trained Sa2VA as a folder of Hugging Face, and checkpoints of the guide's code."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from motionkit.errors import MotionkitError
from motionkit_regions.sa2va import Sa2vaOptions
from motionkit_regions.sa2va.open import export_hf, open_sa2va
from motionkit_regions.sa2va.policy import Sa2vaPolicy

pytest.importorskip("transformers")


def opened(folder: Path, **options: object) -> Sa2vaPolicy:
    small = {"checkpoint": str(folder), "lora_rank": 4, "lora_alpha": 6.0, "max_words": 10, "max_tiles": 4}
    return open_sa2va(Sa2vaOptions.model_validate({**small, **options}))


@pytest.fixture
def trained(composite: Path) -> Sa2vaPolicy:
    """Every trained weight moved."""
    policy, draw = opened(composite), torch.Generator().manual_seed(3)
    policy.load_tensors({name: one + 0.05 * torch.randn(one.shape, generator=draw)
                         for name, one in policy.tensors().items()})  # fmt: skip
    return policy


def said(policy: Sa2vaPolicy) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of a caption, and the logits of a mask."""
    seen = policy.see([np.random.default_rng(0).integers(0, 255, (50, 80, 3), dtype=np.uint8)])
    mask = torch.zeros(1, *policy.mask_size, dtype=torch.bool)
    mask[0, 2:9, 3:12] = True
    ids = policy.encode(["a small red circle"])
    with torch.no_grad():
        drawn = policy.draw(seen, policy.prompts(seen, ["a large blue square"]))
        return policy.score_words(seen, mask, ids).log_prob, drawn


def test_an_exported_folder_says_and_draws_the_same(trained: Sa2vaPolicy, composite: Path, tmp_path: Path) -> None:
    trained.save(tmp_path / "policy", tensors=trained.tensors())
    export_hf(str(tmp_path / "policy"), tmp_path / "out")
    again = opened(tmp_path / "out", lora_rank=0)
    for one, other, start in zip(said(trained), said(again), said(opened(composite)), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
        assert float((one - start).abs().max()) > 1e-3
    base, out = load_file(composite / "model.safetensors"), load_file(tmp_path / "out/model.safetensors")
    assert {name: (one.shape, one.dtype) for name, one in base.items()} == {
        name: (one.shape, one.dtype) for name, one in out.items()
    }
    frozen = [name for name in base if name.startswith("vision_model")]
    assert frozen
    assert all(torch.equal(base[name], out[name]) for name in frozen)
    assert json.loads((tmp_path / "out/config.json").read_text()) == json.loads((composite / "config.json").read_text())


def test_a_base_that_moved_is_named(trained: Sa2vaPolicy, tmp_path: Path) -> None:
    trained.save(tmp_path / "policy", tensors=trained.tensors())
    path = tmp_path / "policy/policy.json"
    document = json.loads(path.read_text())
    document["base"]["place"] = str(tmp_path / "gone")
    path.write_text(json.dumps(document))
    with pytest.raises(MotionkitError) as refused:
        export_hf(str(tmp_path / "policy"), tmp_path / "out")
    assert "base.place" in str(refused.value.fix)
    assert not (tmp_path / "out").exists()


def test_weights_that_the_base_has_not_are_refused(trained: Sa2vaPolicy, tmp_path: Path) -> None:
    trained.save(tmp_path / "policy", tensors={**trained.tensors(), "mlp1.9.weight": torch.zeros(1)})
    with pytest.raises(MotionkitError, match=r"mlp1\.9\.weight"):
        export_hf(str(tmp_path / "policy"), tmp_path / "out")


@pytest.mark.parametrize("wrap", ["", "module.", "model."])
def test_a_checkpoint_of_the_guide_is_read_by_name(
    trained: Sa2vaPolicy, composite: Path, tmp_path: Path, wrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    named = {f"{wrap}{name}".replace("language_model.", "language_model.base_model.model.", 1): one
             for name, one in trained.tensors().items()}  # fmt: skip
    torch.save({**named, f"{wrap}vision_model.other": torch.zeros(2)}, tmp_path / "pytorch_model.bin")
    del named[f"{wrap}mlp1.1.weight"]
    torch.save({"shadow": named}, tmp_path / "ema_model.bin")
    torch.save({"global_step": 70, "optimizer": {"state": {}}}, tmp_path / "training_state.bin")
    with caplog.at_level(logging.WARNING):
        policy = opened(tmp_path, base=str(composite))
    for one, other in zip(said(trained), said(policy), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert "not found" not in caplog.text
    assert "global_step 70" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        average = opened(tmp_path, base=str(composite), weights="ema").tensors()
    assert "not found: 1 of 6 of the projector" in caplog.text
    assert torch.equal(average["mlp1.1.weight"], opened(composite).tensors()["mlp1.1.weight"])
    assert torch.equal(average["mlp1.3.weight"], trained.tensors()["mlp1.3.weight"])


@pytest.mark.parametrize("part", ["lora_A.other.weight", "lora_B.default.bias", "lora_magnitude_vector.default.weight"])
def test_adapters_of_which_a_part_would_be_lost_are_refused(
    trained: Sa2vaPolicy, composite: Path, tmp_path: Path, part: str
) -> None:
    tensors = trained.tensors()
    layer = next(name for name in tensors if name.endswith(".lora_A.default.weight")).partition(".lora_A")[0]
    torch.save({**tensors, f"{layer}.{part}": torch.zeros(2)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(MotionkitError, match=rf"{layer}.{part} and 0 more"):
        opened(tmp_path, base=str(composite))
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    with pytest.raises(MotionkitError) as refused:
        opened(tmp_path, base=str(composite), lora_rank=0)
    assert "--policy.lora-rank" in str(refused.value.fix)


@pytest.mark.parametrize(
    ("tensor", "options", "word"),
    [
        ("mlp1.1.weight", {"base": ""}, "trained from"),
        ("mlp1.1.weight", {}, "does not fit"),
        ("mlp1.1.weight", {"weights": "ema"}, "ema_model.bin"),
        ("a.b", {}, "nothing that is trained"),
    ],
)
def test_a_guides_checkpoint_needs_its_base_and_must_fit(
    composite: Path, tmp_path: Path, tensor: str, options: dict[str, str], word: str
) -> None:
    torch.save({tensor: torch.zeros(3)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(MotionkitError, match=word):
        opened(tmp_path, **{"base": str(composite), **options})
