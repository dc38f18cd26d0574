"""Write a small folder of Sa2VA's parts with random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TILE, SIDE = 32, 64
"""Pixels of a tile, and of the image that is drawn in."""

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


def write_model(folder: Path, *, seed: int = 0) -> Path:
    """Write a model of random weights."""
    import torch
    import transformers
    from safetensors.torch import save_model

    from motionkit_regions.sa2va.parts import MODEL_TYPE, Composite

    folder.mkdir(parents=True)
    vocabulary = write_tokenizer(folder)
    vision = transformers.InternVLVisionConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=[TILE, TILE],
        patch_size=[4, 4],
    )  # fmt: skip
    words = transformers.Qwen2Config(
        vocab_size=vocabulary + 4, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=False,
    )  # fmt: skip
    hiera = transformers.Sam2HieraDetConfig(
        hidden_size=8, num_attention_heads=1, blocks_per_stage=[1, 1, 2, 1], embed_dim_per_stage=[8, 16, 32, 64],
        num_attention_heads_per_stage=[1, 2, 4, 8], window_size_per_stage=[4, 2, 4, 2], global_attention_blocks=[3],
        image_size=[SIDE, SIDE], window_positional_embedding_background_size=[4, 4],
    )  # fmt: skip
    seen = transformers.Sam2VisionConfig(
        backbone_config=hiera, backbone_channel_list=[64, 32, 16, 8], fpn_hidden_size=16,
        backbone_feature_sizes=[[SIDE // 4] * 2, [SIDE // 8] * 2, [SIDE // 16] * 2],
    )  # fmt: skip
    sam = transformers.Sam2Config(
        vision_config=seen.to_dict(),
        prompt_encoder_config={"hidden_size": 16, "image_size": SIDE, "patch_size": 16, "mask_input_channels": 8},
        mask_decoder_config={"hidden_size": 16, "mlp_dim": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
                             "iou_head_hidden_dim": 16},
    )  # fmt: skip
    config: dict[str, Any] = {
        "model_type": MODEL_TYPE, "vision_config": vision.to_dict(), "llm_config": words.to_dict(),
        "sam_config": sam.to_dict(), "downsample_ratio": 0.5, "template": "qwen_chat",
    }  # fmt: skip
    torch.manual_seed(seed)
    save_model(Composite(config), str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return folder
