"""Opening, saving and exporting: every layout, and every way a file can be wrong."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.motion import KIT
from motionkit.nn import stock_keys
from motionkit.text import CachedEncoder, Prompt
from motionkit.text_to_motion.mdm import files as released
from motionkit.text_to_motion.mdm import files as store
from motionkit.text_to_motion.mdm import open as factory
from motionkit.text_to_motion.mdm.files import export_stock, read_released
from motionkit.text_to_motion.mdm.network import MDMNetwork
from motionkit.text_to_motion.mdm.open import export_checkpoint, open_policy
from motionkit.text_to_motion.mdm.policy import MDMPolicy
from motionkit.text_to_motion.mdm.settings import MDMOptions, MDMSettings

from ...made.plain import plain_dataset

Make = Callable[..., MDMPolicy]
STOCK: dict[str, object] = {"num_heads": 4, "ff_size": 1024}


@pytest.fixture(autouse=True)
def _no_text_model(monkeypatch: pytest.MonkeyPatch, hash_encoder: Any) -> None:
    """Opened policies get the tests' encoder in place of CLIP."""
    monkeypatch.setattr(factory, "open_encoder", lambda name, model="", **_: CachedEncoder(hash_encoder))


def _ask(policy: MDMPolicy) -> Tensor:
    x = torch.randn(2, 30, 263, generator=torch.Generator().manual_seed(1))
    condition = policy.condition([Prompt(("a man waves",), (30,)), Prompt(("he jumps", "he sits"), (10, 14))])
    with torch.no_grad():
        return policy.predict(x, torch.tensor([5, 40]), condition, torch.tensor([30, 24]), guidance=2.0)


def _export(policy: MDMPolicy, folder: Path, **options: Any) -> Path:
    return export_stock(policy.settings, policy.network, folder, skeleton=policy.skeleton, **options)


class Weightless(MDMNetwork):
    """A network that must not be built with weights."""

    def __init__(self, settings: MDMSettings) -> None:
        super().__init__(settings)
        assert self.pe.is_meta, "memory was taken before the sizes were compared"


