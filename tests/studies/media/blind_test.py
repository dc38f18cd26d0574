"""Write a page of pairs: a reference clip beside one that a policy made of its caption; which is which?

    python tests/studies/media/blind_test.py OUT.html
    python tests/studies/media/blind_test.py OUT.html --dataset humanml --dataset.root DIR --checkpoint RUN

The captions are those of the test split, drawn by the seed: each action of the starter, and each caption of other data,
comes again only after all others. The policy's motions are made as `motionkit generate` makes them, one for each
caption and as long as the reference clip; none is chosen. Sides are shuffled by the seed, as often A as B. The page
needs no network.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from html import escape
from itertools import zip_longest
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motionkit import load_dataset, load_policy
from motionkit.contracts.dataset import TextMotionDataset, called
from motionkit.motion import Skeleton, features_to_joints
from motionkit.page.html import html_page
from motionkit.player import PlayerTrack, player_assets, player_fragment
from motionkit.starter import CATALOGUE
from motionkit.text import Prompt
from motionkit.text_to_motion.generating import generate_motions, plan_steps
from motionkit.text_to_motion.policy import DiffusionPolicy, guidance_of

PAIRS = 20
SIDES = ("A", "B")
"""Names of the two figures; left and right are limbs here."""


def main() -> None:
    """Make the motions and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help=".html")
    parser.add_argument("--checkpoint", default="starter", help="policy folder or run; default: the starter's policy")
    parser.add_argument("--dataset", default="starter", help="starter, humanml or kit")
    parser.add_argument("--dataset.root", dest="root", type=Path, help="folder of humanml or kit")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load_dataset(asked.dataset, **({"root": asked.root} if asked.root else {}))
    policy = load_policy(asked.checkpoint, dataset=dataset)
    name = called(asked.dataset, {"root": asked.root})
    asked.out.write_text(page(policy, dataset, asked.pairs, asked.seed, name=name), encoding="utf-8")
    print(f"{asked.out}: {asked.out.stat().st_size / 1e6:.2f} MB")


def page(policy: DiffusionPolicy, dataset: TextMotionDataset, count: int, seed: int, *, name: str = "starter") -> str:
    """Return the page.

    Args:
        policy: What is compared with reference clips.
        dataset: The dataset.
        count: Pairs, at most as many as there are test clips.
        seed: Chooses the captions and the sides.
        name: What the data are called.
    """
    rng = np.random.default_rng(seed)
    places = chosen(dataset, count, rng)
    clips = dataset.clips("test")
    longest = min(policy.max_length, dataset.max_length)
    prompts = [
        Prompt((clip.captions[0],), (min(len(clip.features), longest),), f"{clip.key}#0")
        for clip in (clips[place] for place in places)
    ]
    made = generate_motions(policy, prompts, plan_steps(policy), guidance=guidance_of(policy))
    cards = []
    sides = rng.permutation(np.arange(count) % 2).tolist()  # as often A as B: who always says A learns nothing
    for number, (place, prompt, clip, real) in enumerate(zip(places, prompts, made, sides, strict=True), start=1):
        pair = [clip.features, clip.features]
        pair[real] = clips[place].features[: prompt.length]
        cards.append(card(number, prompt.text, pair, SIDES[real], policy.skeleton, policy.fps))
    odds = f"{100 * tail(count, enough(count)):.0f}"
    told = _STARTER if name == "starter" else (escape(name), "")
    body = _INTRO.format(count=count, enough=enough(count), odds=odds, whose=told[0], how=told[1])
    style = f"<style>{_STYLE}</style>"
    script = f"<script>{_SCRIPT}</script>"
    tally = '<p class="card count" role="status"></p>'
    whole = style + body + player_assets() + "".join(cards) + tally
    return html_page("Which one is the reference?", whole, made_by="tests/studies/media/blind_test.py", scripts=script)


