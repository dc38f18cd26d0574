"""A folder of Sa2VA's parts with random weights, small, and a model of Sa2VA-4B's size that needs no folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from motionkit_regions.sa2va.parts import Composite

TILE, SIDE = 32, 64
"""Pixels of a tile, and of the image that is drawn in, of a small model."""


@dataclass(frozen=True)
class Sizes:
    """Settings of transformers' models; what is left out is as they have it."""

    vision: Mapping[str, Any]  # of InternVLVisionConfig
    words: Mapping[str, Any]  # of Qwen2Config; without ``vocab_size`` that of the tokenizer and four rows more
    hiera: Mapping[str, Any]  # of Sam2HieraDetConfig
    side: int  # pixels of the image that is drawn in
    prompt: int  # numbers of a prompt of the mask decoder
    decoder: Mapping[str, Any]  # of the mask decoder
    masks: int = 16  # channels of a mask that is given


SMALL = Sizes(
    vision={"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
            "image_size": [TILE, TILE], "patch_size": [4, 4]},
    words={"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
           "num_key_value_heads": 2, "max_position_embeddings": 512, "tie_word_embeddings": False},
    hiera={"hidden_size": 8, "num_attention_heads": 1, "blocks_per_stage": [1, 1, 2, 1],
           "embed_dim_per_stage": [8, 16, 32, 64], "num_attention_heads_per_stage": [1, 2, 4, 8],
           "window_size_per_stage": [4, 2, 4, 2], "global_attention_blocks": [3],
           "window_positional_embedding_background_size": [4, 4]},
    side=SIDE,
    prompt=16,
    decoder={"mlp_dim": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "iou_head_hidden_dim": 16},
    masks=8,
)  # fmt: skip

SA2VA_4B = Sizes(
    vision={"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
            "image_size": [448, 448], "patch_size": [14, 14], "attention_bias": True},
    words={"vocab_size": 151_680, "hidden_size": 2048, "intermediate_size": 11_008, "num_hidden_layers": 36,
           "num_attention_heads": 16, "num_key_value_heads": 2, "max_position_embeddings": 32_768,
           "tie_word_embeddings": False},
    hiera={"hidden_size": 144, "num_attention_heads": 2, "blocks_per_stage": [2, 6, 36, 4],
           "embed_dim_per_stage": [144, 288, 576, 1152], "num_attention_heads_per_stage": [2, 4, 8, 16],
           "window_size_per_stage": [8, 4, 16, 8], "global_attention_blocks": [23, 33, 43],
           "window_positional_embedding_background_size": [7, 7]},
    side=1024,
    prompt=256,
    decoder={"mlp_dim": 2048, "num_hidden_layers": 2, "num_attention_heads": 8, "iou_head_hidden_dim": 256},
)  # fmt: skip
"""InternViT-300M, Qwen2.5-3B with an output of its own, and SAM 2 with Hiera-L."""

_TEXT = """
a an the in on at of small large red green blue yellow purple white circle square triangle diamond top bottom left right
middle user assistant There are 1 part regions picture region1 Can you provide me with detailed description region
marked by Please segment this image Sure , . : ? is it
"""
_SPECIAL = ("<unk>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<vp>", "</vp>",
            "<p>", "</p>", "[SEG]")  # fmt: skip


def write_tokenizer(folder: Path) -> int:
    """Write a tokenizer of whole words; returns its number of tokens."""
    import tokenizers
    import transformers

    words = {word: number for number, word in enumerate([*_SPECIAL, *dict.fromkeys(_TEXT.split())])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", eos_token="<|im_end|>", pad_token="<|endoftext|>",
        additional_special_tokens=list(_SPECIAL[2:]),
    )  # fmt: skip
    fast.save_pretrained(folder)
    return len(words)


def config_of(sizes: Sizes, tokens: int) -> dict[str, Any]:
    """Return the content of config.json; `tokens` is the number of tokens that the tokenizer has."""
    import transformers

    from motionkit_regions.sa2va.parts import MODEL_TYPE

    vision = transformers.InternVLVisionConfig(**sizes.vision)
    words = transformers.Qwen2Config(**{"vocab_size": tokens + 4, **sizes.words})
    hiera = transformers.Sam2HieraDetConfig(**sizes.hiera, image_size=[sizes.side, sizes.side])
    seen = transformers.Sam2VisionConfig(
        backbone_config=hiera, backbone_channel_list=[*reversed(sizes.hiera["embed_dim_per_stage"])],
        fpn_hidden_size=sizes.prompt,
        backbone_feature_sizes=[[sizes.side // 4] * 2, [sizes.side // 8] * 2, [sizes.side // 16] * 2],
    )  # fmt: skip
    sam = transformers.Sam2Config(
        vision_config=seen.to_dict(),
        prompt_encoder_config={"hidden_size": sizes.prompt, "image_size": sizes.side, "patch_size": 16,
                               "mask_input_channels": sizes.masks},
        mask_decoder_config={"hidden_size": sizes.prompt, **sizes.decoder},
    )  # fmt: skip
    return {
        "model_type": MODEL_TYPE, "vision_config": vision.to_dict(), "llm_config": words.to_dict(),
        "sam_config": sam.to_dict(), "downsample_ratio": 0.5, "template": "qwen_chat",
    }  # fmt: skip


def write_model(folder: Path, *, seed: int = 0, sizes: Sizes = SMALL) -> Path:
    """Write a model of random weights."""
    import torch
    from safetensors.torch import save_model

    from motionkit_regions.sa2va.parts import Composite

    folder.mkdir(parents=True)
    config = config_of(sizes, write_tokenizer(folder))
    torch.manual_seed(seed)
    save_model(Composite(config), str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return folder


def make_model(config: dict[str, Any], device: torch.device, dtype: torch.dtype) -> Composite:
    """Return a model of random weights, which are drawn on its device and in their type: no copy, no file."""
    import torch

    from motionkit_regions.sa2va.parts import Composite

    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            return Composite(config).eval()
    finally:
        torch.set_default_dtype(default)
