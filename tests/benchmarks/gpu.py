"""Steps at the sizes of published models on a card, as rows of a table; `gpu.sh` runs it. Without a card all are tiny.

``python -m tests.benchmarks.gpu mdm`` is a GRPO step at MDM's size, next to a plain loop; ``... gpu sa2va`` a step of
`sa2va-rl` at Sa2VA-4B's size, on random weights that are drawn on the card.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from motionkit.text import Prompt
from motionkit.text_to_motion.mdm.settings import MDMSettings
from motionkit.training.world import OneProcess

from ..made.small_sa2va import SA2VA_4B, SMALL, config_of, make_model, write_tokenizer
from .gpu_timing import device, row
from .plain import PlainGRPO, PlainMDM, Switches
from .test_grpo_step import GUIDANCE, KL, Size, Tower, asked, grpo_of

SIZE, LAYERS, WIDTH = Size(4, 8, 196, 77, 50, 10, 512, goal=0.0, rounds=3), 8, 512
SA2VA, REGIONS, SAMPLES, RANK, WORDS = SA2VA_4B, 2, 4, 128, 128
if not torch.cuda.is_available():
    SIZE, LAYERS, WIDTH = Size(1, 2, 16, 8, 3, 1, 64, goal=0.0, rounds=1), 1, 32
    SA2VA, REGIONS, SAMPLES, RANK, WORDS = SMALL, 2, 2, 4, 8

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


def mdm() -> Mapping[str, Callable[[], Step]]:
    """Return what makes the steps of each row at MDM's size."""
    tower = Tower(SIZE.tokens, device())
    return {
        "GRPO step, plain loop, fp32": partial(plain, tower, "fp32"),
        "GRPO step, motionkit, fp32": partial(ours, tower, "fp32"),
        "GRPO step, plain loop, bf16": partial(plain, tower, "bf16"),
        "GRPO step, motionkit, bf16": partial(ours, tower, "bf16"),
        "GRPO step, motionkit, bf16, compiled": partial(ours, tower, "bf16", "default"),
        "GRPO step, motionkit, bf16, compiled, CUDA graphs": partial(ours, tower, "bf16", "reduce-overhead"),
    }


def self_play() -> Step:
    """Return a step of `sa2va-rl` with its defaults, pictures of one tile, some rows at a time."""
    import transformers

    from motionkit_regions.sa2va import Sa2vaOptions
    from motionkit_regions.sa2va.open import adapted
    from motionkit_regions.sa2va.parts import CompositeParts
    from motionkit_regions.sa2va.policy import Base
    from motionkit_regions.self_play.play import LoopRewards
    from motionkit_regions.self_play.settings import Sa2vaRlSettings
    from motionkit_regions.self_play.step import SelfPlay

    with TemporaryDirectory() as folder:
        config = config_of(SA2VA, write_tokenizer(Path(folder)))
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    parts = CompositeParts(make_model(config, device(), torch.bfloat16), config["template"])
    options = Sa2vaOptions(
        checkpoint="random weights", lora_rank=RANK, max_tiles=1, max_words=WORDS, gradient_checkpointing=True
    )
    policy = adapted(parts, tokenizer, options, Base("random weights", "", ""), device=device())
    settings = Sa2vaRlSettings.model_validate(
        {"run": {"num_steps": 100}, "rollout": {"batch_size": REGIONS, "group_size": SAMPLES}}
    )
    data = settings.dataset.build()
    loops = {"loop1": settings.loop1.build(policy=policy), "loop2": settings.loop2.build(policy=policy)}
    paid = {"loop1": settings.loop1_reward, "loop2": settings.loop2_reward}
    rewards = {name: LoopRewards(paid[name], name, device(), OneProcess(), data) for name in loops}
    play, number = SelfPlay(settings, policy, data, loops, rewards), count(1)
    play.measure()
    return lambda: play.step(next(number))


def sa2va() -> Mapping[str, Callable[[], Step]]:
    """Return what makes the step at Sa2VA-4B's size."""
    return {f"sa2va-rl step at Sa2VA-4B's size, LoRA, bf16, {REGIONS} regions x {SAMPLES} samples": self_play}


def main(which: str) -> None:
    """Print the rows, each when it is there; one that fails says why."""
    steps, rounds = (mdm(), SIZE.rounds) if which == "mdm" else (sa2va(), 2)
    tiny = "" if torch.cuda.is_available() else " (tiny)"
    for name, make in steps.items():
        try:
            print(row(name + tiny, make(), rounds), flush=True)  # noqa: T201
        except Exception as error:  # the others are still worth their time on the card
            print(f"| {name} | {type(error).__name__} | |", flush=True)  # noqa: T201
            sys.stderr.write(f"{error}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