class StockPositions(nn.Module):
    """Position table of the original."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("pe", torch.zeros(5000, 1, width))


class StockMDM(nn.Module):
    """A stand-in for the original model: its modules, names, shapes and forward pass (trans_enc, CLIP)."""

    def __init__(self, args: dict[str, Any], text_width: int) -> None:
        super().__init__()
        width = args["latent_dim"]
        self.input_process = nn.ModuleDict({"poseEmbedding": nn.Linear(263, width)})
        self.sequence_pos_encoder = StockPositions(width)
        layer = nn.TransformerEncoderLayer(width, 4, 1024, 0.1, "gelu")
        self.seqTransEncoder = nn.TransformerEncoder(layer, args["layers"], enable_nested_tensor=False)
        self.embed_timestep = nn.Module()
        self.embed_timestep.sequence_pos_encoder = self.sequence_pos_encoder
        self.embed_timestep.time_embed = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.embed_text = nn.Linear(text_width, width)
        self.output_process = nn.ModuleDict({"poseFinal": nn.Linear(width, 263)})

    def forward(self, x: Tensor, timestep: Tensor, text: Tensor) -> Tensor:
        pe = self.sequence_pos_encoder.pe
        emb = self.embed_timestep.time_embed(pe[timestep]).permute(1, 0, 2) + self.embed_text(text)
        tokens = torch.cat((emb, self.input_process["poseEmbedding"](x.permute(3, 0, 1, 2).flatten(2))))
        out = self.seqTransEncoder(tokens + pe[: tokens.shape[0]])[1:]
        return self.output_process["poseFinal"](out).permute(1, 2, 0)[:, :, None]


def _load_stock(path: Path, text_width: int) -> StockMDM:
    """Load as the original does: args.json decides the shape, and every name and shape must agree."""
    args = json.loads((path.parent / "args.json").read_text())
    for key in ("dataset", "arch", "text_encoder_type", "emb_trans_dec", "layers", "latent_dim", "cond_mask_prob",
                "mask_frames", "lambda_rcxyz", "lambda_vel", "lambda_fc", "lambda_target_loc", "unconstrained",
                "pos_embed_max_len", "use_ema", "multi_target_cond", "multi_encoder_type", "target_enc_layers",
                "context_len", "pred_len", "noise_schedule", "diffusion_steps", "sigma_small"):  # fmt: skip
        assert key in args, key
    model = StockMDM(args, text_width)
    model.load_state_dict(torch.load(path, weights_only=True), strict=True)
    return model.eval()


@pytest.mark.parametrize("lora", [False, True])
def test_export_loads_in_stock_code(make_policy: Make, tmp_path: Path, lora: bool) -> None:
    policy = make_policy(text_width=12, **STOCK)
    if lora:
        policy.adapt(r=2, alpha=4.0)
        with torch.no_grad():
            for name, parameter in policy.network.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(std=0.1)
    assert policy.settings.stock_obstacles() == []
    path = _export(policy, tmp_path / "out", step=1234, extra={"seed": 7, "arch": "nonsense"})
    assert path.name == "model000001234.pt"
    model = _load_stock(path, 12)
    prompt = Prompt(("a man waves",), (60,))
    condition, x = policy.condition([prompt]), torch.randn(1, 60, 263)
    with torch.no_grad():
        theirs = model(x.mT[:, :, None], torch.tensor([9]), condition.text.transpose(0, 1))
        ours = policy.predict(x, torch.tensor([9]), condition, torch.tensor([60]))
    assert (theirs[:, :, 0].mT - ours).abs().max() <= 1e-5


def test_export_reads_back(make_policy: Make, tmp_path: Path, source: SimpleNamespace) -> None:
    starter = {"patch_size": 4, "patch_overlap": True, "clause_frames": True}
    for name, shape in {"stock": {}, "starter": starter}.items():
        policy = make_policy(**shape)
        path = _export(policy, tmp_path / name)
        args = json.loads((path.parent / "args.json").read_text())
        (path.parent / "args.json").write_text(json.dumps({**args, "text_width": 12}))
        back = open_policy(MDMOptions(checkpoint=str(path)), dataset=source)
        assert torch.equal(_ask(back), _ask(policy))
    assert policy.settings.stock_obstacles() == [
        "num_heads=2", "ff_size=32", "patch_size=4", "patch_overlap=True", "clause_frames=True"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "shape", [{}, {"patch_size": 4, "patch_overlap": True, "clause_frames": True}, {"arch": "trans_dec"}]
)
def test_native_round_trip(make_policy: Make, tmp_path: Path, shape: dict[str, object]) -> None:
    policy = make_policy(**shape)
    policy.save(tmp_path)
    back = open_policy(MDMOptions(checkpoint=str(tmp_path)))
    assert torch.equal(_ask(back), _ask(policy))
    assert (back.fps, back.max_length, back.skeleton.name, back.settings) == (20.0, 60, "humanml", policy.settings)
    assert torch.equal(back.normalizer.mean, policy.normalizer.mean)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors", "policy.json"]


def _tuned(make_policy: Make) -> MDMPolicy:
    policy = make_policy()
    policy.adapt(r=2, alpha=4.0, targets=("attn", "ffn", "text"))
    with torch.no_grad():
        for name, parameter in policy.network.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    return policy


def test_adapted_policy_round_trip(make_policy: Make, tmp_path: Path) -> None:
    policy = _tuned(make_policy)
    policy.save(tmp_path)
    assert (_ask(open_policy(MDMOptions(checkpoint=str(tmp_path)))) - _ask(policy)).abs().max() <= 1e-5
    tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
    tensors.pop(next(name for name in tensors if "lora_A" in name))
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(MotionkitError) as error:
        open_policy(MDMOptions(checkpoint=str(tmp_path)))
    assert "missing" in error.value.why


def test_run_folder_and_checkpoint(make_policy: Make, tmp_path: Path) -> None:
    policy = make_policy()
    policy.save(tmp_path / "policy", tensors=False)
    with pytest.raises(MotionkitError, match="no checkpoint yet"):
        open_policy(MDMOptions(checkpoint=str(tmp_path)))
    step = tmp_path / "checkpoints" / "step-00000003"
    step.mkdir(parents=True)
    safetensors.torch.save_file(policy.tensors(), step / "model.safetensors")
    (step / "state.json").write_text("{}")
    (tmp_path / "checkpoints" / "last").write_text("step-00000003\n")
    for path in (tmp_path, step):
        assert torch.equal(_ask(open_policy(MDMOptions(checkpoint=str(path)))), _ask(policy))
    final = make_policy(seed=1)
    final.save(tmp_path / "policy")
    assert torch.equal(_ask(open_policy(MDMOptions(checkpoint=str(tmp_path)))), _ask(final))
    assert torch.equal(_ask(open_policy(MDMOptions(checkpoint=str(step)))), _ask(policy))


@pytest.mark.parametrize("last", ["../../other", "/etc", "step-3", "step-00000003/../../../other", ""])
def test_last_names_a_checkpoint_of_the_run_and_nothing_else(last: str, make_policy: Make, tmp_path: Path) -> None:
    policy = make_policy()
    policy.save(tmp_path / "run" / "policy", tensors=False)
    (tmp_path / "run" / "checkpoints").mkdir()
    (tmp_path / "run" / "checkpoints" / "last").write_text(last)
    for folder in (tmp_path, tmp_path / "run", tmp_path / "other"):
        folder.mkdir(exist_ok=True)
        safetensors.torch.save_file(policy.tensors(), folder / "model.safetensors")
    with pytest.raises(MotionkitError, match="no checkpoint yet"):
        open_policy(MDMOptions(checkpoint=str(tmp_path / "run")))


def test_export_of_a_run(make_policy: Make, tmp_path: Path) -> None:
    policy = make_policy(**STOCK)
    policy.save(tmp_path / "run" / "policy")
    (tmp_path / "run" / "checkpoints").mkdir()
    (tmp_path / "run" / "checkpoints" / "last").write_text("step-00000042\n")
    path, obstacles = export_checkpoint(str(tmp_path / "run"), tmp_path / "out")
    assert (path.name, obstacles) == ("model000000042.pt", [])
    assert np.array_equal(np.load(tmp_path / "out" / "Mean.npy"), policy.normalizer.mean.numpy())
    assert torch.equal(torch.load(path, weights_only=True)["embed_text.bias"], policy.network.embed_text.bias)
    with pytest.raises(MotionkitError, match="is not empty"):
        export_checkpoint(str(tmp_path / "run"), tmp_path / "out")
    export_checkpoint(str(tmp_path / "run"), tmp_path / "out", overwrite=True)


def _released(make_policy: Make, folder: Path) -> tuple[MDMPolicy, Path, dict[str, Tensor], dict[str, Any]]:
    policy = make_policy()
    path = _export(policy, folder)
    args = {**json.loads((folder / "args.json").read_text()), "text_width": 12}
    (folder / "args.json").write_text(json.dumps(args))
    return policy, path, torch.load(path, weights_only=True), args


def test_released_layouts(make_policy: Make, tmp_path: Path, source: SimpleNamespace) -> None:
    policy, path, tensors, args = _released(make_policy, tmp_path)
    noise = {name: value + 1 for name, value in tensors.items()}
    layouts: dict[str, tuple[Any, bool]] = {
        "wrapped, with an optimiser beside it": ({"model": tensors, "optimizer": {"state": {}}, "step": 3}, False),
        "average not asked for": ({"model": tensors, "model_avg": noise}, False),
        "average": ({"model": noise, "model_avg": tensors}, True),
        "text model inside": ({**tensors, "clip_model.visual.weight": torch.zeros(2)}, False),
        "DataParallel": ({f"module.{name}": value for name, value in tensors.items()}, False),
    }
    for name, (content, ema) in layouts.items():
        torch.save(content, path)
        (tmp_path / "args.json").write_text(json.dumps({**args, "use_ema": ema}))
        assert torch.equal(_ask(open_policy(MDMOptions(checkpoint=str(path)), dataset=source)), _ask(policy)), name


def test_files_of_2022(make_policy: Make, tmp_path: Path, source: SimpleNamespace) -> None:
    """args.json without the keys that came later."""
    policy, path, _, args = _released(make_policy, tmp_path)
    for key in ("text_encoder_type", "pos_embed_max_len", "mask_frames", "use_ema", "context_len", "pred_len",
                "multi_target_cond", "emb_trans_dec", "lambda_target_loc"):  # fmt: skip
        args.pop(key)
    (tmp_path / "args.json").write_text(json.dumps(args))
    assert torch.equal(_ask(open_policy(MDMOptions(checkpoint=str(path)), dataset=source)), _ask(policy))


def test_a_file_of_the_guides_code_needs_its_steps(
    make_policy: Make, tmp_path: Path, source: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """Its args.json says 1000 for a base of 50: the default of an option, written before the base was read."""
    policy, path, tensors, args = _released(make_policy, tmp_path)
    final = tmp_path / "model_final.pt"
    torch.save({"model": tensors, "optimizer": {"state": {}}, "step": 1000}, final)
    torch.save({"model": tensors, "optimizer": {"state": {}}, "step": 500, "stats": {}}, path)
    wrong = {**args, "diffusion_steps": 1000, "model_path": "./save/base_50steps/model000750000.pt"}
    guides = {**wrong, "group_size": 4, "clip_epsilon": 0.2, "kl_penalty": 1.0}
    for file, written in ((final, wrong), (final, guides), (path, guides)):
        (tmp_path / "args.json").write_text(json.dumps(written))
        with pytest.raises(MotionkitError) as error:
            open_policy(MDMOptions(checkpoint=str(file)), dataset=source)
        assert "./save/base_50steps/model000750000.pt" in error.value.why
        assert "--policy.diffusion-steps 50" in error.value.fix
        with caplog.at_level("INFO", logger="motionkit"):
            opened = open_policy(MDMOptions(checkpoint=str(file), diffusion_steps=50), dataset=source)
        assert "50 diffusion steps, not the 1000 of args.json" in caplog.text
        assert (len(opened.schedule), opened.settings.diffusion_steps) == (50, 50)
        assert torch.equal(_ask(opened), _ask(policy))
        assert len(open_policy(MDMOptions(checkpoint=str(file), diffusion_steps=1000), dataset=source).schedule) == 1000
    (tmp_path / "args.json").write_text(json.dumps({**guides, "diffusion_steps": 50}))
    assert len(open_policy(MDMOptions(checkpoint=str(final)), dataset=source).schedule) == 50
    (tmp_path / "args.json").write_text(json.dumps(wrong))  # a file of the MDM code: it has a thousand steps
    assert len(open_policy(MDMOptions(checkpoint=str(path)), dataset=source).schedule) == 1000


def test_the_steps_of_a_policy_folder_are_its_own(make_policy: Make, tmp_path: Path) -> None:
    make_policy().save(tmp_path)
    assert len(open_policy(MDMOptions(checkpoint=str(tmp_path), diffusion_steps=50)).schedule) == 50
    with pytest.raises(MotionkitError) as error:
        open_policy(MDMOptions(checkpoint=str(tmp_path), diffusion_steps=20))
    assert "--inference-timesteps" in error.value.fix


def test_peft_tensors_are_merged(make_policy: Make, tmp_path: Path, source: SimpleNamespace) -> None:
    """A fine-tuned file with adapters beside its base weights, the way peft names them."""
    policy, path, tensors, args = _released(make_policy, tmp_path)
    down, up = torch.randn(2, 16), torch.randn(32, 2)
    name = "seqTransEncoder.layers.1.linear1"
    content = {f"base_model.model.{key}": value for key, value in tensors.items()}
    content[f"base_model.model.{name}.base_layer.weight"] = content.pop(f"base_model.model.{name}.weight")
    content[f"base_model.model.{name}.base_layer.bias"] = content.pop(f"base_model.model.{name}.bias")
    content[f"base_model.model.{name}.lora_A.default.weight"] = down
    content[f"base_model.model.{name}.lora_B.default.weight"] = up
    torch.save({"model": content}, path)
    with pytest.raises(MotionkitError, match="lora_alpha"):
        read_released(path)
    (tmp_path / "args.json").write_text(json.dumps({**args, "lora_alpha": 6.0}))
    with torch.no_grad():
        policy.network.get_submodule(name).weight.add_(3.0 * up @ down)
    back = open_policy(MDMOptions(checkpoint=str(path)), dataset=source)
    assert torch.allclose(_ask(back), _ask(policy), atol=1e-5)
    content.pop(f"base_model.model.{name}.lora_B.default.weight")
    torch.save({"model": content}, path)
    with pytest.raises(MotionkitError, match="incomplete"):
        read_released(path)


def _with_adapter(tensors: dict[str, torch.Tensor], name: str, **parts: torch.Tensor) -> dict[str, torch.Tensor]:
    """Name tensors as peft does, with parts of an adapter: ``A__default__weight`` is lora_A.default.weight."""
    content = {f"base_model.model.{key}": value for key, value in tensors.items()}
    for end in ("weight", "bias"):
        content[f"base_model.model.{name}.base_layer.{end}"] = content.pop(f"base_model.model.{name}.{end}")
    return content | {f"base_model.model.{name}.lora_{key.replace('__', '.')}": value for key, value in parts.items()}


@pytest.mark.parametrize(("rslora", "scale"), [(True, 4.0), (False, 2.0)])
def test_adapters_are_merged_as_peft_merges_them(make_policy: Make, tmp_path: Path, rslora: bool, scale: float) -> None:
    """Alpha 8 and rank 4: 8 / 4, and of rsLoRA 8 / sqrt(4); B's bias goes to the layer's. peft itself is asked too."""
    peft = pytest.importorskip("peft")
    _, path, tensors, args = _released(make_policy, tmp_path)
    torch.manual_seed(0)
    down, up, bias = torch.randn(4, 16), torch.randn(32, 4), torch.randn(32)
    name = "seqTransEncoder.layers.1.linear1"
    parts = {"A__default__weight": down, "B__default__weight": up, "B__default__bias": bias}
    torch.save({"model": _with_adapter(tensors, name, **parts)}, path)
    (tmp_path / "args.json").write_text(json.dumps({**args, "lora_alpha": 8, "use_rslora": rslora}))
    found = read_released(path)[1].state_dict()
    torch.testing.assert_close(found[f"{name}.weight"], tensors[f"{name}.weight"] + scale * up @ down)
    torch.testing.assert_close(found[f"{name}.bias"], tensors[f"{name}.bias"] + scale * bias)
    layer = torch.nn.Sequential(torch.nn.Linear(16, 32))
    layer[0].load_state_dict({end: tensors[f"{name}.{end}"] for end in ("weight", "bias")})
    config = peft.LoraConfig(r=4, lora_alpha=8, use_rslora=rslora, lora_bias=True, target_modules=["0"])
    peer = peft.get_peft_model(layer, config)
    peer.base_model.model[0].lora_A.default.weight.data = down
    peer.base_model.model[0].lora_B.default.weight.data, peer.base_model.model[0].lora_B.default.bias.data = up, bias
    merged = peer.merge_and_unload()[0]
    torch.testing.assert_close(found[f"{name}.weight"], merged.weight.data)
    torch.testing.assert_close(found[f"{name}.bias"], merged.bias.data)


@pytest.mark.parametrize(
    ("parts", "more", "word"),
    [
        ({"A__other__weight": torch.zeros(2, 16), "B__other__weight": torch.zeros(32, 2)}, {}, "2 adapters"),
        ({"magnitude_vector__default__weight": torch.zeros(32)}, {}, "lora_magnitude_vector"),
        ({"embedding_A__default": torch.zeros(2, 16)}, {}, "lora_embedding_A"),
        ({"B__default__bias": torch.zeros(31)}, {}, "lora_B.default.weight"),
        ({}, {"alpha_pattern": {"linear1": 3}}, "alpha for each layer"),
        ({}, {"lora_alpha": True}, "lora_alpha"),
    ],
)  # fmt: skip
def test_adapters_that_would_be_merged_wrongly_are_refused(
    make_policy: Make, tmp_path: Path, parts: dict[str, torch.Tensor], more: dict[str, object], word: str
) -> None:
    _, path, tensors, args = _released(make_policy, tmp_path)
    both = {"A__default__weight": torch.zeros(2, 16), "B__default__weight": torch.zeros(32, 2), **parts}
    torch.save({"model": _with_adapter(tensors, "seqTransEncoder.layers.1.linear1", **both)}, path)
    (tmp_path / "args.json").write_text(json.dumps({**args, "lora_alpha": 8, **more}))
    with pytest.raises(MotionkitError, match=word):
        read_released(path)


def test_averaged_weights_of_torch_are_read(make_policy: Make, tmp_path: Path, source: SimpleNamespace) -> None:
    """torch's AveragedModel has the count ``n_averaged`` beside names with ``module.``."""
    policy, path, tensors, _ = _released(make_policy, tmp_path)
    torch.save({"n_averaged": torch.tensor(7), **{f"module.{key}": value for key, value in tensors.items()}}, path)
    back = open_policy(MDMOptions(checkpoint=str(path)), dataset=source)
    assert torch.allclose(_ask(back), _ask(policy), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arch": "gru"}, "gru"),
        ({"pred_len": 40}, "context_len 0 and pred_len 40"),
        ({"multi_target_cond": True}, "target joint"),
        ({"unconstrained": True}, "unconditional"),
        ({"dataset": "uestc"}, "action-class"),
        ({"predict_epsilon": True}, "predicts noise"),
        ({"arch": "mamba"}, "unknown arch"),
        ({"layers": 3}, "does not fit"),
        ({"arch": "trans_dec"}, "does not fit"),
        ({"use_ema": True}, "no averaged weights"),
        ({"num_heads": 5}, "num_heads"),
        ({"layers": "many"}, "layers"),
        ({"sigma_small": False}, "sigma_small"),
        ({"diffusion_steps": 10**9}, "diffusion_steps"),
        ({"latent_dim": 8192, "layers": 200}, "does not fit"),
        ({"pos_embed_max_len": 10**9}, "pos_embed_max_len"),
    ],
)
def test_what_cannot_be_loaded_is_named(
    make_policy: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], message: str
) -> None:
    _, path, tensors, args = _released(make_policy, tmp_path)
    torch.save({"model": tensors}, path)
    (tmp_path / "args.json").write_text(json.dumps({**args, **change}))
    monkeypatch.setattr(released, "MDMNetwork", Weightless)
    with pytest.raises(MotionkitError, match=message) as error:
        read_released(path)
    assert error.value.code == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {"latent_dim": 200_000}}, "latent_dim"),
        ({"settings": {"latent_dim": 8192}}, "does not fit"),
        ({"settings": {"diffusion_steps": 10**9}}, "diffusion_steps"),
        ({"lora": {"r": 10**9, "alpha": 1, "targets": ["attn"]}}, "lora.r"),
        ({"lora": {"r": 4000, "alpha": 1, "targets": ["attn"]}}, "does not fit"),
        ({"max_length": 6000}, "max_length 6000"),
        ({"fps": float("nan")}, "fps"),
        ({"text": "clip"}, "text"),
        ({"text": {"encoder": 3}}, "text.encoder"),
        ({"settings": None}, "settings"),
        ({"kind": "gan"}, "'gan' policy"),
    ],
)
def test_a_description_that_does_not_fit_its_tensors_takes_no_memory(
    make_policy: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], message: str
) -> None:
    make_policy().save(tmp_path)
    content = json.loads((tmp_path / "policy.json").read_text())
    for key, value in change.items():
        content[key] = {**content[key], **value} if isinstance(value, dict) and content[key] else value
    (tmp_path / "policy.json").write_text(json.dumps(content))
    monkeypatch.setattr(store, "MDMNetwork", Weightless)
    with pytest.raises(MotionkitError, match=message) as error:
        open_policy(MDMOptions(checkpoint=str(tmp_path)))
    assert error.value.code == 2