def chosen(dataset: TextMotionDataset, count: int, rng: np.random.Generator) -> list[int]:
    """Return the numbers of test clips in the order of the draw: each action or caption once, then again.

    Raises:
        SystemExit: There are not so many clips.
    """
    action = {entry.name: entry.action for entry in CATALOGUE}
    known = getattr(dataset, "action", None)  # the starter's
    clips = dataset.clips("test")
    if count > len(clips):
        raise SystemExit(f"there are {len(clips)} test clips, so there cannot be {count} pairs: --pairs N")
    found: dict[str, list[int]] = {}
    for place in rng.permutation(len(clips)).tolist():
        caption = clips[place].captions[0]
        found.setdefault(caption if known is None else action[known(caption)], []).append(place)
    rounds = zip_longest(*found.values())
    return [place for chosen in rounds for place in chosen if place is not None][:count]


def card(number: int, caption: str, pair: Sequence[Tensor | None], real: str, body: Skeleton, fps: float) -> str:
    """Return one pair with its buttons; nothing but `real`, in its own attribute, tells the sides apart."""
    tracks = [
        PlayerTrack(side, features_to_joints(features, body), body.parents, fps)
        for side, features in zip(SIDES, pair, strict=True)
        if features is not None
    ]
    player = player_fragment(tracks, title=f"{number}. {caption}", assets=False, attributes=("autoplay",))
    buttons = "".join(f'<button type="button" value="{side}">{side} is the reference</button>' for side in SIDES)
    return (
        f'<section class="trial" data-real="{real}" aria-label="{escape(caption)}">{player}'
        f'<p class="guess">{buttons}<output></output></p></section>'
    )


def tail(count: int, right: int) -> float:
    """Return how likely somebody who guesses has so many of `count` pairs right, or more."""
    return sum(math.comb(count, number) for number in range(right, count + 1)) / 2**count


def enough(count: int) -> int:
    """Return the fewest right answers that guessing reaches in less than one of twenty tries; `count` where none is."""
    return next((right for right in range(count + 1) if tail(count, right) < 0.05), count)


_STARTER = ("the starter pack", "computed by code (no motion capture), ")  # whose captions, how clips were made

_INTRO = """<h1>Which one is the reference?</h1>
<p class="lead-in">{count} captions of {whose}. Of A and B one is the reference, a clip of the test split,
{how}the other what the policy makes of the same caption. Press the one that you take
for the reference; the answer is shown at once.</p>
<p class="sub">Somebody who guesses has {enough} or more of {count} right in {odds} of 100 tries. Drag to turn, scroll
to zoom, space to pause.</p>"""

_STYLE = """
.trial{margin:22px 0 0}
.trial motionkit-player{margin:0}
.guess{display:flex;flex-wrap:wrap;gap:8px 10px;align-items:center;margin:8px 0 0}
.guess button{font:inherit;padding:7px 16px;border:1px solid var(--line);border-radius:16px;background:var(--card);
color:var(--ink);cursor:pointer}
.guess button:disabled{cursor:default;opacity:.55}
.guess button[aria-pressed=true]{opacity:1;border-color:currentColor;font-weight:600}
.guess output{font-weight:600}
.count{position:sticky;bottom:0;margin:22px 0 0;padding:10px 14px;font-weight:600}
@media(max-width:560px){.guess button{flex:1 1 40%;padding:9px 8px}.guess output{flex-basis:100%}}
"""

_SCRIPT = """
(() => {
  'use strict';
  const pairs = [...document.querySelectorAll('.trial')];
  const line = document.querySelector('.count');
  const say = () => {
    const done = pairs.filter((pair) => pair.dataset.guess);
    const right = done.filter((pair) => pair.dataset.guess === pair.dataset.real).length;
    line.textContent = `${right} right of ${done.length} guessed; ${pairs.length - done.length} to go`;
  };
  for (const pair of pairs) {
    const buttons = [...pair.querySelectorAll('.guess button')];
    for (const button of buttons) {
      button.addEventListener('click', () => {
        pair.dataset.guess = button.value;
        for (const each of buttons) each.disabled = true;
        button.setAttribute('aria-pressed', 'true');
        const right = button.value === pair.dataset.real;
        const output = pair.querySelector('output');
        output.className = right ? 'good' : 'bad';
        output.textContent = `${right ? 'Right' : 'Wrong'}: ${pair.dataset.real} is the reference.`;
        say();
      });
    }
  }
  say();
})();
"""


if __name__ == "__main__":
    main()
