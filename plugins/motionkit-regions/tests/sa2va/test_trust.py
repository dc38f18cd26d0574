"""Folders that come with code: what runs, when, and which variants are refused before anything of them runs."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from motionkit.errors import MotionkitError
from motionkit_regions.sa2va import Sa2vaOptions
from motionkit_regions.sa2va.open import open_sa2va
from motionkit_regions.sa2va.parts import code_of, open_published, shims, shuffled
from motionkit_regions.sa2va.sizes import PARTS, weight_names
from tests.made.small_sa2va import write_model

pytest.importorskip("transformers")
_CODE = """
import torch
import torchvision.transforms as T
from einops import rearrange
from timm.models.layers import DropPath
from torch import nn
from torchvision.transforms.functional import InterpolationMode, resize, to_pil_image
from transformers import PretrainedConfig, PreTrainedModel

open(MARK, "w").close()
print("foreign code was here")


class Config(PretrainedConfig):
    model_type = "sa2va_chat"

    def __init__(self, vision_config=None, llm_config=None, **more):
        super().__init__(**more)
        self.vision_config = PretrainedConfig(**(vision_config or {}))
        self.llm_config = PretrainedConfig(**(llm_config or {}))
        self.force_image_size, self.downsample_ratio = 32, 0.5


class Vision(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 6, 4, 4)
        self.drop = DropPath(0.5)

    def forward(self, pixel_values, output_hidden_states, return_dict):
        cells = self.drop(self.embed(pixel_values)).flatten(2).transpose(1, 2)
        found = torch.cat([cells[:, :1], cells], 1)
        return type("Out", (), {"last_hidden_state": found, "hidden_states": [found, found + 1]})


