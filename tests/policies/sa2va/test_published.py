"""Sa2VA's published code, small and with random weights: it opens, and says and draws what its own loops do.

Needs a checkout of the repository: ``MOTIONKIT_SA2VA_CODE=DIR``. Its image encoder is made small and its device CPU by
changing those words in a copy; nothing else of it is changed.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from motionkit.errors import MotionkitError
from motionkit.policies.sa2va import Sa2vaOptions
from motionkit.policies.sa2va._pixels import square_of, tiles_of
from motionkit.policies.sa2va._policy import Sa2vaPolicy
from motionkit.policies.sa2va._words import IMAGE
from motionkit.policies.sa2va.api import open_sa2va
from tests.policies.sa2va.conftest import write_tokenizer

pytest.importorskip("transformers")
_CODE = os.environ.get("MOTIONKIT_SA2VA_CODE", "")
pytestmark = [
    pytest.mark.skipif(not _CODE, reason="needs Sa2VA's published code; MOTIONKIT_SA2VA_CODE names a checkout"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of foreign code
]
_SMALL = {
    "embed_dim = 144": "embed_dim = 16",
    "stages = [2, 6, 36, 4]": "stages = [1, 1, 2, 1]",
    "global_att_blocks = [23, 33, 43]": "global_att_blocks = [3]",
    "backbone_channel_list = [1152, 576, 288, 144]": "backbone_channel_list = [128, 64, 32, 16]",
}
_ON_CPU = {
    'torch.autocast(device_type="cuda", dtype=torch.bfloat16)': 'torch.autocast(device_type="cpu", enabled=False)',
    '"cuda"': '"cpu"',
    ".cuda(non_blocking=True)": "",
    ".cuda()": "",
}


def write_published(folder: Path, *, seed: int = 0) -> Path:
    """Write a small published folder from the checkout's code."""
    import transformers
    from safetensors.torch import save_model

    from motionkit.policies.sa2va import _published

    found = sorted(Path(_CODE).rglob("hf/models/modeling_sa2va_chat.py")) or [Path(_CODE) / "modeling_sa2va_chat.py"]
    folder.mkdir(parents=True)
    for path in sorted(found[0].parent.glob("*.py")):
        text = path.read_text()
        if path.name == "sam2.py":
            for old, new in _SMALL.items():
                assert text.count(old) == 1, old
                text = text.replace(old, new)
        for old, new in _ON_CPU.items():
            text = text.replace(old, new)
        (folder / path.name).write_text(text)
    words = transformers.Qwen2Config(
        vocab_size=write_tokenizer(folder) + 4, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=8192, architectures=["Qwen2ForCausalLM"],
    )  # fmt: skip
    config = {
        "model_type": "sa2va_chat", "architectures": ["Sa2VAChatModel"], "template": "qwen_chat", "ps_version": "v2",
        "auto_map": {"AutoConfig": "configuration_sa2va_chat.Sa2VAChatConfig",
                     "AutoModel": "modeling_sa2va_chat.Sa2VAChatModel"},
        "downsample_ratio": 0.5, "select_layer": -1, "force_image_size": 448, "llm_config": words.to_dict(),
        "vision_config": {"architectures": ["InternVisionModel"], "hidden_size": 32, "intermediate_size": 64,
                          "num_attention_heads": 2, "num_hidden_layers": 2, "image_size": 448, "patch_size": 14,
                          "qk_normalization": False, "norm_type": "layer_norm", "drop_path_rate": 0.1},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(seed)
    network = _published._network(folder, config["auto_map"]["AutoModel"], torch.float32)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if "norm" in name and name.endswith("weight"):
                tensor.fill_(1.0)
            elif tensor.is_floating_point():
                tensor.normal_(std=0.05)
    save_model(network, str(folder / "model.safetensors"))
    return folder


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_published(tmp_path_factory.mktemp("published") / "model")


@pytest.fixture(scope="module")
def policy(published: Path) -> Iterator[Sa2vaPolicy]:
    begun = time.perf_counter()
    made = open_sa2va(options(published))
    with torch.no_grad():
        for name, parameter in made.network.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    count = sum(one.numel() for one in made.network.parameters())
    print(f"{count:,} parameters opened in {time.perf_counter() - begun:.1f} s")
    yield made


def options(folder: Path, **more: Any) -> Sa2vaOptions:
    return Sa2vaOptions.model_validate(
        {"checkpoint": str(folder), "trust_remote_code": True, "lora_rank": 4, "max_words": 12, "max_tiles": 2, **more}
    )


def picture() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (60, 110, 3), dtype=np.uint8)


