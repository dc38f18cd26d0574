"""The network and its sampling against outputs recorded from the original MDM code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit.motion import HUMANML, Normalizer
from motionkit.nn import native_keys
from motionkit.rl import DDPM, Schedule, StepPlan, rollout
from motionkit.text_to_motion.mdm.files import read_released
from motionkit.text_to_motion.mdm.losses import diffusion_loss
from motionkit.text_to_motion.mdm.network import MDMCondition, MDMNetwork
from motionkit.text_to_motion.mdm.policy import MDMPolicy
from motionkit.text_to_motion.mdm.settings import settings_from_args
from motionkit.weights import load_strict

from ...made.recorded import by_formula

TINY = (
    "tiny_trans_enc",
    "tiny_trans_enc_h2ff64",
    "tiny_trans_enc_maskframes_ema",
    "tiny_trans_dec_clip",
    "tiny_trans_dec_emb",
)


class _Width:
    """Stands for the text encoder: the fixtures store its outputs."""

    name, fingerprint = "clip", "recorded"
    width = 512

    def encode(self, texts: object) -> object:
        raise AssertionError("the fixtures bypass the text encoder")


def _ours(array: np.ndarray) -> Tensor:
    """``[..., D, 1, T]`` of the peer to our ``[..., T, D]``."""
    return torch.from_numpy(array).squeeze(-2).mT


def _policy(checkpoint: Path, *, frames: int, padding: str = "full") -> MDMPolicy:
    settings, network = read_released(checkpoint)
    stats = Normalizer(torch.zeros(263), torch.ones(263))
    return MDMPolicy(
        settings, network, normalizer=stats, skeleton=HUMANML, encoder=_Width(), fps=20.0, max_length=frames,
        padding=padding,
    )  # fmt: skip


def _condition(text_embed: np.ndarray) -> MDMCondition:
    text = torch.from_numpy(text_embed).transpose(0, 1)
    return MDMCondition(text, torch.ones(text.shape[:2], dtype=torch.bool))


def _checkpoint(shared: Path, name: str) -> Path:
    return next((shared / "fixtures/mdm" / name).glob("model*.pt"))


@pytest.mark.parametrize("name", TINY)
@torch.no_grad()
def test_tiny_checkpoints(shared: Path, name: str) -> None:
    checkpoint = _checkpoint(shared, name)
    io = np.load(checkpoint.parent / "io.npz")
    policy = _policy(checkpoint, frames=40)
    x, lengths = _ours(io["x"]), torch.from_numpy(io["lengths"])
    timestep, condition = torch.from_numpy(io["timesteps"]), _condition(io["text_embed"])
    valid = torch.ones(3, 40, dtype=torch.bool) if policy.padding == "full" else torch.arange(40) < lengths[:, None]
    for guidance, key, tolerance in ((1.0, "out_cond", 5e-6), (0.0, "out_uncond", 5e-6), (2.5, "out_cfg_2p5", 2e-5)):
        out = policy.predict(x, timestep, condition, lengths, guidance=guidance)
        assert (out - _ours(io[key]))[valid].abs().max() <= tolerance, key


def test_averaged_weights_are_used_when_args_say_so(shared: Path, tmp_path: Path) -> None:
    checkpoint = _checkpoint(shared, "tiny_trans_enc_maskframes_ema")
    io = np.load(checkpoint.parent / "io.npz")
    (tmp_path / checkpoint.name).write_bytes(checkpoint.read_bytes())
    args = json.loads((checkpoint.parent / "args.json").read_text())
    (tmp_path / "args.json").write_text(json.dumps({**args, "use_ema": False}))
    policy = _policy(tmp_path / checkpoint.name, frames=40)
    lengths = torch.from_numpy(io["lengths"])
    with torch.no_grad():
        out = policy.predict(_ours(io["x"]), torch.from_numpy(io["timesteps"]), _condition(io["text_embed"]), lengths)
    valid = torch.arange(40) < lengths[:, None]
    assert (out - _ours(io["out_cond_rawmodel"]))[valid].abs().max() <= 5e-6


@torch.no_grad()
def test_full_size(shared: Path) -> None:
    folder = shared / "fixtures/mdm/full_trans_enc"
    settings = settings_from_args(json.loads((folder / "args.json").read_text()), origin="args.json")
    assert (settings.layers, settings.latent_dim, settings.stock_obstacles()) == (8, 512, [])
    network = MDMNetwork(settings).eval()
    meta = json.loads((folder / "meta.json").read_text())
    tensors = by_formula(meta["seed"], {name: own for name, own in meta["shapes"].items() if not name.endswith(".pe")})
    for name, tensor in tensors.items():
        assert float(tensor.double().sum()) == pytest.approx(meta["sums"][name], abs=1e-9)
    load_strict(network, native_keys(tensors), "formula")
    assert sum(parameter.numel() for parameter in network.parameters()) == 17_880_327
    io = np.load(folder / "io.npz")
    condition = _condition(io["text_embed"])
    x, timestep = _ours(io["x"]), torch.from_numpy(io["timesteps"])
    out = network(x, timestep, condition.text, condition.mask)
    assert (out - _ours(io["out_cond"])).abs().max() <= 1e-5
    bare = network(x, timestep, condition.text, condition.mask, drop=torch.ones(4, dtype=torch.bool))
    assert (bare[..., ::8] - _ours(io["out_uncond_sub"])).abs().max() <= 1e-5


@pytest.mark.parametrize(("name", "guidance"), [("cond", 1.0), ("cfg2p5", 2.5)])
@torch.no_grad()
def test_sampling_chain(shared: Path, name: str, guidance: float) -> None:
    io = np.load(shared / f"fixtures/mdm/p_sample_chain_10_{name}.npz")
    policy = _policy(_checkpoint(shared, "tiny_trans_enc"), frames=40)
    condition, lengths = _condition(io["text_embed"]), torch.from_numpy(io["lengths"])
    noises = dict(zip(io["timesteps"].tolist(), _ours(io["noises"]), strict=True))
    schedule, states = Schedule.cosine(10), [_ours(io["x_T"])]

    def predict(x: Tensor, timestep: Tensor) -> Tensor:
        return policy.predict(x, timestep, condition, lengths, guidance=guidance)

    plan = StepPlan.build(schedule, DDPM())
    assert plan.timesteps.tolist() == io["timesteps"].tolist()
    for position, t in enumerate(io["timesteps"].tolist()):
        c_x0, c_xt, sigma = (table[position].float() for table in (plan.c_x0, plan.c_xt, plan.sigma))
        x0 = predict(states[-1], torch.full((2,), t))
        states.append(c_x0 * x0 + c_xt * states[-1] + sigma * noises[t])
    assert (torch.stack(states) - _ours(io["xs"])).abs().max() <= 2e-5
    x0 = rollout(predict, plan, states[0], lambda t: noises[t], record=False).x0
    assert (x0 - _ours(io["xs"])[-1]).abs().max() <= 2e-5


@torch.no_grad()
def test_training_loss(shared: Path) -> None:
    io = np.load(shared / "fixtures/mdm/train_loss.npz")
    policy = _policy(_checkpoint(shared, "tiny_trans_enc"), frames=40)
    x0, timestep, lengths = _ours(io["x0"]), torch.from_numpy(io["t"]), torch.from_numpy(io["lengths"])
    x_t = policy.schedule.noised(x0, timestep, _ours(io["noise"]))
    assert (x_t - _ours(io["x_t"])).abs().max() <= 1e-6
    predicted = policy.predict(x_t, timestep, _condition(io["text_embed"]), lengths)
    loss = diffusion_loss(predicted, x0, torch.arange(40) < lengths[:, None])
    assert torch.allclose(loss, torch.from_numpy(io["loss"]), atol=5e-7, rtol=1e-6)
