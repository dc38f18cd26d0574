"""Film prompts of a finished run before training, after it, and reference clips of the same actions, side by side.

    python tests/studies/media/before_after.py RUN OUT.gif
    python tests/studies/media/before_after.py RUN            # print the prompts that it chooses from

Three prompts in which the whole body moves, one below the other: of the first 15 held-out prompts that ask for a kick
the one of median gain in reward, and likewise for a jump, and for a walk with a turn (`KINDS`); a prompt that is shown
already does not count. They are of the split that the run was measured on, and the first of them those that it was
measured with. The motions are sampled as `motionkit generate` samples the starter's policy and the run's: all steps,
each policy's own guidance, one sample, with the noise of the run's own table. Scores are by `tmr-dense`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from motionkit import load_dataset, load_policy, load_reward
from motionkit.contracts.dataset import TextMotionDataset
from motionkit.motion import HUMANML, features_to_joints
from motionkit.player import PlayerTrack
from motionkit.player.video import write_video
from motionkit.rl import NoiseSource
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.heldout import Shown
from motionkit.text_to_motion.evaluation.real_motions import RealMotions
from motionkit.text_to_motion.generating import plan_steps, sample
from motionkit.text_to_motion.policy import DiffusionPolicy, guidance_of
from motionkit.text_to_motion.rewards.mix import RewardMix

KINDS: Mapping[str, tuple[str, ...]] = {
    "kick": ("kick/",),
    "jump": ("jump/",),
    "walk with a turn": ("walk/turn-", "walk/circle-"),
}
"""How the names of classes begin, of which a shown prompt asks for one."""

POOL = 15
"""Prompts of each kind that one is chosen from."""

PANEL, FPS = (280, 250), 8
"""Width and height of a motion in pixels, and pictures per second."""


def main() -> None:
    """Choose the prompts and write the film."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path, nargs="?", help=".gif or .mp4")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load_dataset("starter")
    about = json.loads((asked.run / "config.json").read_text())
    split = about["heldout"]["split"]
    prompts = dataset.prompts(split, k_segments=about["prompts"]["k_segments"], seed=0)
    kinds = {kind: asking_for(classes, prompts, dataset)[:POOL] for kind, classes in KINDS.items()}
    wanted = sorted({place for places in kinds.values() for place in places})
    columns = films(asked.run, [prompts[place] for place in wanted], dataset, split)
    before, after, real = (dict(zip(wanted, shown.rewards, strict=True)) for shown in columns.values())
    rows = chosen(kinds, {place: after[place] - before[place] for place in wanted})
    for kind, places in kinds.items():
        print(f"{kind}: the first {len(places)} of {len(prompts)} prompts")
        for place in sorted(places, key=lambda place: before[place] - after[place]):
            mark = "*" if rows[kind] == place else " "
            scores = f"{before[place]:.2f} -> {after[place]:.2f}, reference {real[place]:.2f}"
            print(f"{mark} {scores}  {prompts[place].text}")
    if asked.out is not None:
        tracks = [track(name, shown, wanted.index(place)) for place in rows.values() for name, shown in columns.items()]
        write_video(asked.out, tracks, size=(len(columns) * PANEL[0], len(rows) * PANEL[1]), fps=FPS)
        print(f"{asked.out}: {asked.out.stat().st_size / 1e6:.2f} MB")


def asking_for(classes: Sequence[str], prompts: Sequence[Prompt], dataset: TextMotionDataset) -> list[int]:
    """Return the numbers of the prompts with an action of these classes."""
    name: Any = dataset.action  # type: ignore[attr-defined]  # the starter's dataset names actions
    return [
        number
        for number, prompt in enumerate(prompts)
        if any(name(text).startswith(tuple(classes)) for text in prompt.segments)
    ]


def chosen(kinds: Mapping[str, Sequence[int]], gains: Mapping[int, float]) -> dict[str, int]:
    """Return for each kind the prompt of median gain among those that no kind before it took.

    Args:
        kinds: Numbers of the prompts of each kind.
        gains: What each prompt gained.

    Raises:
        SystemExit: A kind has no prompt left.
    """
    taken: dict[str, int] = {}
    for kind, places in kinds.items():
        order = sorted((place for place in places if place not in taken.values()), key=lambda place: -gains[place])
        if not order:
            raise SystemExit(f"no held-out prompt of the run is left that asks for a {kind}.")
        taken[kind] = order[(len(order) - 1) // 2]
    return taken


def films(run: Path, prompts: Sequence[Prompt], dataset: TextMotionDataset, split: Any) -> dict[str, Shown]:
    """Return the motions of the prompts: of the starter's policy, of the run's, and reference clips, joined."""
    rewards = RewardMix([(load_reward("tmr-dense"), 1.0)])
    answers = RealMotions(dataset, split, prompts).answers(prompts)
    assert answers is not None
    assert len(answers.places) == len(prompts), "the starter has clips of every action"
    scored = rewards.score(answers.motions, answers.prompts)
    return {
        "before training": sampled(load_policy("starter", dataset=dataset), prompts, rewards),
        "after training": sampled(load_policy(run, dataset=dataset), prompts, rewards),
        "reference clips": Shown.first(answers.motions, answers.prompts, scored, 1, len(prompts)),
    }


@torch.no_grad()
def sampled(policy: DiffusionPolicy, prompts: Sequence[Prompt], rewards: RewardMix) -> Shown:
    """Return a motion for each prompt, with its scores."""
    noise, plan = NoiseSource(0), plan_steps(policy)
    done = sample(policy, prompts, plan, noise, guidance=guidance_of(policy), step=-1)
    return Shown.first(done.motions, done.prompts, rewards.score(done.motions, done.prompts), 1, len(prompts))


def track(name: str, shown: Shown, number: int) -> PlayerTrack:
    """Return one motion with its texts and its score."""
    features = torch.from_numpy(shown.features[number])
    texts = shown.texts[number].split(" | ")
    return PlayerTrack(
        title=f"{name}: score {shown.rewards[number]:.2f}",
        positions=features_to_joints(features, HUMANML),
        parents=HUMANML.parents,
        fps=shown.fps,
        segments=[
            (text, first / shown.fps, end / shown.fps)
            for text, (first, end) in zip(texts, shown.bounds[number], strict=True)
        ],
        scores=shown.segments[number],
    )


if __name__ == "__main__":
    main()
