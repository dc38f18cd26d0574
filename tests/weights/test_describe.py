"""What a file is, in words; strict loading."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from motionkit.errors import MotionkitError
from motionkit.weights import describe, find_tensors, load_strict, read

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


def test_load_strict_says_what_differs():
    module = nn.Linear(3, 2)
    before = module.weight.clone()
    with pytest.raises(MotionkitError, match=r"file\.pt does not fit Linear") as caught:
        load_strict(module, {"weight": torch.zeros(5, 3), "gamma": torch.zeros(2)}, "file.pt")
    assert "1 of 2 tensors missing: bias" in caught.value.why
    assert "unknown: gamma" in caught.value.why
    assert "weight is [5, 3], should be [2, 3]" in caught.value.why
    assert torch.equal(module.weight, before)
    load_strict(module, {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}, "file.pt")
    assert bool((module.weight == 1).all())
