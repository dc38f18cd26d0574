"""Sa2VA's published code, small and with random weights: it opens, and says and draws what its own loops do.

Needs a checkout of bytedance/Sa2VA at 9832e1a (24 October 2025): ``MOTIONKIT_SA2VA_CODE=DIR``. Its image encoder is
made small and its device CPU by changing those words in a copy; nothing else of it is changed.
``--log-cli-level=INFO`` shows what was measured.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from motionkit.errors import MotionkitError
from motionkit.rl import categorical
from motionkit_regions.sa2va import Sa2vaOptions
from motionkit_regions.sa2va.inputs import IMAGE, square_of, tiles_of
from motionkit_regions.sa2va.open import open_sa2va
from motionkit_regions.sa2va.policy import Sa2vaPolicy
from tests.made.small_sa2va import write_tokenizer

pytest.importorskip("transformers")
_logger = logging.getLogger(__name__)
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


_LANGUAGES: dict[str, dict[str, Any]] = {
    "Qwen2ForCausalLM": {"model_type": "qwen2"},
    "Qwen3ForCausalLM": {"model_type": "qwen3", "head_dim": 16},
    "InternLM2ForCausalLM": {"model_type": "internlm2", "bias": False},
}


def write_published(folder: Path, language: str, *, seed: int = 0) -> Path:
    """Write a small published folder from the checkout's code."""
    from safetensors.torch import save_model

    from motionkit_regions.sa2va import parts as _published

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
    words = {
        "vocab_size": write_tokenizer(folder) + 4, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 8192,
        "architectures": [language], **_LANGUAGES[language],
    }  # fmt: skip
    config = {
        "model_type": "sa2va_chat", "architectures": ["Sa2VAChatModel"], "template": "qwen_chat", "ps_version": "v2",
        "auto_map": {"AutoConfig": "configuration_sa2va_chat.Sa2VAChatConfig",
                     "AutoModel": "modeling_sa2va_chat.Sa2VAChatModel"},
        "downsample_ratio": 0.5, "select_layer": -1, "force_image_size": 448, "llm_config": words,
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


@pytest.fixture(scope="module", params=_LANGUAGES)
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_published(tmp_path_factory.mktemp("published") / "model", request.param)


@pytest.fixture(scope="module")
def policy(published: Path) -> Sa2vaPolicy:
    begun = time.perf_counter()
    made = open_sa2va(options(published))
    with torch.no_grad():
        for name, parameter in made.network.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    count = sum(one.numel() for one in made.network.parameters())
    _logger.info(f"{count:,} parameters opened in {time.perf_counter() - begun:.1f} s")
    return made


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


def asked(policy: Sa2vaPolicy, mask: torch.Tensor) -> dict[str, Any]:
    """Return what the published loops take for a caption of a region."""
    tiles = tiles_of(picture(), 448, 2)
    cells = torch.nn.functional.interpolate(mask[:, None].float(), (16, 16), mode="nearest")[0]
    ids = torch.tensor([policy.words.about_region(len(tiles) * 256, int(cells.sum()), policy.options.question)])
    network: Any = policy.network
    network.img_context_token_id, network._count = policy.words.image, 0
    thumbnail = torch.tensor([False] * (len(tiles) - 1) + [True])
    return {"tiles": tiles, "ids": ids, "prompt_masks": [cells], "vp_overall_mask": thumbnail}


def test_the_published_forward_scores_alike(policy: Sa2vaPolicy) -> None:
    """Its own projector and its own way to put a region in, against `score_words`."""
    mask = region(policy)
    said = policy.sample_captions(policy.see([picture()]), mask, noise=torch.rand(1, policy.longest))
    scores = policy.score_words(policy.see([picture()]), mask, said.ids)
    given = asked(policy, mask)
    tiles, prompt = given.pop("tiles"), given.pop("ids")
    network: Any = policy.network
    with torch.no_grad():
        out = network._llm_forward(
            tiles, torch.cat([prompt, said.ids], 1), image_flags=torch.ones(len(tiles), 1, dtype=torch.int64),
            attention_mask=torch.ones(1, prompt.shape[1] + said.ids.shape[1]), use_cache=False, return_dict=True,
            **given,
        )  # fmt: skip
    raw = out.logits[:, prompt.shape[1] - 1 : -1].masked_fill(policy.words.barred, -torch.inf).log_softmax(-1)
    gap = float(((raw.gather(-1, said.ids[..., None])[..., 0] - scores.log_prob) * scores.mask).abs().max())
    _logger.info(f"log-probabilities differ from those of the published forward by {gap:.1e} at most")
    assert gap < 1e-5


def test_generate_draws_from_the_logits_that_are_scored(policy: Sa2vaPolicy) -> None:
    network: Any = policy.network
    if not hasattr(network.language_model, "generation_config"):
        pytest.skip("transformers 5 took generate() from InternLM2's code")
    mask = region(policy)
    said = policy.sample_captions(policy.see([picture()]), mask, temperature=0.0)
    scores = policy.score_words(policy.see([picture()]), mask, said.ids)
    given = asked(policy, mask)
    out = network.generate(
        pixel_values=[given.pop("tiles")], input_ids=given["ids"], attention_mask=torch.ones_like(given.pop("ids")),
        max_new_tokens=said.ids.shape[1], do_sample=False, return_dict_in_generate=True, output_logits=True,
        eos_token_id=policy.words.end, pad_token_id=policy.words.end,
        suppress_tokens=policy.words.barred.nonzero()[:, 0].tolist(), **given,
    )  # fmt: skip
    length = out.sequences.shape[1]
    assert out.sequences[0].tolist() == said.ids[0, :length].tolist()
    raw = torch.stack(out.logits, 1).masked_fill(policy.words.barred, -torch.inf).log_softmax(-1)
    theirs = raw.gather(-1, out.sequences[..., None])[..., 0]
    gap = float((theirs - scores.log_prob[:, :length]).abs().max())
    _logger.info(f"log-probabilities of {length} words differ from generate()'s raw logits by {gap:.1e} at most")
    assert gap < 1e-5


def test_a_padded_batch_says_what_single_rows_say(policy: Sa2vaPolicy) -> None:
    """Two images of other numbers of tiles: words are drawn with a cache, and scored again together and alone."""
    wide = np.random.default_rng(1).integers(0, 255, (60, 60, 3), dtype=np.uint8)
    seen, masks = policy.see([picture(), wide]), region(policy).repeat(2, 1, 1)
    noise = torch.rand(2, policy.longest, generator=torch.Generator().manual_seed(0))
    said = policy.sample_captions(seen, masks, noise=noise)
    scores = policy.score_words(seen, masks, said.ids, whole=True)
    assert scores.whole is not None
    again = categorical(scores.whole.flatten(0, 1), noise[:, : said.ids.shape[1]].flatten()).view_as(said.ids)
    assert torch.equal(again[scores.mask], said.ids[scores.mask])
    for row in range(2):
        alone = policy.score_words(seen.select(torch.tensor([row])), masks[row : row + 1], said.ids[row : row + 1])
        torch.testing.assert_close(alone.log_prob[0], scores.log_prob[row], rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", [(110, 60), (60, 110), (640, 480), (2000, 300), (448, 448), (900, 1000)])
def test_tiles_are_the_published_ones(policy: Sa2vaPolicy, size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    cut = sys.modules[type(policy.network).__module__].dynamic_preprocess
    theirs = np.stack([np.asarray(one) for one in cut(Image.fromarray(pixels), 1, 12, 448, True)])
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    expected = ((torch.from_numpy(theirs) / 255 - mean) / std).permute(0, 3, 1, 2)
    torch.testing.assert_close(tiles_of(pixels, 448, 12), expected, rtol=0, atol=1e-6)


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
    _logger.info(f"mask logits differ by {gap:.1e} of {float(ours.detach().abs().max()):.2f}")
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
    _logger.info(f"both ways, forward and backward: {time.perf_counter() - begun:.1f} s")
    for start in ("mlp1", "language_model", "text_hidden_fcs", "grounding_encoder"):
        found = [p.grad for name, p in trained.items() if name.startswith(start)]
        assert any(grad is not None and bool(grad.abs().sum() > 0) for grad in found), start
    policy.network.zero_grad()
    assert IMAGE not in policy.words.decode(ids)[0]
