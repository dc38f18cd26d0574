"""A GRPO step at MDM's size on a card, as rows of a table; `gpu.sh` runs it. Without a card all sizes are tiny."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import torch

from motionkit.text import Prompt
from motionkit.text_to_motion.mdm.settings import MDMSettings

from .gpu_timing import device, row
from .plain import PlainGRPO, PlainMDM, Switches
from .test_grpo_step import GUIDANCE, KL, Size, Tower, asked, grpo_of

SIZE, LAYERS, WIDTH = Size(4, 8, 196, 77, 50, 10, 512, goal=0.0, rounds=3), 8, 512
if not torch.cuda.is_available():
    SIZE, LAYERS, WIDTH = Size(1, 2, 16, 8, 3, 1, 64, goal=0.0, rounds=1), 1, 32

Step = Callable[[], object]


def plain(tower: Tower, precision: str) -> Step:
    """Return the plain loop's step, with its text cache on, and all else as motionkit's step has it."""
    torch.manual_seed(0)
    network = PlainMDM(features=263, width=WIDTH, layers=LAYERS, heads=4, hidden=2 * WIDTH, text=512)
    switches = Switches(
        text_cache=True, fused_cfg=True, flattened=True, window=SIZE.window, bf16=precision == "bf16"
    )  # fmt: skip
    loop = PlainGRPO(
        network.eval().to(device()), tower.vectors, steps=SIZE.steps, guidance=GUIDANCE, kl=KL, switches=switches,
        micro_batch=SIZE.micro_batch,
    )  # fmt: skip
    texts = [text for text in asked(SIZE, 0) for _ in range(SIZE.group)]
    start = torch.randn(len(texts), SIZE.frames, 263, device=device())
    return lambda: loop.step(texts, SIZE.prompts, start, lambda x: x[..., 3].mean(1))


def ours(tower: Tower, precision: str, compiled: str = "") -> Step:
    """Return motionkit's step; `compiled` is a mode of `torch.compile`, of which reduce-overhead uses CUDA graphs."""
    settings = MDMSettings(mask_frames=True, latent_dim=WIDTH, layers=LAYERS, ff_size=2 * WIDTH)
    grpo = grpo_of(SIZE, tower, device(), settings=settings, precision=precision)
    if compiled:
        grpo.policy.network.compile(mode=compiled)
    prompts = [Prompt((text,), (SIZE.frames,), text) for text in asked(SIZE, 0)]
    return lambda: grpo.step(prompts)


def main() -> None:
    """Print the rows, each when it is there; one that fails says why."""
    tower = Tower(SIZE.tokens, device())
    steps: dict[str, Callable[[], Step]] = {
        "plain loop, fp32": partial(plain, tower, "fp32"),
        "motionkit, fp32": partial(ours, tower, "fp32"),
        "plain loop, bf16": partial(plain, tower, "bf16"),
        "motionkit, bf16": partial(ours, tower, "bf16"),
        "motionkit, bf16, compiled": partial(ours, tower, "bf16", "default"),
        "motionkit, bf16, compiled, CUDA graphs": partial(ours, tower, "bf16", "reduce-overhead"),
    }
    for name, make in steps.items():
        try:
            print(row(f"GRPO step, {name}", make(), SIZE.rounds), flush=True)  # noqa: T201
        except Exception as error:  # the others are still worth their time on the card
            print(f"| GRPO step, {name} | {type(error).__name__} | |", flush=True)  # noqa: T201
            sys.stderr.write(f"{error}\n")


if __name__ == "__main__":
    main()