def region(policy: Sa2vaPolicy) -> torch.Tensor:
    mask = torch.zeros(1, *policy.mask_size, dtype=torch.bool)
    mask[0, 40:150, 60:180] = True
    return mask


def test_code_that_is_not_trusted_does_not_run(published: Path, tmp_path: Path) -> None:
    folder = tmp_path / "evil"
    shutil.copytree(published, folder)
    (folder / "modeling_sa2va_chat.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    with pytest.raises(MotionkitError, match="not trusted") as refused:
        open_sa2va(options(folder, trust_remote_code=False))
    assert "--trust-remote-code" in str(refused.value.fix)
    assert not (tmp_path / "ran").exists()


def test_generate_draws_from_the_logits_that_are_scored(policy: Sa2vaPolicy) -> None:
    """The published `generate`, with its own projector and its own way to put a region in, against `score_words`."""
    image, mask = picture(), region(policy)
    seen = policy.see([image])
    said = policy.sample_captions(seen, mask, temperature=0.0)
    scores = policy.score_words(seen, mask, said.ids)
    network: Any = policy.network
    tiles = tiles_of(image, 448, 2)
    cells = torch.nn.functional.interpolate(mask[:, None].float(), (16, 16), mode="nearest")[0]
    ids = torch.tensor([policy.words.about_region(len(tiles) * 256, int(cells.sum()), policy.options.question)])
    network.img_context_token_id = policy.words.image
    out = network.generate(
        pixel_values=[tiles], input_ids=ids, attention_mask=torch.ones_like(ids), prompt_masks=[cells],
        vp_overall_mask=torch.tensor([False] * (len(tiles) - 1) + [True]), max_new_tokens=said.ids.shape[1],
        do_sample=False, return_dict_in_generate=True, output_logits=True, eos_token_id=policy.words.end,
        pad_token_id=policy.words.end, suppress_tokens=policy.words.barred.nonzero()[:, 0].tolist(),
    )  # fmt: skip
    length = out.sequences.shape[1]
    assert out.sequences[0].tolist() == said.ids[0, :length].tolist()
    raw = torch.stack(out.logits, 1).masked_fill(policy.words.barred, -torch.inf).log_softmax(-1)
    theirs = raw.gather(-1, out.sequences[..., None])[..., 0]
    gap = float((theirs - scores.log_prob[:, :length]).abs().max())
    print(f"log-probabilities of {length} words differ from generate()'s raw logits by {gap:.1e} at most")
    assert gap < 1e-5


def test_the_mask_is_that_of_the_published_loop(policy: Sa2vaPolicy) -> None:
    """Its video loop, on one frame, against `draw`."""
    image = picture()
    seen = policy.see([image])
    prompt = policy.prompts(seen, ["a small red circle"])
    ours = policy.draw(seen, prompt)
    network: Any = policy.network
    with torch.no_grad():
        state = network.grounding_encoder.get_sam2_embeddings(square_of(image, 1024)[None])
        theirs = network.grounding_encoder.language_embd_inference(state, [prompt.detach()])
    if theirs.shape[-2:] != ours.shape[-2:]:
        ours = torch.nn.functional.interpolate(ours[None], theirs.shape[-2:], mode="bilinear", align_corners=False)[0]
    gap = float((theirs[0, 0] - ours[0]).abs().max())
    print(f"mask logits differ by {gap:.1e} of {float(ours.detach().abs().max()):.2f}")
    assert gap < 1e-3 * float(ours.detach().abs().max())


def test_the_mask_prompt_counts_and_gradients_reach_all_that_is_trained(policy: Sa2vaPolicy) -> None:
    seen, mask = policy.see([picture()]), region(policy)
    ids = policy.encode(["a small red circle"])
    one, other = (policy.score_words(seen, where, ids).log_prob for where in (mask, mask.roll(100, 1)))
    assert not torch.allclose(one, other)
    trained = dict(policy.network.named_parameters())
    trained = {name: trained[name].requires_grad_(True) for name in policy.tensors()}
    begun = time.perf_counter()
    candidates = policy.candidates(seen, policy.prompts(seen, ["a small red circle"]))
    loss = -policy.score_words(seen, mask, ids).log_prob.sum() + candidates.logits.mean() + candidates.scores.sum()
    loss.backward()
    print(f"both ways, forward and backward: {time.perf_counter() - begun:.1f} s")
    for start in ("mlp1", "language_model", "text_hidden_fcs", "grounding_encoder"):
        found = [p.grad for name, p in trained.items() if name.startswith(start)]
        assert any(grad is not None and bool(grad.abs().sum() > 0) for grad in found), start
    policy.network.zero_grad()
    assert IMAGE not in policy.words.decode(ids)[0]
