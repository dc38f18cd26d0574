"""DiP: a file in the released layout, against a slow forward pass and a slow loop over blocks of their own."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from motionkit.contracts.dataset import TextClip
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, KIT, features_to_joints
from motionkit.rl import NoiseSource, stable_hash
from motionkit.rl._rollout import Rollout
from motionkit.testing import check_policy
from motionkit.text import CachedEncoder, Prompt
from motionkit.text_to_motion.evaluation.export import generate
from motionkit.text_to_motion.generating import plan_steps, sample
from motionkit.text_to_motion.grpo.api import GRPO
from motionkit.text_to_motion.mdm import open as factory
from motionkit.text_to_motion.mdm.network import MDMNetwork
from motionkit.text_to_motion.mdm.open import export_checkpoint, open_policy
from motionkit.text_to_motion.mdm.policy import DiPPolicy, Prefixes, standing
from motionkit.text_to_motion.mdm.settings import MDMOptions, settings_from_args

from ...made.plain import plain_dataset
from ...made.texts import WordEncoder

WIDTH, LAYERS, HEADS, FF, STEPS = 16, 2, 2, 24, 10
CONTEXT, BLOCK = 20, 40
ARGS = {
    "dataset": "humanml", "arch": "trans_dec", "text_encoder_type": "bert", "emb_trans_dec": False, "layers": LAYERS,
    "latent_dim": WIDTH, "cond_mask_prob": 0.1, "mask_frames": True, "unconstrained": False, "use_ema": True,
    "pos_embed_max_len": 5000, "noise_schedule": "cosine", "diffusion_steps": STEPS, "sigma_small": True,
    "context_len": CONTEXT, "pred_len": BLOCK, "multi_target_cond": False, "lambda_target_loc": 0.0,
    "emb_policy": "add", "keyframe_cond_type": "", "num_heads": HEADS, "ff_size": FF, "text_width": 6,
}  # fmt: skip
"""As in the released args.json, with small sizes; the last three are keys of motionkit's own."""


def shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of the released file, position tables left out."""
    found: dict[str, tuple[int, ...]] = {
        "input_process.poseEmbedding.weight": (WIDTH, 263),
        "input_process.poseEmbedding.bias": (WIDTH,),
        "embed_timestep.time_embed.0.weight": (WIDTH, WIDTH),
        "embed_timestep.time_embed.0.bias": (WIDTH,),
        "embed_timestep.time_embed.2.weight": (WIDTH, WIDTH),
        "embed_timestep.time_embed.2.bias": (WIDTH,),
        "embed_text.weight": (WIDTH, 6),
        "embed_text.bias": (WIDTH,),
        "output_process.poseFinal.weight": (263, WIDTH),
        "output_process.poseFinal.bias": (263,),
    }
    for layer in range(LAYERS):
        head = f"seqTransDecoder.layers.{layer}."
        for attention in ("self_attn", "multihead_attn"):
            found[f"{head}{attention}.in_proj_weight"] = (3 * WIDTH, WIDTH)
            found[f"{head}{attention}.in_proj_bias"] = (3 * WIDTH,)
            found[f"{head}{attention}.out_proj.weight"] = (WIDTH, WIDTH)
            found[f"{head}{attention}.out_proj.bias"] = (WIDTH,)
        found[f"{head}linear1.weight"], found[f"{head}linear1.bias"] = (FF, WIDTH), (FF,)
        found[f"{head}linear2.weight"], found[f"{head}linear2.bias"] = (WIDTH, FF), (WIDTH,)
        for norm in ("norm1", "norm2", "norm3"):
            found[f"{head}{norm}.weight"] = found[f"{head}{norm}.bias"] = (WIDTH,)
    return found


def table(rows: int = 5000) -> Tensor:
    """Sinusoids, sine and cosine alternating, entry by entry."""
    angle = torch.arange(rows)[:, None] / 10000.0 ** (torch.arange(0, WIDTH, 2) / WIDTH)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)


@pytest.fixture
def released(tmp_path: Path) -> tuple[Path, dict[str, Tensor]]:
    """A file as released: raw weights and their average, and the position table twice."""
    generator = torch.Generator().manual_seed(3)
    tensors = {
        name: torch.randn(shape, generator=generator) / math.sqrt(shape[-1]) + (name.endswith("norm1.weight"))
        for name, shape in shapes().items()
    }
    pe = {name: table()[:, None] for name in ("sequence_pos_encoder.pe", "embed_timestep.sequence_pos_encoder.pe")}
    path = tmp_path / "DiP_no-target_10steps_context20_predict40" / "model000600343.pt"
    path.parent.mkdir()
    raw = {name: torch.randn_like(value) for name, value in tensors.items()}
    torch.save({"model": {**raw, **pe}, "model_avg": {**tensors, **pe}}, path)
    (path.parent / "args.json").write_text(json.dumps(ARGS))
    return path, tensors


@pytest.fixture(autouse=True)
def _no_text_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        factory, "open_encoder", lambda name, model="", **_: CachedEncoder(WordEncoder(6, "distilbert"))
    )


def attention(tensors: dict[str, Tensor], head: str, query: Tensor, memory: Tensor) -> Tensor:
    """Multi-head attention of one sample, ``[T, d]`` to ``[L, d]``, a query and a head at a time."""
    weight, bias = tensors[head + "in_proj_weight"], tensors[head + "in_proj_bias"]
    q, k, v = (
        source @ weight[i * WIDTH : (i + 1) * WIDTH].T + bias[i * WIDTH : (i + 1) * WIDTH]
        for i, source in enumerate((query, memory, memory))
    )
    size, rows = WIDTH // HEADS, []
    for i in range(len(q)):
        parts = []
        for head_number in range(HEADS):
            at = slice(head_number * size, (head_number + 1) * size)
            share = torch.softmax((k[:, at] @ q[i, at]) / math.sqrt(size), dim=0)
            parts.append((share[:, None] * v[:, at]).sum(0))
        rows.append(torch.cat(parts))
    return torch.stack(rows) @ tensors[head + "out_proj.weight"].T + tensors[head + "out_proj.bias"]


def slow_forward(tensors: dict[str, Tensor], prefix: Tensor, x: Tensor, t: int, words: Tensor) -> Tensor:
    """DiP on one sample: ``[C, D]`` clean and ``[T, D]`` noisy frames, ``[L, F]`` words; facts 2.4."""

    def linear(name: str, value: Tensor) -> Tensor:
        return value @ tensors[name + ".weight"].T + tensors[name + ".bias"]

    def norm(name: str, value: Tensor) -> Tensor:
        centred = value - value.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return scaled * tensors[name + ".weight"] + tensors[name + ".bias"]

    pe = table(200)
    hidden = linear("embed_timestep.time_embed.0", pe[t])
    time = linear("embed_timestep.time_embed.2", hidden * torch.sigmoid(hidden))
    memory = linear("embed_text", words) + time
    frames = torch.cat((prefix, x))
    out = linear("input_process.poseEmbedding", frames) + pe[: len(frames)]
    for layer in range(LAYERS):
        head = f"seqTransDecoder.layers.{layer}."
        out = norm(head + "norm1", out + attention(tensors, head + "self_attn.", out, out))
        out = norm(head + "norm2", out + attention(tensors, head + "multihead_attn.", out, memory))
        out = norm(head + "norm3", out + linear(head + "linear2", F.gelu(linear(head + "linear1", out))))
    return linear("output_process.poseFinal", out[len(prefix) :])


def slow_guided(tensors: dict[str, Tensor], prefix: Tensor, x: Tensor, t: int, words: Tensor, scale: float) -> Tensor:
    with_text = slow_forward(tensors, prefix, x, t, words)
    without = slow_forward(tensors, prefix, x, t, torch.zeros_like(words))
    return without + scale * (with_text - without)


def dataset(source: SimpleNamespace, features: Tensor) -> SimpleNamespace:
    """A dataset with one test motion."""
    clips = {"test": [TextClip("000021", features, ("a man waves",))]}
    return plain_dataset(**vars(source) | {"name": "humanml", "clips": lambda split: clips.get(split, [])})


def words(text: str) -> Tensor:
    return WordEncoder(6).encode([text]).tokens[0]


@torch.no_grad()
def test_forward(released: tuple[Path, dict[str, Tensor]], source: SimpleNamespace) -> None:
    path, tensors = released
    policy = open_policy(MDMOptions(checkpoint=str(path)), dataset=source)
    assert isinstance(policy, DiPPolicy)
    texts = ("a man waves with both hands", "he sits")
    condition = policy.condition([Prompt((text,), (40,)) for text in texts])
    assert condition.prefix is not None
    assert condition.prefix.shape == (2, CONTEXT, 263)
    x = torch.randn(2, BLOCK, 263, generator=torch.Generator().manual_seed(1))
    out = policy.predict(x, torch.tensor([0, 9]), condition, torch.tensor([40, 40]), guidance=7.5)
    for row, (text, t) in enumerate(zip(texts, (0, 9), strict=True)):
        slow = slow_guided(tensors, condition.prefix[row], x[row], t, words(text), 7.5)
        assert (out[row] - slow).abs().max() <= 1e-5 * slow.abs().max()


@torch.no_grad()
def test_blocks_follow_each_other(released: tuple[Path, dict[str, Tensor]], source: SimpleNamespace) -> None:
    """The whole loop: 100 frames are three blocks, of which the last is cut."""
    path, tensors = released
    recorded = torch.randn(60, 263, generator=torch.Generator().manual_seed(4))
    policy = open_policy(MDMOptions(checkpoint=str(path)), dataset=dataset(source, recorded))
    prompts = [
        Prompt(("a man waves",), (100,), "000021#0", ("000021",)),
        Prompt(("he sits down and rests",), (36,), "000021#1", ("000021",)),
    ]
    noise, plan = NoiseSource(5), plan_steps(policy)
    done = sample(policy, prompts, plan, noise, guidance=2.5)
    assert done.motions.features.shape == (2, 100, 263)
    assert done.mask.sum(1).tolist() == [100, 36]
    assert done.lengths.tolist() == [100, 36]

    betas = []
    for i in range(STEPS):
        ends = [math.cos((u / STEPS + 0.008) / 1.008 * math.pi / 2) ** 2 for u in (i, i + 1)]
        betas.append(min(1 - ends[1] / ends[0], 0.999))
    bars = np.cumprod([1 - beta for beta in betas])
    for row, prompt in enumerate(prompts):
        begin = stable_hash(f"prefix {prompt.key}") % 5
        current = source.normalizer.normalize(recorded[begin : begin + CONTEXT])
        made, text = [], words(prompt.text)
        key = torch.tensor([stable_hash(prompt.key)])
        for block in range(math.ceil(prompt.length / BLOCK)):
            at = {"prompts": key + block, "samples": torch.tensor([0]), "shape": (BLOCK, 263)}
            x = noise.start(0, **at)[0]
            for t in reversed(range(STEPS)):
                x0 = slow_guided(tensors, current, x, t, text, 2.5)
                before = bars[t - 1] if t else 1.0
                mean = (betas[t] * math.sqrt(before) * x0 + (1 - before) * math.sqrt(1 - betas[t]) * x) / (1 - bars[t])
                x = mean
                if t:
                    sigma = math.sqrt(betas[t] * (1 - before) / (1 - bars[t]))
                    x = x + sigma * noise.at(0, timestep=t, **at)[0]
            made.append(x)
            current = x[-CONTEXT:]
        slow = torch.cat(made)[: prompt.length]
        ours = source.normalizer.normalize(done.motions.features[row, : prompt.length])
        assert (ours - slow).abs().max() <= 1e-5 * slow.abs().max(), row


@torch.no_grad()
def test_a_motion_does_not_depend_on_what_is_made_with_it_and_may_be_long(
    released: tuple[Path, dict[str, Tensor]], source: SimpleNamespace
) -> None:
    path, _ = released
    policy = open_policy(MDMOptions(checkpoint=str(path)), dataset=source)
    long, short = Prompt(("he walks on",), (410,), "a"), Prompt(("he waves",), (50,), "b")
    plan = plan_steps(policy, steps=3)
    both = sample(policy, [long, short], plan, NoiseSource(0)).motions.features
    alone = sample(policy, [short], plan, NoiseSource(0)).motions.features
    assert both.shape[1] == 410
    assert torch.allclose(both[1, :50], alone[0, :50], atol=1e-5)
    begun = sample(policy, [Prompt(("he walks on",), (90,), "a")], plan, NoiseSource(0)).motions.features
    assert torch.allclose(both[0, :90], begun[0, :90], atol=1e-4)
    check_policy(policy)


@torch.no_grad()
def test_where_the_first_block_starts(
    released: tuple[Path, dict[str, Tensor]], source: SimpleNamespace, tmp_path: Path
) -> None:
    path, _ = released
    recorded = torch.randn(60, 263, generator=torch.Generator().manual_seed(4))
    policy = open_policy(MDMOptions(checkpoint=str(path)), dataset=dataset(source, recorded))
    typed, joined = Prompt(("he waves",), (40,)), Prompt(("a", "b"), (40, 40), "join-7", ("000021", "000004"))
    unknown = Prompt(("a",), (40,), "9#0", ("9",))
    starts = policy.prefixes.of([joined, typed, unknown])
    assert any(torch.equal(starts[0], recorded[n : n + CONTEXT]) for n in range(5))
    asked = [Prompt(("a",), (40,), f"000021#{n}/0.{n}", ("000021",)) for n in range(200)]
    drawn = [
        next(n for n in range(41) if torch.equal(one, recorded[n : n + CONTEXT])) for one in policy.prefixes.of(asked)
    ]
    assert all(25 <= drawn.count(n) <= 55 for n in range(5)), "200 draws of 0 to 4"
    assert torch.equal(policy.prefixes.of(asked[:1])[0], policy.prefixes.of(asked)[0])
    still = standing(CONTEXT, 20.0)
    assert torch.equal(starts[1], still)
    assert torch.equal(starts[2], still)
    joints = features_to_joints(still, HUMANML)
    assert (joints - joints[0]).abs().max() <= 1e-5
    assert joints[..., 1].min() >= -1e-5
    assert joints[0, 15, 1] > 1.4
    file = tmp_path / "start.npy"
    np.save(file, recorded.numpy())
    chosen = open_policy(MDMOptions(checkpoint=str(path), prefix=file), dataset=source)
    assert torch.equal(chosen.prefixes.of([typed, joined])[1], recorded[-CONTEXT:])  # what is continued is its end
    short = tmp_path / "short.npy"
    np.save(short, recorded[:5].numpy())
    for options, word in (
        ({"checkpoint": str(path), "prefix": short}, "5 frames"),
        ({"checkpoint": str(path), "prefix": tmp_path / "nowhere.npy"}, "nowhere"),
        ({"prefix": file}, "--policy.prefix"),
    ):
        with pytest.raises(MotionkitError, match=word):
            open_policy(MDMOptions.model_validate(options), dataset=source)
    with pytest.raises(MotionkitError, match="kit body"):
        Prefixes(20, skeleton=KIT, fps=12.5)


def test_the_guidance_of_its_authors_is_said(
    released: tuple[Path, dict[str, Tensor]], source: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="motionkit"):
        open_policy(MDMOptions(checkpoint=str(released[0])), dataset=source)
    assert "--guidance-scale 7.5" in caplog.text


@torch.no_grad()
def test_target_locations_are_left_out(
    released: tuple[Path, dict[str, Tensor]], source: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """A model that can be given targets adds nothing to the timestep where it is given none."""
    path, tensors = released
    plain = open_policy(MDMOptions(checkpoint=str(path)), dataset=source)
    more = {"embed_target_cond.mlp.0.weight": torch.ones(WIDTH, 32), "embed_target_cond.mlp.0.bias": torch.ones(WIDTH)}
    torch.save({"model": {**tensors, **more}, "model_avg": {**tensors, **more}}, path)
    with pytest.raises(MotionkitError, match="does not fit"):
        open_policy(MDMOptions(checkpoint=str(path)), dataset=source)
    (path.parent / "args.json").write_text(json.dumps({**ARGS, "multi_target_cond": True, "lambda_target_loc": 1.0}))
    with caplog.at_level(logging.INFO, logger="motionkit"):
        without = open_policy(MDMOptions(checkpoint=str(path)), dataset=source)
    assert "target joint locations" in caplog.text
    prompt, x = Prompt(("he waves",), (40,)), torch.randn(1, 40, 263)
    first, second = (
        policy.predict(x, torch.tensor([4]), policy.condition([prompt]), torch.tensor([40]))
        for policy in (plain, without)
    )
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"emb_policy": "concat"}, "emb_policy"),
        ({"keyframe_cond_type": "joints"}, "keyframe_cond_type"),
        ({"context_len": 0}, "context_len 0"),
        ({"context_len": 6000}, "pos_embed_max_len"),
        ({"pred_len": "many"}, "pred_len"),
        ({"patch_size": 4}, "patch_size"),
        ({"arch": "gru"}, "gru"),
    ],
)
def test_what_does_not_run_is_refused(
    released: tuple[Path, dict[str, Tensor]], change: dict[str, Any], message: str
) -> None:
    path, _ = released
    (path.parent / "args.json").write_text(json.dumps({**ARGS, **change}))
    with pytest.raises(MotionkitError, match=message) as error:
        factory._read(str(path))
    assert error.value.code == 2


def test_the_released_size() -> None:
    args = {key: value for key, value in ARGS.items() if key not in ("num_heads", "ff_size", "text_width")}
    settings = settings_from_args({**args, "layers": 8, "latent_dim": 512}, origin="args.json")
    assert (settings.num_heads, settings.ff_size, settings.text_width, settings.token_memory) == (4, 1024, 768, True)
    with torch.device("meta"):
        network = MDMNetwork(settings)
    assert sum(parameter.numel() for parameter in network.parameters()) == 26_424_583


def test_pred_len_is_context_len_where_it_is_left_out(released: tuple[Path, dict[str, Tensor]]) -> None:
    path, _ = released
    (path.parent / "args.json").write_text(json.dumps({**ARGS, "pred_len": 0}))
    assert factory._read(str(path)).settings.pred_len == CONTEXT


@torch.no_grad()
def test_generate_and_the_other_formats(
    released: tuple[Path, dict[str, Tensor]], source: SimpleNamespace, tmp_path: Path
) -> None:
    path, _ = released
    policy = open_policy(MDMOptions(checkpoint=str(path)), dataset=source)
    prompt = Prompt(("he walks",), (300,))
    made = generate(policy, [prompt], tmp_path / "out", plan_steps(policy, steps=2), seed=1)
    assert np.load(tmp_path / "out" / made[0]["features"]).shape == (300, 263)
    policy.save(tmp_path / "own")
    own = open_policy(MDMOptions(checkpoint=str(tmp_path / "own")))
    assert isinstance(own, DiPPolicy)
    asked = [Prompt(("he walks",), (60,))]
    first, second = (
        sample(each, asked, plan_steps(each, steps=2), NoiseSource(0)).motions.features for each in (policy, own)
    )
    assert torch.equal(first, second)
    written, obstacles = export_checkpoint(str(path), tmp_path / "back")
    args = json.loads((written.parent / "args.json").read_text())
    assert (args["context_len"], args["pred_len"], obstacles) == (
        CONTEXT,
        BLOCK,
        [f"num_heads={HEADS}", f"ff_size={FF}"],
    )


def test_training_it_is_refused(released: tuple[Path, dict[str, Tensor]], source: SimpleNamespace) -> None:
    policy = open_policy(MDMOptions(checkpoint=str(released[0])), dataset=source)
    with pytest.raises(MotionkitError, match="does not train it") as error:
        GRPO(policy, [])
    assert error.value.code == 2

    def walk(*_: Any) -> Rollout:
        raise AssertionError("nothing is sampled")

    with pytest.raises(MotionkitError, match="blocks of 40"):
        sample(policy, [Prompt(("he walks",), (40,))], plan_steps(policy), NoiseSource(0), walk=walk)
