"""One GRPO step of motionkit against a plain implementation, and which difference makes how much of it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import pytest
import torch
from torch import Tensor

from motionkit import GRPO
from motionkit.contracts.reward import RewardScores
from motionkit.motion import HUMANML, MotionBatch, Normalizer
from motionkit.text import CachedEncoder, Prompt, TextFeatures
from motionkit.text_to_motion.grpo.api import EmaSettings, GrpoObjective, GrpoRollout, GrpoSampler, LoraSettings
from motionkit.text_to_motion.mdm.open import new_policy
from motionkit.text_to_motion.mdm.settings import MDMSettings
from motionkit.training.device import use_matmul
from tests.made.plain import plain_dataset

from .plain import PlainGRPO, PlainMDM, Switches
from .ratios import Ratios

GUIDANCE, KL = 2.5, 0.01


@dataclass(frozen=True)
class Size:
    """What one step is made of. The network is the published MDM and the text tower CLIP ViT-B/32's in both sizes.

    ``small`` has short motions and short texts in the proportion of MDM's (196 frames to 77 word pieces), so that
    encoding a text costs 0.8 denoiser passes there, too; and as many trained steps per sampling step as ``mdm``.
    """

    prompts: int
    group: int
    frames: int
    tokens: int
    steps: int
    window: int
    micro_batch: int
    goal: float
    rounds: int


SIZES = {
    "small": Size(2, 2, 36, 14, 10, 2, 64, goal=3.0, rounds=2),
    "mdm": Size(32, 8, 196, 77, 50, 10, 512, goal=10.0, rounds=2),
}
ROWS = {
    "plain": Switches(),
    "plain + text cache": Switches(text_cache=True),
    "plain + fused CFG": Switches(fused_cfg=True),
    "plain + flattened timesteps": Switches(flattened=True),
    "plain + window": Switches(window=-1),
    "plain + bfloat16 body (CUDA only)": Switches(bf16=True),
}


@dataclass(frozen=True)
class Ours:
    """How a step of motionkit is taken.

    Attributes:
        window: Whether only the steps of the window are stochastic and trained; else all are, as in the plain step.
        precision: Of the network's body, as ``--precision``.
        matmul: As ``--cpu-matmul``.
    """

    window: bool = True
    precision: str = "fp32"
    matmul: str = "default"


OURS = {
    "motionkit, all steps": Ours(window=False),
    "motionkit, all steps, oneDNN (CPU without AMX)": Ours(window=False, matmul="onednn"),
    "motionkit, all steps, bfloat16 body": Ours(window=False, precision="bf16"),
    "motionkit": Ours(),
    "motionkit, bfloat16 body": Ours(precision="bf16"),
}
"""The last row without bfloat16 on the CPU, and with it on CUDA, is what the goal of `Size` is for."""


class Tower:
    """CLIP's text tower at its real size, with random weights: what a text costs does not depend on their values."""

    name, fingerprint, width = "clip", "random", 512

    def __init__(self, tokens: int, device: torch.device) -> None:
        import transformers

        config = transformers.CLIPTextConfig(projection_dim=self.width)
        self.model = transformers.CLIPTextModelWithProjection(config).eval().requires_grad_(False).to(device)
        self.tokens, self.device, self.end = tokens, device, config.eos_token_id
        self.calls = 0

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """Encode all texts in one forward pass, ``[N, 512]``."""
        ids = torch.tensor([[1 + (hash(text) + k) % 49000 for k in range(self.tokens)] for text in texts])
        ids[:, -1] = self.end
        self.calls += len(texts)
        with torch.no_grad():
            found: Tensor = self.model(input_ids=ids.to(self.device)).text_embeds
        return found

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Encode each text by itself, as motionkit's encoders do."""
        rows = torch.stack([self.vectors([text]) for text in texts]).cpu()
        return TextFeatures(rows, torch.ones(len(texts), 1, dtype=torch.bool))