def test_thin_adapters_do_not_multiply_into_anything(make_policy: Make, tmp_path: Path) -> None:
    """Two vectors of a million make a matrix of four terabytes."""
    _, path, tensors, args = _released(make_policy, tmp_path)
    name = "seqTransEncoder.layers.1.linear1"
    tensors[f"{name}.lora_A.default.weight"] = torch.zeros(1, 10**6)
    tensors[f"{name}.lora_B.default.weight"] = torch.zeros(10**6, 1)
    torch.save({"model": tensors}, path)
    (tmp_path / "args.json").write_text(json.dumps({**args, "lora_alpha": 6.0}))
    with pytest.raises(MotionkitError, match="does not fit"):
        read_released(path)


def _write(content: object) -> Callable[[Path], None]:
    return lambda path: torch.save(content, path)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no file": (lambda path: path.unlink(), "does not exist"),
    "no checkpoint": (lambda path: (path.unlink(), path.mkdir()), "neither"),
    "half": (lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]), ""),
    "another network": (_write({"state_dict": {"projection.weight": torch.zeros(2, 2)}}), "not an MDM checkpoint"),
    "inside another": (
        lambda path: torch.save({f"ema.model.{name}": value for name, value in
                                 torch.load(path, weights_only=True).items()}, path), "ema.model"),
    "a weight less": (
        lambda path: torch.save({name: value for name, value in torch.load(path, weights_only=True).items()
                                 if name != "embed_text.bias"}, path), "embed_text.bias"),
    "no args.json": (lambda path: (path.parent / "args.json").unlink(), "args.json"),
    "args.json cut off": (lambda path: (path.parent / "args.json").write_text("{"), "not valid JSON"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "word"), BROKEN.values(), ids=BROKEN)
