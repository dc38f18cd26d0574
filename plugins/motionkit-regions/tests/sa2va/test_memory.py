"""What a run will take, by config.json: sizes against the networks and the published figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

from motionkit.errors import MotionkitError
from motionkit.testing import check_policy
from motionkit_regions.sa2va import Sa2vaOptions
from motionkit_regions.sa2va.open import open_sa2va
from motionkit_regions.sa2va.sizes import PARTS, _row, by_config, dims_of, kept_of, longest, parameters, plan

SA2VA_4B: dict[str, Any] = {
    "downsample_ratio": 0.5, "force_image_size": 448,
    "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24, "intermediate_size": 4096, "image_size": 448,
                      "patch_size": 14},
    "llm_config": {"hidden_size": 2048, "num_hidden_layers": 36, "intermediate_size": 11008, "num_attention_heads": 16,
                   "num_key_value_heads": 2, "vocab_size": 151_682},
}  # fmt: skip
"""InternViT-300M and Qwen2.5-3B."""


SA2VA_26B: dict[str, Any] = {
    "downsample_ratio": 0.5, "force_image_size": 448,
    "vision_config": {"hidden_size": 3200, "num_hidden_layers": 45, "intermediate_size": 12_800, "image_size": 448,
                      "patch_size": 14},
    "llm_config": {"hidden_size": 6144, "num_hidden_layers": 48, "intermediate_size": 16_384, "num_attention_heads": 48,
                   "num_key_value_heads": 8, "vocab_size": 92_553},
}  # fmt: skip
"""InternViT-6B and InternLM2.5-20B."""


def options(**more: object) -> Sa2vaOptions:
    return Sa2vaOptions.model_validate({"checkpoint": "x", **more})


def test_sa2va_4b_has_the_published_size() -> None:
    """Its card says 3.94 B parameters; 261 M are trained at rank 128."""
    counts = by_config(SA2VA_4B)
    assert sum(counts[part] for part in PARTS) == pytest.approx(3.94e9, rel=0.005)
    trained = dims_of(SA2VA_4B).adapters(128) + counts["mlp1"] + counts["text_hidden_fcs"] + counts["mask_decoder"]
    assert trained == pytest.approx(261e6, rel=0.002)


def test_sizes_are_those_of_the_network(composite: Path) -> None:
    pytest.importorskip("transformers")
    policy = open_sa2va(options(checkpoint=str(composite), lora_rank=4))
    named = {name: one.numel() for name, one in policy.network.named_parameters()}
    config = json.loads((composite / "config.json").read_text())
    assert sum(count for name, count in named.items() if "lora_" in name) == dims_of(config).adapters(4)
    plain = {name: count for name, count in named.items() if "lora_" not in name}
    counts = parameters(composite, config)
    for part in ("vision_model", "mlp1", "language_model", "text_hidden_fcs"):
        assert counts[part] == sum(count for name, count in plain.items() if name.startswith(part)), part
    small = by_config(config)  # vectors of small networks count
    assert small["language_model"] == pytest.approx(counts["language_model"], rel=0.05)
    assert small["vision_model"] == pytest.approx(counts["vision_model"], rel=0.15)


def test_the_longest_row_and_what_makes_it_shorter() -> None:
    dims = dims_of(SA2VA_4B)
    assert dims.tile == 256
    assert longest(dims, options()) == 14 * 256 + 64 + 128
    assert longest(dims, options(max_tiles=1, max_words=64)) == 2 * 256 + 64 + 64


def test_checkpointing_holds_some_rows_in_place_of_all(tmp_path: Path) -> None:
    def total(**more: object) -> float:
        lines = plan(tmp_path, SA2VA_4B, options(max_tiles=1, rows=4, **more), regions=8, group=8, half=True)
        (said,) = [line for line in lines if line.startswith("in all")]
        return float(said.split()[3])

    weights = 2 * 3.92 + (4 + 4 + 8 + 12) * 0.261  # frozen ones in bfloat16; 28 bytes for each that is trained
    few, all_of = total(gradient_checkpointing=True) - weights, total() - weights
    assert few == pytest.approx(all_of * 4 / 64, rel=0.02)


def test_a_process_holds_its_share_and_the_grounding_encoder_whole() -> None:
    dims, counts = dims_of(SA2VA_4B), by_config(SA2VA_4B)
    one, four = (kept_of(dims, counts, options(), half=True, shards=shards) for shards in (1, 4))
    encoder, decoder = 2 * (224.43e6 - 4.21e6), 4 * 4.21e6
    assert four.frozen == pytest.approx(encoder + (one.frozen - encoder) / 4)
    assert four.trained == pytest.approx(decoder + (one.trained - decoder) / 4)
    assert one.gathered == 0
    assert four.gathered == 3 * 2 * 151_682 * 2048  # the embeddings are larger than a layer
    assert four.opened == one.opened == one.frozen + one.trained


def test_the_plan_of_26b_on_eight_cards(tmp_path: Path) -> None:
    """The line of docs/several-gpus.md; its card says 25.8 B parameters."""
    given = options(max_tiles=1, rows=2, gradient_checkpointing=True)
    lines = plan(tmp_path, SA2VA_26B, given, regions=1, group=8, half=True, shards=8)
    assert lines[0].startswith("25.78 B parameters")
    # Inputs of 48 layers of 704 tokens, of 4 * 8 + 2 rows; the logits of 9 rows; a layer of 2 rows beside them.
    (said,) = [line for line in lines if line.startswith("training")]
    inputs, logits = 34 * 48 * 704 * 6144 * 2, 9 * 3 * 4 * 128 * 92_553
    assert float(said.split()[-2]) == pytest.approx((inputs + logits) / 1e9, rel=0.03)
    (said,) = [line for line in lines if line.startswith("in all")]
    assert "about 28.9 GB in each of 8 processes" in said


def test_activations_are_about_what_a_backward_pass_holds() -> None:
    """A language model with adapters on every layer, in float32, against what autograd saves."""
    import peft  # costs more than torch: only in the process that runs this test

    transformers = pytest.importorskip("transformers")
    words = {"vocab_size": 40, "hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 300,
             "num_attention_heads": 4, "num_key_value_heads": 1}  # fmt: skip
    model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**words))
    peft.inject_adapter_in_model(peft.LoraConfig(r=4, target_modules="all-linear"), model)
    held: dict[int, int] = {}
    weights = {one.data_ptr() for one in model.parameters()}

    def kept(one: torch.Tensor) -> torch.Tensor:
        if one.data_ptr() not in weights:
            held[one.data_ptr()] = one.untyped_storage().nbytes()
        return one

    embedded = torch.randn(1, 200, 64, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(kept, lambda one: one):
        model.model(inputs_embeds=embedded)
    dims = dims_of({**SA2VA_4B, "llm_config": words})
    estimate = _row(dims, options(max_words=2, lora_rank=4), 200, 4)
    assert estimate == pytest.approx(sum(held.values()), rel=0.25)


def test_a_dry_run_shows_the_plan(composite: Path, cli: Any) -> None:
    done = cli("sa2va-rl", "--policy", "sa2va", "--policy.checkpoint", composite, "--dry-run", "--threads", 1)
    assert done.exit_code == 0, done.stderr
    assert "plan: memory = " in done.stdout
    assert "in all about" in done.stdout
    assert done.stderr.index("memory plan") < done.stderr.index("loaded in")


def test_a_model_of_the_hub_is_planned_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `hf download` lays it out: config.json in a folder named by the commit."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    model, commit = tmp_path / "models--some--model", "0" * 40
    (model / "snapshots" / commit).mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs/main").write_text(commit)
    (model / "snapshots" / commit / "config.json").write_text(json.dumps(SA2VA_4B))
    lines = options(checkpoint="some/model").memory(regions=8, group=8, device="cuda")
    assert lines[0].startswith("3.94 B parameters")
    assert options(checkpoint="some/other").memory(regions=8, group=8, device="cuda") == []


def test_a_config_that_lacks_a_size_is_refused() -> None:
    for config, why in (
        ({**SA2VA_4B, "llm_config": {}}, "it has no num_attention_heads."),
        ({name: value for name, value in SA2VA_4B.items() if name != "vision_config"}, "it has no vision_config."),
        ({**SA2VA_4B, "downsample_ratio": float("inf")}, "zero"),
        ({**SA2VA_4B, "llm_config": {**SA2VA_4B["llm_config"], "vocab_size": float("inf")}}, "infinity"),
    ):
        with pytest.raises(MotionkitError) as error:
            dims_of(config)
        assert why in error.value.why


def test_contract(composite: Path) -> None:
    check_policy("sa2va", options={"checkpoint": str(composite)})


def test_it_is_measured(composite: Path, cli: Callable[..., Result]) -> None:
    words = ("--policy", "sa2va", "--policy.checkpoint", composite, "--regions", 3, "--device", "cpu", "--json")
    done = cli("eval", "sa2va", *words)
    assert done.exit_code == 0, done.stderr
    figures = json.loads(done.stdout)["figures"]
    assert 0 <= figures["giou"]["after"] <= 1
    assert figures["judge_iou"] == figures["cycle_iou"]
