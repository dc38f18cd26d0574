"""The network against recorded forwards and gradients, and padding, constraints and precision on a small one."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import yaml
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.testing import assert_close

from motionkit import weights
from motionkit.motion import Normalizer
from motionkit.nn import add_adapters, native_keys, stock_keys
from motionkit.rl import length_mask
from motionkit_policy_kimodo.files import Checkpoint, read_checkpoint
from motionkit_policy_kimodo.network import KimodoNetwork, Shape
from motionkit_policy_kimodo.representation import local_root

Tensors = Callable[[str], dict[str, Tensor]]
REACHED = {"tiny_soma": 3e-6, "tiny_g1_textmask": 5e-6}


def _texts(known: dict[str, Tensor], *, on: bool) -> dict[str, Tensor]:
    mask = torch.full(known["text"].shape[:2], on)
    return {"text": known["text"] * on, "text_mask": mask, "heading": known["first_heading_angle"]}


def _forward(network: KimodoNetwork, known: dict[str, Tensor], *, text: bool, constraint: bool) -> Tensor:
    given = {"observed": known["observed_motion"], "mask": known["motion_mask"]} if constraint else {}
    return network(known["x"], known["timesteps"], known["lengths"], **_texts(known, on=text), **given)


@pytest.mark.parametrize("name", REACHED)
@torch.no_grad()
def test_forward(name: str, recorded: Path, tensors: Tensors) -> None:
    network, known = read_checkpoint(str(recorded / name)).network, tensors(f"{name}/io.npz")
    mask = length_mask(known["lengths"], known["x"].shape[1])
    known["x"][~mask] = math.nan
    cases = {"out_text": (True, False), "out_none": (False, False), "out_constraint": (False, True)}
    for out, (text, constraint) in {**cases, "out_text_constraint": (True, True)}.items():
        if out in known:
            made = _forward(network, known, text=text, constraint=constraint)
            assert_close(made[mask], known[out][mask], atol=3 * REACHED[name], rtol=0)


@pytest.mark.parametrize(("root_gradient", "expected"), [(True, "grad_x_full"), (False, "grad_x_detached")])
def test_gradient_between_the_stages(root_gradient: bool, expected: str, recorded: Path, tensors: Tensors) -> None:
    network = read_checkpoint(str(recorded / "tiny_soma"), root_gradient=root_gradient).network
    known = tensors("tiny_soma/io.npz")
    mask = length_mask(known["lengths"], known["x"].shape[1])
    known["x"] = known["x"].masked_fill(~mask[..., None], math.nan).requires_grad_()
    (_forward(network, known, text=True, constraint=False) * known["grad_proj"])[mask].sum().backward()
    gradient = known["x"].grad
    assert gradient is not None
    # Recorded with AVX-512. Without it products round otherwise, and one value of 8,856 is off by 3.4e-6.
    limit = 3e-6 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 4e-6
    assert_close(gradient[:1], known[expected], atol=limit, rtol=0)
    assert not gradient[~mask].any()


@pytest.mark.slow
@torch.no_grad()
def test_released_size(tensors: Tensors, meta: Callable[[str], dict[str, Any]], formula: Callable[..., Any]) -> None:
    about, known = meta("full_soma"), tensors("full_soma/io.npz")
    config = about["config"]
    shape = Shape(known["x"].shape[-1], config["llm_shape"][1])  # the defaults are the released sizes
    stats = [about["stats"][name] for name in ("global_root", "local_root")]
    network = weights.build(lambda: KimodoNetwork(shape), native_keys(formula(about["weights"], about["seed"])), "full")
    assert sum(value.numel() for value in network.state_dict().values()) == about["parameters"] == 283_281_777
    root, local = (Normalizer(torch.tensor(mean), (torch.tensor(std) ** 2 + 1e-5).sqrt()) for mean, std in stats)
    network.eval().set_statistics(root, local)
    mask = length_mask(known["lengths"], known["x"].shape[1])
    for out, (text, constraint, every) in {
        "out_text": (True, False, 1), "out_none_every8": (False, False, 8),
        "out_text_constraint_every8": (True, True, 8),
    }.items():  # fmt: skip
        made = _forward(network, known, text=text, constraint=constraint)[..., ::every]
        assert_close(made[mask], known[out][mask], atol=1.2e-5, rtol=0)


def _inputs(opened: Checkpoint, frames: int = 9, rows: int = 2) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    width = opened.representation.width
    return {
        "x": torch.randn(rows, frames, width, generator=generator),
        "timestep": torch.tensor([10, 700])[:rows],
        "lengths": torch.tensor([frames, 5])[:rows],
        "text": torch.randn(rows, 1, 8, generator=generator),
        "text_mask": torch.ones(rows, 1, dtype=torch.bool),
        "heading": torch.tensor([0.3, -2.0])[:rows],
    }


@torch.no_grad()
def test_a_row_is_its_own(checkpoint: Path) -> None:
    opened = read_checkpoint(str(checkpoint))
    given = _inputs(opened)
    both = opened.network(**given)
    cut = {name: value[1:] for name, value in given.items()}
    cut["x"] = cut["x"][:, :5]
    assert_close(opened.network(**cut)[0], both[1, :5], atol=1e-5, rtol=0)
    given["x"][1, 5:] = math.nan
    assert_close(opened.network(**given)[1, :5], both[1, :5])
    given["heading"] = given["heading"] + 1.0
    assert float((opened.network(**given)[0] - both[0]).abs().max()) > 1e-3


@torch.no_grad()
def test_constraints_overwrite_the_input(checkpoint: Path) -> None:
    opened = read_checkpoint(str(checkpoint))
    given = _inputs(opened)
    mask = torch.zeros(given["x"].shape, dtype=torch.uint8)
    mask[:, 2, :3] = 1
    observed = torch.where(mask > 0, 0.7, math.nan)  # only what the mask names counts
    made = opened.network(**given, observed=observed, mask=mask)
    assert made.isfinite().all()
    given["x"][:, 2, :3] = 5.0  # and there the noisy value does not
    assert_close(opened.network(**given, observed=observed, mask=mask), made)
    assert_close(opened.network(**given, observed=observed, mask=mask.bool()), made)
    assert float((opened.network(**given) - made).abs().max()) > 1e-3


def _stage(
    weights: dict[str, Tensor], slots: int, x: Tensor, given: dict[str, Tensor], valid: Tensor, variant: dict[str, Any]
) -> Tensor:
    """A stage of layers of torch, by the formulas of Kimodo's network; `given` are inputs as those of the network."""

    def linear(name: str, value: Tensor) -> Tensor:
        return F.linear(value, weights[f"{name}.weight"], weights[f"{name}.bias"])

    place, rate = torch.arange(1000)[:, None], 10000.0 ** (-torch.arange(0, 16, 2) / 16)
    table = torch.stack([(place * rate).sin(), (place * rate).cos()], dim=-1).flatten(1)
    time = linear("embed_timestep.time_embed.0", table[given["timestep"]])
    tokens = [linear("embed_text", F.pad(given["text"], (0, 0, 0, slots - 1)))]
    tokens += [linear("embed_timestep.time_embed.2", F.silu(time))[:, None]]
    if variant.get("input_first_heading_angle", True):
        angle = given["heading"][:, None]
        tokens += [linear("linear_first_heading_angle", torch.cat([angle.cos(), angle.sin()], dim=1))[:, None]]
    text_mask = F.pad(given["text_mask"], (0, slots - 1)) | torch.tensor(not variant.get("use_text_mask", False))
    before = sum(part.shape[1] for part in tokens)
    keys = torch.cat([text_mask, valid.new_ones(len(x), before - slots), valid], dim=1)
    sequence = torch.cat([*tokens, linear("input_linear", x)], dim=1)
    activation, norm_first = variant.get("activation", "gelu"), variant.get("norm_first", False)
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, activation, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    names = {name: value for name, value in weights.items() if name.startswith("seqTransEncoder.")}
    encoder.load_state_dict({name.removeprefix("seqTransEncoder."): value for name, value in names.items()})
    made = encoder(sequence + table[: sequence.shape[1]], src_key_padding_mask=~keys)
    return linear("output_linear", made[:, before:])


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"norm_first": True},
        {"activation": "relu"},
        {"input_first_heading_angle": False},
        {"use_text_mask": True, "num_text_tokens_override": None, "llm_shape": [4, 8]},
        {"norm_first": True, "activation": "relu", "input_first_heading_angle": False, "llm_shape": [2, 8]},
    ],
)
@torch.no_grad()
def test_variants_are_those_of_torch(variant: dict[str, Any], checkpoint: Path) -> None:
    path = checkpoint / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["denoiser"].update(variant)
    path.write_text(yaml.safe_dump(config))
    opened = read_checkpoint(str(checkpoint))
    given = _inputs(opened)
    given["text_mask"][1] = False
    stored = {
        name.removeprefix("denoiser.backbone."): value
        for name, value in load_file(checkpoint / "model.safetensors").items()
    }
    assert stock_keys(opened.network.state_dict()).keys() == stored.keys()
    override = config["denoiser"]["num_text_tokens_override"]
    slots = config["denoiser"]["llm_shape"][0] if override is None else override
    assert opened.network.shape.text_slots == slots
    valid = length_mask(given["lengths"], given["x"].shape[1])
    x, none = torch.where(valid[..., None], given["x"], 0.0), torch.zeros_like(given["x"])
    stages = {
        stage: {name.removeprefix(f"{stage}."): value for name, value in stored.items() if name.startswith(stage)}
        for stage in ("root_model", "body_model")
    }
    root = _stage(stages["root_model"], slots, torch.cat([x, none], dim=-1), given, valid, variant)
    made = opened.network(**given)
    assert_close(made[..., :5][valid], root[valid], atol=1e-5, rtol=0)
    scaled = root * opened.network.root_scale + opened.network.root_mean
    local = (local_root(scaled, given["lengths"], 30.0) - opened.network.local_mean) / opened.network.local_scale
    body = _stage(stages["body_model"], slots, torch.cat([local, x[..., 5:], none], dim=-1), given, valid, variant)
    assert_close(made[..., 5:][valid], body[valid], atol=2e-5, rtol=0)
    turned = opened.network(**given | {"heading": given["heading"] + 1.0})
    assert torch.equal(turned, made) != variant.get("input_first_heading_angle", True)


