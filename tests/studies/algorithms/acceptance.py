"""Ask whether trained policies are better and nothing got worse, on one split of the starter pack.

    python tests/studies/algorithms/acceptance.py RUN [RUN ...]              # validation prompts
    python tests/studies/algorithms/acceptance.py RUN [RUN ...] --split test # the test split, nothing was chosen on it

Beside what every run reports it measures, in the space of the judge and by segment: the Frechet distance (FID) to
reference clips of the same split, and how often the judge finds a segment's own text among 32 (R@1, R@3). The starter
policy and each RUN are sampled with the same noise; intervals are 95 % bootstraps over prompts. FID has none: in a
bootstrap motions come twice, which lessens their spread and raises it. Nothing got worse when R@3 of a RUN is inside
the interval of the starter policy or above it, and FID is not above that policy's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from motionkit import load_dataset, load_policy, load_reward
from motionkit.contracts.dataset import TextMotionDataset
from motionkit.metrics import frechet, ranks
from motionkit.rl import DDIM, DDPM, NoiseSource, StepPlan
from motionkit.text import Prompt
from motionkit.text_to_motion.crops import Crop
from motionkit.text_to_motion.evaluation.heldout import HeldOut, compare_measured
from motionkit.text_to_motion.evaluation.judge import open_judge
from motionkit.text_to_motion.generating import sample
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.text_to_motion.tmr.model import TMR

PROMPTS, SAMPLES, AMONG, DRAWS = 64, 4, 32, 300


@dataclass(frozen=True)
class Segments:
    """Generated segments in the judge's space, one row each.

    Attributes:
        latent: ``[M, D]`` of the motion of each segment.
        text: ``[M, D]`` of its text.
        prompt: ``[M]`` number of its prompt.
    """

    latent: Tensor
    text: Tensor
    prompt: Tensor

    def of(self, prompts: Sequence[int]) -> Segments:
        """Return the segments of some prompts, those of a prompt that comes twice twice."""
        rows = torch.cat([(self.prompt == number).nonzero().flatten() for number in prompts])
        return Segments(self.latent[rows], self.text[rows], self.prompt[rows])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="finished runs of motionkit grpo, or policy folders")
    parser.add_argument("--split", choices=["val", "test"], default="val")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load_dataset("starter")
    prompts = list(dataset.prompts(asked.split, seed=0)[:PROMPTS])
    judge, _ = open_judge(None, dataset, device=torch.device("cpu"))
    rewards: Any = RewardMix([(load_reward("tmr-dense"), 1.0)])
    start = load_policy("starter")
    steps = start.schedule.early(5)
    common: dict[str, Any] = {"guidance": 1.0, "rewards": rewards, "judge": judge}
    few = HeldOut(prompts, samples=SAMPLES, steps=steps, **common)
    all_steps = HeldOut(prompts, samples=1, steps=None, sampler=DDPM(), **common)
    tmr: TMR = judge.space  # type: ignore[union-attr]  # starter data have a judge
    real = clips(tmr, dataset, asked.split)
    base = segments(tmr, start, prompts, steps)
    before = few.measure(start), all_steps.measure(start)
    print(f"{asked.split} split, {len(prompts)} prompts x {SAMPLES} samples; starter policy")
    print(f"{'  FID of segments':<26} {frechet(base.latent, real):8.4g}")
    show("  R@1 among 32, %", lambda chosen: recall(chosen, 1), base)
    show("  R@3 among 32, %", lambda chosen: recall(chosen, 3), base)
    for run in asked.runs:
        policy = load_policy(run)
        print(run)
        for words, old, heldout in (
            ("", before[0], few),
            (f", all {len(policy.schedule)} steps", before[1], all_steps),
        ):
            for name, one in compare_measured(old, heldout.measure(policy)).items():
                low, high = one.ci95
                shown = f"{one.before:8.4g} -> {one.after:8.4g}  {one.delta:+.4f} [{low:+.4f}, {high:+.4f}]"
                print(f"  {name + words:<24} {shown}  {100 * one.delta / one.before:+.1f} %")
        after = segments(tmr, policy, prompts, steps)
        print(f"{'  FID of segments':<26} {frechet(after.latent, real):8.4g}")
        show("  R@1 among 32, %", lambda chosen: recall(chosen, 1), after)
        show("  R@3 among 32, %", lambda chosen: recall(chosen, 3), after)


def show(name: str, measure: Callable[[Segments], float], found: Segments) -> None:
    """Print a figure of a set of segments with its interval over prompts."""
    numbers = found.prompt.unique().tolist()
    generator = np.random.default_rng(0)
    drawn = [measure(found.of(generator.choice(numbers, len(numbers)).tolist())) for _ in range(DRAWS)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    print(f"{name:<26} {measure(found):8.4g}  [{low:.4g}, {high:.4g}]")


@torch.no_grad()
def segments(tmr: TMR, policy: DiffusionPolicy, prompts: Sequence[Prompt], steps: Sequence[int]) -> Segments:
    """Sample every prompt with the noise of the held-out measurement, and encode each segment and its text."""
    plan = StepPlan.build(policy.schedule, DDIM(0.0), steps=steps)
    latent, text, number = [], [], []
    for first in range(0, len(prompts), 16):
        done = sample(policy, prompts[first : first + 16], plan, NoiseSource(0), samples=SAMPLES, step=-1)
        owned = [(row, start, end - start) for row, prompt in enumerate(done.prompts) for start, end in prompt.bounds]
        latent.append(tmr.encode_crops(done.motions.features, [Crop(*crop) for crop in owned]).mu)
        text.append(tmr.encode_texts([words for prompt in done.prompts for words in prompt.segments]))
        number.append(first + done.groups[torch.tensor([row for row, _, _ in owned])])
    return Segments(torch.cat(latent), torch.cat(text), torch.cat(number))


@torch.no_grad()
def clips(tmr: TMR, dataset: TextMotionDataset, split: Any) -> Tensor:
    """Return ``[C, D]``, the reference clips of a split."""
    found = []
    for clip in dataset.clips(split):
        features = clip.features[None]
        found.append(tmr.encode_crops(features, [Crop(0, 0, features.shape[1])]).mu)
    return torch.cat(found)


def recall(found: Segments, most: int) -> float:
    """Return how often a segment's text is among the first `most` of 32, in percent; equal texts count as found."""
    order = torch.randperm(len(found.latent), generator=torch.Generator().manual_seed(0))
    hits = []
    for rows in order.split(AMONG):
        if len(rows) == AMONG:
            motion, text = F.normalize(found.latent[rows], dim=1), F.normalize(found.text[rows], dim=1)
            same = (text @ text.T) > 1 - 1e-5
            hits.append(ranks(motion @ text.T, relevant=same) < most)
    return 100.0 * float(torch.cat(hits).double().mean())


if __name__ == "__main__":
    main()