class Height:
    """A reward that costs nothing: how high the root is."""

    name = "height"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score."""
        return RewardScores(motions.features[..., 3].mean(1))


@cache
def tower(tokens: int, device: torch.device) -> Tower:
    """Return the one tower of the session."""
    torch.manual_seed(0)
    return Tower(tokens, device)


@cache
def network(device: torch.device) -> PlainMDM:
    """Return the plain network as every measurement starts from it."""
    torch.manual_seed(0)
    return PlainMDM(features=263, width=512, layers=8, heads=4, hidden=1024, text=512).eval().to(device)


@pytest.fixture
def size(request: pytest.FixtureRequest) -> Size:
    """The size that was asked for."""
    return SIZES[request.config.getoption("--size", "small")]


@pytest.fixture
def device(request: pytest.FixtureRequest) -> torch.device:
    """The device that was asked for."""
    found = torch.device(request.config.getoption("--device", "cpu"))
    if found.type == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    return found


@pytest.fixture
def group(request: pytest.FixtureRequest, size: Size, device: torch.device) -> str:
    """Title of the table."""
    where = f"{device.type}, {torch.get_num_threads()} threads" if device.type == "cpu" else device.type
    shape = f"N = {size.prompts * size.group}, {size.frames} frames, {size.steps} steps, window {size.window}"
    return f"One GRPO step ({request.config.getoption('--size', 'small')}, {where}: {shape})"


def grpo_of(
    size: Size, encoder: Tower, device: torch.device, *, settings: MDMSettings | None = None, precision: str = "fp32"
) -> GRPO:
    """Return motionkit's side: the same work as the plain step's, full fine-tuning without anchor and average."""
    source = plain_dataset(
        skeleton=HUMANML, fps=20.0, normalizer=Normalizer(torch.zeros(263), torch.ones(263)), max_length=196
    )
    shape = settings or MDMSettings(mask_frames=True)
    return GRPO(
        new_policy(shape, dataset=source, encoder=CachedEncoder(encoder), device=device),
        Height(),
        rollout=GrpoRollout(prompts=size.prompts, group_size=size.group, micro_batch=size.micro_batch),
        sampler=GrpoSampler(
            spacing="even", train_timesteps=size.steps, window_size=size.window, guidance_scale=GUIDANCE
        ),
        objective=GrpoObjective(credit="sample", kl_coef=KL, anchor=0.0),
        lora=LoraSettings(),
        ema=EmaSettings(),
        precision=precision,
    )


def measure(benchmark, action, fresh, device: torch.device, rounds: int) -> float:
    """Time `action`, with an untimed `fresh` before each round; return the shortest time."""

    def timed(*arguments):
        action(*arguments)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    benchmark.pedantic(timed, setup=fresh, rounds=rounds, iterations=1, warmup_rounds=1 if device.type == "cuda" else 0)
    return float(benchmark.stats.stats.min)


def asked(size: Size, number: int) -> list[str]:
    """Prompts that no round before had: a text is never in the cache from an earlier step."""
    return [f"a person does number {number} of {i}" for i in range(size.prompts)]


@pytest.mark.benchmark
@pytest.mark.parametrize("row", ROWS)
def test_plain_step(row: str, benchmark, ratios: Ratios, size: Size, device: torch.device, group: str) -> None:
    switches = ROWS[row]
    if switches.bf16 and device.type != "cuda":
        pytest.skip("mixed precision is measured on CUDA only")
    if switches.window:
        switches = Switches(window=size.window)
    encoder, rounds = tower(size.tokens, device), iter(range(1000))

    def fresh():
        plain = PlainGRPO(
            copy.deepcopy(network(device)),
            encoder.vectors,
            steps=size.steps,
            guidance=GUIDANCE,
            kl=KL,
            switches=switches,
            micro_batch=size.micro_batch,
        )
        texts = [text for text in asked(size, next(rounds)) for _ in range(size.group)]
        start = torch.randn(len(texts), size.frames, 263, device=device)
        return (plain, texts, start), {}

    def action(plain: PlainGRPO, texts: list[str], start: Tensor) -> None:
        assert plain.step(texts, size.prompts, start, lambda x: x[..., 3].mean(1)) > 0

    benchmark.group = group
    encoder.calls = 0
    ratios.add(group, row, measure(benchmark, action, fresh, device, size.rounds))
    trained = size.window or size.steps
    assert encoder.calls >= size.prompts * (1 if switches.text_cache else trained)


@pytest.mark.benchmark
@pytest.mark.parametrize("row", OURS)
def test_motionkit_step(row: str, benchmark, ratios: Ratios, size: Size, device: torch.device, group: str) -> None:
    ours = OURS[row]
    if ours.matmul == "onednn" and (device.type != "cpu" or torch.cpu._is_amx_tile_supported()):
        pytest.skip("oneDNN computes in float32 on CPUs without AMX only")
    encoder, rounds = tower(size.tokens, device), iter(range(1000))
    window = size.window if ours.window else size.steps

    def fresh():
        grpo = grpo_of(replace(size, window=window), encoder, device, precision=ours.precision)
        return (grpo, [Prompt((text,), (size.frames,), text) for text in asked(size, next(rounds))]), {}

    def action(grpo: GRPO, prompts: list[Prompt]) -> None:
        assert grpo.step(prompts)["grad/norm"] > 0

    benchmark.group = group
    use_matmul(ours.matmul)
    try:
        ratios.add(group, row, measure(benchmark, action, fresh, device, size.rounds))
    finally:
        use_matmul("default")
    meant = "motionkit, bfloat16 body" if device.type == "cuda" else "motionkit"
    if row == meant and "plain" in ratios.groups[group]:
        assert ratios.of(group, row) >= size.goal


def test_the_switches_of_the_plain_step_do_not_change_its_gradient() -> None:
    """Otherwise the rows would compare different things. Tiny, hence part of the ordinary tests."""
    torch.manual_seed(0)
    small = PlainMDM(features=263, width=16, layers=1, heads=2, hidden=32, text=8).eval()
    norms = []
    for switches in (Switches(), Switches(text_cache=True), Switches(fused_cfg=True), Switches(flattened=True)):
        torch.manual_seed(1)
        plain = PlainGRPO(
            copy.deepcopy(small),
            lambda texts: torch.stack([torch.full((8,), float(len(text))) for text in texts]),
            steps=4,
            guidance=2.0,
            kl=0.01,
            switches=switches,
            micro_batch=5,
        )
        start = torch.randn(4, 8, 263)
        norms.append(plain.step(["a", "a", "bb", "bb"], 2, start, lambda x: x[..., 3].mean(1)))
    assert norms[0] > 0
    assert norms == pytest.approx([norms[0]] * 4, rel=1e-4)