def test_text_slots_are_attended_to_only_without_the_mask() -> None:
    torch.manual_seed(0)
    for use_mask in (False, True):
        network = KimodoNetwork(Shape(33, 4, 3, use_mask, latent=16, feedforward=32, layers=1, heads=2)).eval()
        few, many = torch.randn(1, 1, 4), torch.randn(1, 3, 4)
        many[:, :1] = few
        common = {"timestep": torch.tensor([4]), "lengths": torch.tensor([6]), "heading": torch.zeros(1)}
        x = torch.randn(1, 6, 33)
        one = torch.tensor([[True, False, False]])
        with torch.no_grad():
            alone = network(x, text=few, text_mask=one[:, :1], **common)
            beside = network(x, text=many, text_mask=one, **common)
        assert torch.equal(alone, beside) == use_mask


@torch.no_grad()
def test_mixed_precision_keeps_the_root(checkpoint: Path) -> None:
    opened = read_checkpoint(str(checkpoint))
    given = _inputs(opened)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = opened.network(**given)
    assert made.dtype == torch.float32
    error = (made - opened.network(**given))[0].abs().max()
    assert 0 < float(error) < 0.2


def test_names_are_those_of_the_files(checkpoint: Path) -> None:
    network = read_checkpoint(str(checkpoint)).network
    names = stock_keys(network.state_dict())
    assert "root_model.seqTransEncoder.layers.0.self_attn.in_proj_weight" in names
    assert len(names) == 2 * (6 + 2 + 4 + 12)
    add_adapters(network, r=2)
    adapted = {name.split(".lora_A")[0].split(".")[-1] for name in network.state_dict() if ".lora_A" in name}
    assert adapted == {"in_proj", "out_proj", "linear1", "linear2", "embed_text"}


def test_recorded_names(meta: Callable[[str], dict[str, Any]]) -> None:
    about = meta("full_soma")
    with torch.device("meta"):
        network = KimodoNetwork(Shape(369, 4096))
    shapes = {name: list(value.shape) for name, value in stock_keys(network.state_dict()).items()}
    assert shapes == {name: shape for name, (shape, _) in about["weights"].items()}
    assert len(shapes) == 408
    assert np.prod(shapes["body_model.input_linear.weight"]) == 1024 * (2 * 369 - 1)
