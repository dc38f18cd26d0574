"""A GRPO step at MDM's size on a card, as rows of a table; `gpu.sh` runs it. Without a card all sizes are tiny."""

from __future__ import annotations

import sys
from functools import partial

import torch

from motionkit import GRPO
from motionkit.motion import HUMANML, Normalizer
from motionkit.text import CachedEncoder, Prompt
from motionkit.text_to_motion.grpo.api import EmaSettings, GrpoObjective, GrpoRollout, GrpoSampler, LoraSettings
from motionkit.text_to_motion.mdm.open import new_policy
from motionkit.text_to_motion.mdm.settings import MDMSettings
from tests.made.plain import plain_dataset

from .gpu_timing import device, row
from .plain import PlainGRPO, PlainMDM, Switches
from .test_grpo_step import GUIDANCE, KL, Height, Size, Tower

SIZE, LAYERS, WIDTH = Size(4, 8, 196, 77, 50, 10, 512, goal=0.0, rounds=3), 8, 512
if not torch.cuda.is_available():
    SIZE, LAYERS, WIDTH = Size(1, 2, 16, 8, 3, 1, 64, goal=0.0, rounds=1), 1, 32


def plain(tower: Tower, precision: str) -> str:
    """Time the plain loop, with its text cache on, and all else as motionkit's step has it."""
    torch.manual_seed(0)
    network = PlainMDM(features=263, width=WIDTH, layers=LAYERS, heads=4, hidden=2 * WIDTH, text=512)
    switches = Switches(
        text_cache=True, fused_cfg=True, flattened=True, window=SIZE.window, bf16=precision == "bf16"
    )  # fmt: skip
    loop = PlainGRPO(
        network.eval().to(device()), tower.vectors, steps=SIZE.steps, guidance=GUIDANCE, kl=KL, switches=switches,
        micro_batch=SIZE.micro_batch,
    )  # fmt: skip
    texts = [text for text in asked() for _ in range(SIZE.group)]
    start = torch.randn(len(texts), SIZE.frames, 263, device=device())
    return row(
        f"GRPO step, plain loop, {precision}",
        lambda: loop.step(texts, SIZE.prompts, start, lambda x: x[..., 3].mean(1)),
        SIZE.rounds,
    )


def ours(tower: Tower, precision: str, compiled: str = "") -> str:
    """Time motionkit's step; `compiled` is a mode of `torch.compile`, of which reduce-overhead uses CUDA graphs."""
    normalizer = Normalizer(torch.zeros(263), torch.ones(263))
    source = plain_dataset(skeleton=HUMANML, fps=20.0, normalizer=normalizer, max_length=196)
    settings = MDMSettings(mask_frames=True, latent_dim=WIDTH, layers=LAYERS, ff_size=2 * WIDTH)
    policy = new_policy(settings, dataset=source, encoder=CachedEncoder(tower), device=device())
    if compiled:
        policy.network.compile(mode=compiled)
    grpo = GRPO(
        policy,
        Height(),
        rollout=GrpoRollout(prompts=SIZE.prompts, group_size=SIZE.group, micro_batch=SIZE.micro_batch),
        sampler=GrpoSampler(
            spacing="even", train_timesteps=SIZE.steps, window_size=SIZE.window, guidance_scale=GUIDANCE
        ),
        objective=GrpoObjective(credit="sample", kl_coef=KL, anchor=0.0),
        lora=LoraSettings(),
        ema=EmaSettings(),
        precision=precision,
    )
    prompts = [Prompt((text,), (SIZE.frames,), text) for text in asked()]
    words = {"": "", "default": ", compiled", "reduce-overhead": ", compiled, CUDA graphs"}[compiled]
    return row(f"GRPO step, motionkit, {precision}{words}", lambda: grpo.step(prompts), SIZE.rounds)


def asked() -> list[str]:
    """Return the prompts of a step."""
    return [f"a person does number {number}" for number in range(SIZE.prompts)]


def main() -> None:
    """Print the rows, each when it is there; one that fails says why."""
    tower = Tower(SIZE.tokens, device())
    rows = [partial(step, tower, precision) for precision in ("fp32", "bf16") for step in (plain, ours)]
    rows += [partial(ours, tower, "bf16", mode) for mode in ("default", "reduce-overhead")]
    for make in rows:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        try:
            print(make(), flush=True)  # noqa: T201
        except Exception as error:  # the others are still worth their time on the card
            name = getattr(make.func, "__name__", "")
            print(f"| GRPO step, {name} {make.args[1:]} | {type(error).__name__} | |", flush=True)  # noqa: T201
            sys.stderr.write(f"{error}\n")


if __name__ == "__main__":
    main()