def test_broken_files(
    make_policy: Make, tmp_path: Path, source: SimpleNamespace, change: Callable[[Path], object], word: str
) -> None:
    _, path, _, _ = _released(make_policy, tmp_path)
    change(path)
    with pytest.raises(MotionkitError) as error:
        open_policy(MDMOptions(checkpoint=str(path)), dataset=source)
    assert error.value.code == 2
    assert word in error.value.sentence()


class _Attack:
    """Unpickling it would write a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


def test_a_file_that_runs_code_is_refused(make_policy: Make, tmp_path: Path) -> None:
    _, path, _, _ = _released(make_policy, tmp_path)
    attack = {"model": _Attack(tmp_path / "owned")}
    for write in (lambda: torch.save(attack, path), lambda: path.write_bytes(pickle.dumps(attack))):
        write()
        with pytest.raises(MotionkitError):
            read_released(path)
    assert not (tmp_path / "owned").exists()


def test_statistics(make_policy: Make, tmp_path: Path, source: SimpleNamespace) -> None:
    _, path, _, _ = _released(make_policy, tmp_path)
    other = plain_dataset(**{**vars(source), "skeleton": KIT})
    made_up = plain_dataset(**vars(source) | {"name": "composite", "source_name": "starter"})
    for dataset, word in (
        (None, "no feature statistics"),
        (other, "humanml body"),
        (made_up, "--dataset humanml --dataset.root DIR"),
    ):
        with pytest.raises(MotionkitError) as error:
            open_policy(MDMOptions(checkpoint=str(path)), dataset=dataset)
        assert word in error.value.sentence()
    opened = open_policy(MDMOptions(checkpoint=str(path)), dataset=source)
    assert torch.equal(opened.normalizer.mean, source.normalizer.mean)
    np.save(tmp_path / "Mean.npy", np.zeros(263, np.float32))
    np.save(tmp_path / "Std.npy", np.full(263, 2, np.float32))
    policy = open_policy(MDMOptions(checkpoint=str(path), stats=tmp_path), dataset=source)
    assert policy.normalizer.std[0] == 2
    assert open_policy(MDMOptions(checkpoint=str(path), stats=tmp_path), dataset=made_up).normalizer.std[0] == 2


def test_saved_names_are_stable(make_policy: Make) -> None:
    """Names of the released layout; renaming a module would orphan every saved file."""
    names = set(stock_keys(make_policy(layers=1).network.state_dict()))
    modules = ("input_process.poseEmbedding", "embed_timestep.time_embed.0", "embed_timestep.time_embed.2",
               "embed_text", "output_process.poseFinal")  # fmt: skip
    assert {name for name in names if not name.startswith("seqTransEncoder.")} == {
        f"{module}.{part}" for module in modules for part in ("weight", "bias")
    }


def test_a_folder_with_one_checkpoint_means_that_one(
    make_policy: Make, tmp_path: Path, source: SimpleNamespace
) -> None:
    path = _export(make_policy(text_width=12), tmp_path / "save")
    args = json.loads((path.parent / "args.json").read_text())
    (path.parent / "args.json").write_text(json.dumps({**args, "text_width": 12}))
    by_file, by_folder = (
        open_policy(MDMOptions(checkpoint=str(place)), dataset=source) for place in (path, path.parent)
    )
    assert torch.equal(_ask(by_folder), _ask(by_file))
    (path.parent / "model000900000.pt").write_bytes(path.read_bytes())
    with pytest.raises(MotionkitError) as caught:
        open_policy(MDMOptions(checkpoint=str(path.parent)))
    assert caught.value.fix.endswith("model000900000.pt.")