class Model(PreTrainedModel):
    config_class = Config

    def __init__(self, config, use_flash_attn=True):
        super().__init__(config)
        assert not use_flash_attn
        self.select_layer, self.downsample_ratio = config.select_layer, 0.5
        self.vision_model, self.mlp1 = Vision(), nn.Linear(24, 8)
        self.language_model, self.text_hidden_fcs = nn.Linear(8, 8), nn.Linear(8, 4)
        self.grounding_encoder = nn.Module()
        self.grounding_encoder.sam2_model = sam = nn.Module()
        sam.weight = nn.Parameter(torch.zeros(2))
        sam.image_size, sam.sam_image_embedding_size, sam.hidden_dim = 64, 4, 4

    def pixel_shuffle(self, x, scale_factor):
        x = rearrange(x, "n h w (c g) -> n h w c g", g=1)
        n, h, w, c, _ = x.shape
        return x.view(n, h // 2, 2, w // 2, 2, c).transpose(2, 3).reshape(n, h // 2, w // 2, 4 * c)
"""


def published(folder: Path, *, lacking: str = "", **changes: Any) -> Path:
    folder.mkdir()
    (folder / "modeling_it.py").write_text(_CODE.replace("MARK", repr(str(folder / "ran"))))
    config = {
        "model_type": "sa2va_chat", "auto_map": {"AutoModel": "modeling_it.Model"}, "select_layer": -1,
        "template": "qwen_chat", "vision_config": {"image_size": 32, "patch_size": 4},
        "llm_config": {"architectures": ["Qwen2ForCausalLM"]}, **changes,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    sizes = {"vision_model.embed": (6, 3, 4, 4), "mlp1": (8, 24), "language_model": (8, 8), "text_hidden_fcs": (4, 8)}
    draw = torch.Generator().manual_seed(0)
    tensors = {f"{name}.weight": torch.randn(size, generator=draw) for name, size in sizes.items()}
    tensors |= {f"{name}.bias": torch.randn(size[0], generator=draw) for name, size in sizes.items()}
    tensors["grounding_encoder.sam2_model.weight"] = torch.zeros(2)
    save_file({name: one for name, one in tensors.items() if not lacking or not name.startswith(lacking)},
              folder / "model.safetensors")  # fmt: skip
    return folder


def opened(folder: Path) -> object:
    return open_sa2va(Sa2vaOptions(checkpoint=str(folder)))


def test_code_runs_only_where_it_is_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = published(tmp_path / "it")
    with pytest.raises(MotionkitError) as refused:
        opened(folder)
    assert "--trust-remote-code" in str(refused.value.fix)
    assert refused.value.code == 2
    assert not (folder / "ran").exists()
    parts = open_published(folder, torch.float32, trusted=True)
    assert (folder / "ran").exists()
    assert "foreign" not in capsys.readouterr().out  # the standard output may be JSON
    assert (parts.sizes.tile, parts.sizes.cells, parts.sizes.grounding, parts.sizes.mask) == (32, 4, 64, 16)


@pytest.mark.parametrize(("layer", "more"), [(-1, 0.0), (1, 1.0)])
def test_what_the_projector_reads(tmp_path: Path, layer: int, more: float) -> None:
    parts = open_published(published(tmp_path / "it", select_layer=layer), torch.float32, trusted=True)
    tiles = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        cells = parts.network.vision_model.embed(tiles).flatten(2).transpose(1, 2) + more
        torch.testing.assert_close(parts.look(tiles), shuffled(cells, 2))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"lacking": "mlp1"}, "ignores regions"),
        ({"lacking": "text_hidden_fcs"}, "not a Sa2VA"),
        ({"auto_map": {}}, "not a Sa2VA"),
        ({"auto_map": {"AutoModel": "other/place--modeling_it.Model"}}, "another place"),
        ({"llm_config": {"architectures": ["Phi3ForCausalLM"]}}, "Phi3ForCausalLM"),
        ({"llm_config": None}, "none"),
    ],
)
def test_variants_that_cannot_be_used_are_refused_before_their_code_runs(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    folder = published(tmp_path / "it", **changes)
    with pytest.raises(MotionkitError, match=why):
        open_published(folder, torch.float32, trusted=True)
    assert not (folder / "ran").exists()


def test_code_that_fails_is_reported_as_such(tmp_path: Path) -> None:
    folder = published(tmp_path / "it")
    (folder / "modeling_it.py").write_text("import torch\nraise KeyError('broken')\n")
    with pytest.raises(MotionkitError) as refused:
        open_published(folder, torch.float32, trusted=True)
    assert "KeyError" in str(refused.value.why)
    assert torch.get_default_dtype() == torch.float32


def test_the_hash_is_of_all_code(tmp_path: Path) -> None:
    folder = published(tmp_path / "it")
    first = code_of(folder)
    (folder / "other.py").write_text("1\n")
    assert first
    assert code_of(folder) != first
    assert code_of(tmp_path) == ""


def test_stand_ins_are_gone_afterwards() -> None:
    before = {name for name in sys.modules if name.partition(".")[0] in ("torchvision", "timm", "einops")}
    with shims():
        import einops

        cells = torch.arange(24.0).view(1, 2, 12)
        split = einops.rearrange(cells, "b q (h g d) -> b q h g d", g=2, d=3)
        assert torch.equal(split, cells.view(1, 2, 2, 2, 3))
        assert torch.equal(einops.rearrange(split, "b q h g d -> b q (h g) d"), cells.view(1, 2, 4, 3))
    after = {name for name in sys.modules if name.partition(".")[0] in ("torchvision", "timm", "einops")}
    assert after == before


def test_names_of_weights_are_read_from_a_damaged_file_as_none(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", 1000) + b"{}")
    assert weight_names(tmp_path) == set()
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"mlp1.0.weight": "a"}}')
    assert weight_names(tmp_path) == {"mlp1.0.weight"}
    assert "mlp1" in PARTS


def test_nobody_is_asked_about_the_code_of_a_language_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_model(tmp_path / "it")
    content = json.loads((folder / "config.json").read_text())
    asked: list[object] = []
    monkeypatch.setattr("builtins.input", lambda *words: asked.append(words) or "n")
    for words, said in (
        ({"model_type": "clip", "auto_map": {"AutoModelForCausalLM": "someone/words--evil.Evil"}}, "config.json"),
        ({**content["llm_config"], "attn_implementation": "someone/attention"}, "names code of the hub"),
    ):
        (folder / "config.json").write_text(json.dumps({**content, "llm_config": words}))
        with pytest.raises(MotionkitError, match=said):
            opened(folder)
    assert asked == []
