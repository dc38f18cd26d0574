"""Measure the starter's policy on captions of the test split, beside reference clips and beside the first weights.

    python tests/studies/starter/measure_policy.py             # measure, then write policy.json, the table and the plot
    python tests/studies/starter/measure_policy.py --write     # table and plot of what the two .json files hold

Every caption is sampled once, as `motionkit generate --dataset starter --k-segments 1 --limit 512 OUT` samples it:
nothing is smoothed or chosen afterwards. Clip i of the split shows class i % 144, so that 512 clips show each class
three or four times. About two CPU-minutes. The table goes into motionkit/starter/README.md, between its marks, the plot
into movement.svg beside this file.

first-policy.json holds the same figures of the weights that this repository had first, measured by

    mkdir first
    git show 27763cd:motionkit/starter/weights/mdm/policy.json > first/policy.json
    git show 27763cd:motionkit/starter/weights/mdm/model.safetensors > first/model.safetensors
    python tests/studies/starter/measure_policy.py --checkpoint first --out tests/studies/starter/first-policy.json

`--checkpoint` and `--out` measure any other policy; they write no table and no plot.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit import load_dataset, load_policy
from motionkit.contracts.dataset import TextClip, TextMotionDataset
from motionkit.kernels import physics_sums
from motionkit.metrics import QUIET, frechet, movement, r_precision
from motionkit.motion import MotionBatch
from motionkit.page import drawing
from motionkit.starter import weights_path
from motionkit.text import Prompt
from motionkit.text_to_motion.crops import Crop, encode_clips
from motionkit.text_to_motion.data.real_actions import RealActions
from motionkit.text_to_motion.evaluation.judge import open_judge
from motionkit.text_to_motion.evaluator.files import open_evaluator
from motionkit.text_to_motion.generating import generate_motions, plan_steps
from motionkit.text_to_motion.policy import DiffusionPolicy, guidance_of
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.text_to_motion.tmr.model import TMR

HERE = Path(__file__).resolve().parent
FIRST, NOW = HERE / "first-policy.json", HERE / "policy.json"
PLOT = HERE.parents[2] / "docs" / "media" / "starter-movement.svg"
TABLE = HERE.parents[2] / "motionkit" / "starter" / "README.md"
CAPTIONS = 512
BATCH = 64
BAND = (0.6, 1.5)
"""Shares of the movement of reference clips that count as moving like them."""

FAST = 1.2
"""Times the fastest step of any training or validation clip of a class, above which a step is too fast."""

DRAWS = 20
"""Draws of the batches of 32 that R-precision is the mean of."""

NAMED = 5
"""Classes at either end of the plot that are named."""

ROWS = (
    ("movement", "movement as a share of reference clips, median over the classes", "{:.2f}"),
    ("inside", f"classes between {BAND[0]:g} and {BAND[1]:g}", "{:.0%}"),
    ("statues", "statues", "{:.1%}"),
    ("side", "named side right", "{:.2f}"),
    ("fast", f"frames in which a joint is {FAST:g} times faster than the fastest of its class", "{:.1%}"),
    ("skate", "median skate, m/s", "{:.2f}"),
    ("jerk", "median jerk, m/s^3", "{:.0f}"),
    ("fid", "FID in the judge's space", "{:.2f}"),
    ("judge", "score by the judge", "{:.3f}"),
    ("r_precision_3", "R@3 by the evaluator, batches of 32", "{:.2f}"),
)


def main() -> None:
    """Measure, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", default="starter", help="policy folder or run; default: the starter's policy")
    parser.add_argument("--out", type=Path, help="results of --checkpoint; the starter's go into policy.json")
    parser.add_argument("--captions", type=int, default=CAPTIONS, help="how many captions")
    parser.add_argument("--write", action="store_true", help="write table and plot, and measure nothing")
    asked = parser.parse_args()
    shipped = asked.checkpoint == "starter" and asked.out is None
    if not shipped and (asked.out is None or asked.write):
        parser.error("another policy wants --out FILE, and table and plot are of the starter's policy only")
    if not asked.write:
        torch.set_num_threads(1)
        dataset = load_dataset("starter")
        found = measure(load_policy(asked.checkpoint, dataset=dataset), dataset, asked.captions)
        folder = weights_path("mdm") if asked.checkpoint == "starter" else Path(asked.checkpoint)
        document = {"weights": digest(folder), **found}
        (asked.out or NOW).write_text(json.dumps(document, indent=1) + "\n")
        print("\n".join(table([found], ["policy"])))
    if shipped:
        both = [json.loads(path.read_text()) for path in (FIRST, NOW)]
        write_table(TABLE, table(both, ["the first policy", "policy"]))
        PLOT.write_text(plot(*both))


def digest(folder: Path) -> str:
    """Return the start of the SHA-256 of a policy's weights; empty where the folder has none of that name."""
    path = folder / "model.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


def measure(policy: DiffusionPolicy, dataset: TextMotionDataset, count: int) -> dict[str, Any]:
    """Return every figure of a policy and of the reference clips of the same captions.

    Args:
        policy: What is measured.
        dataset: The starter's dataset.
        count: Captions, from the first of the test split on.

    Returns:
        How it was sampled; ``policy`` and ``real``, figures by the names of `ROWS`; ``classes``, the shares of policy
        and reference clips of each class; ``quiet``, metres of swing of each class whose reference clips swing less
        than `QUIET`.
    """
    ruler = Ruler(dataset, count)
    plan, guidance = plan_steps(policy), guidance_of(policy)
    motions = generated(policy, ruler.prompts)
    real = [clip.features for clip in ruler.clips]
    made, truth = ruler.figures(motions), ruler.figures(real)
    shares, of_real, quiet = ruler.classes(motions), ruler.classes(real), QUIET
    for figures, own in ((made, shares), (truth, of_real)):
        moving = np.array([share for share, size in own.values() if size >= quiet])
        figures["movement"] = float(np.median(moving))
        figures["inside"] = float(np.mean((moving >= BAND[0]) & (moving <= BAND[1])))
    made["fid"], truth["fid"] = frechet(ruler.latents(motions), ruler.latents(real)), 0.0
    return {
        "captions": len(ruler.prompts),
        "steps": len(plan),
        "guidance": guidance,
        "policy": known(made),
        "real": known(truth),
        "classes": {
            name: [round(share, 3), round(of_real[name][0], 3)]
            for name, (share, size) in shares.items()
            if size >= quiet
        },
        "quiet": {
            name: [round(share * size, 4), round(of_real[name][0] * size, 4)]
            for name, (share, size) in shares.items()
            if size < quiet
        },
    }


def known(figures: Mapping[str, float]) -> dict[str, float | None]:
    """Return figures in the order of `ROWS`; None where few captions tell nothing."""
    return {name: figures[name] if math.isfinite(figures[name]) else None for name, _, _ in ROWS}


def generated(policy: DiffusionPolicy, prompts: Sequence[Prompt]) -> list[Tensor]:
    """Return ``[T, D]`` features for each prompt, as ``motionkit generate`` makes them.

    Prompts of similar length are sampled together, which costs less: a motion does not depend on the others.
    """
    order = sorted(range(len(prompts)), key=lambda place: prompts[place].length)
    clips = generate_motions(
        policy, [prompts[place] for place in order], plan_steps(policy), guidance=guidance_of(policy), batch=BATCH
    )
    made = dict(zip(order, clips, strict=True))
    return [made[place].features for place in range(len(prompts))]  # type: ignore[misc]  # generated clips have them


class Ruler:
    """What motions of the first captions of the test split are measured by.

    Args:
        dataset: The starter's dataset.
        count: How many captions.
    """

    def __init__(self, dataset: TextMotionDataset, count: int) -> None:
        self.dataset = dataset
        self.clips = dataset.clips("test")[:count]
        self.prompts = dataset.prompts("test", k_segments=1)[:count]
        self.names = [dataset.action(prompt.segments[0]) for prompt in self.prompts]  # type: ignore[attr-defined]
        self.actions = RealActions(
            dataset.clips("train"),
            dataset.skeleton,
            dataset.fps,
            action=dataset.action,  # type: ignore[attr-defined]
        )
        self.judge = open_judge(None, dataset, device=torch.device("cpu"))[0]
        self.evaluator = open_evaluator().requires_grad_(False)
        self.fastest = self._fastest()

    @torch.no_grad()
    def figures(self, motions: Sequence[Tensor]) -> dict[str, float]:
        """Return the figures that are means or medians over the motions; one motion for each caption."""
        mix = RewardMix([(self.judge, 1.0)])  # type: ignore[list-item]  # starter data have a judge
        columns: dict[str, list[Tensor]] = {}
        for rows, batch in self._batches(motions):
            asked = [self.prompts[row] for row in rows]
            moving = self.actions.measure(batch, asked)
            skate, jerk = physics_sums(batch.joints, batch.lengths, fps=batch.fps, feet=batch.skeleton.feet)
            limits = torch.tensor([self.fastest[self.names[row]] for row in rows])
            found = {
                "statues": moving["statues"],
                "side": moving["side"],
                "fast": torch.cat([one > FAST * limit for one, limit in zip(steps(batch), limits, strict=True)]),
                "skate": skate,
                "jerk": jerk,
                "judge": mix.score(batch, asked).total,
            }
            for name, values in found.items():
                columns.setdefault(name, []).append(values.double())
        whole = {name: torch.cat(values) for name, values in columns.items()}
        middle = {name: float(whole[name].median()) for name in ("skate", "jerk")}
        mean = {name: float(whole[name].nanmean()) for name in ("statues", "side", "fast", "judge")}
        return {**middle, **mean, "r_precision_3": self._r_precision(motions)}

    @torch.no_grad()
    def classes(self, motions: Sequence[Tensor]) -> dict[str, tuple[float, float]]:
        """Return, for each class, how far its motions swing as a share of reference clips, and the metres of those."""
        swings: dict[str, list[float]] = {}
        sizes = {}
        for rows, batch in self._batches(motions):
            moved = movement(batch.joints, batch.headings, batch.lengths, batch.fps)
            for row, own in zip(rows, moved, strict=True):
                real = self.actions.of(self.prompts[row].segments[0])
                swings.setdefault(self.names[row], []).append(float(own[real.joint]))
                sizes[self.names[row]] = real.movement
        return {name: (float(np.mean(swings[name])) / size, size) for name, size in sizes.items()}

    @torch.no_grad()
    def latents(self, motions: Sequence[Tensor]) -> Tensor:
        """Return the motions ``[N, D]`` in the judge's space."""
        tmr: TMR = self.judge.space  # type: ignore[union-attr]
        found = []
        for _, batch in self._batches(motions):
            crops = [Crop(row, 0, length) for row, length in enumerate(batch.lengths.tolist())]
            found.append(tmr.encode_crops(batch.features, crops).mu)
        return torch.cat(found)

    def _r_precision(self, motions: Sequence[Tensor]) -> float:
        """Return how often the evaluator finds a caption's own motion among the first 3 of 32; NaN below 32 motions."""
        if len(motions) < 32:
            return math.nan
        text = self.evaluator.encode_texts([prompt.text for prompt in self.prompts])
        own = encode_clips(self.evaluator, list(motions))
        drawn = [torch.randperm(len(own), generator=torch.Generator().manual_seed(seed)) for seed in range(DRAWS)]
        return float(np.mean([float(r_precision(text[order], own[order])[2]) for order in drawn]))

    def _batches(self, motions: Sequence[Tensor]) -> Iterator[tuple[range, MotionBatch]]:
        for first in range(0, len(motions), BATCH):
            part = list(motions[first : first + BATCH])
            lengths = torch.tensor([len(one) for one in part])
            padded = pad_sequence(part, batch_first=True)
            batch = MotionBatch(padded, lengths, skeleton=self.dataset.skeleton, fps=self.dataset.fps)
            yield range(first, first + len(part)), batch

    def _fastest(self) -> dict[str, float]:
        """Return the fastest step of a joint in any training or validation clip of each class, m/s."""
        wanted, found = set(self.names), dict.fromkeys(self.names, 0.0)
        clips: list[tuple[str, TextClip]] = []
        for split in ("train", "val"):
            for clip in self.dataset.clips(split):  # type: ignore[arg-type]
                name = self.dataset.action(clip.captions[0])  # type: ignore[attr-defined]
                if name in wanted:
                    clips.append((name, clip))
        for rows, batch in self._batches([clip.features for _, clip in clips]):
            for row, speeds in zip(rows, steps(batch), strict=True):
                found[clips[row][0]] = max(found[clips[row][0]], float(speeds.max()))
        return found


def steps(motions: MotionBatch) -> list[Tensor]:
    """Return for each motion the speed of its fastest joint in every step, ``[T - 1]`` m/s."""
    speeds = motions.joints.diff(dim=1).norm(dim=-1).amax(-1) * motions.fps
    return [row[: length - 1] for row, length in zip(speeds, motions.lengths.tolist(), strict=True)]


def table(results: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """Return a table with a column for each policy, and the reference clips of the last one."""
    last = results[-1]
    lines = [f"| {last['captions']} test captions | {' | '.join(names)} | reference |", "|--" * (len(names) + 2) + "|"]
    for key, words, form in ROWS:
        values = [*(result["policy"][key] for result in results), last["real"][key]]
        cells = ["" if value is None else form.format(value).replace("%", " %") for value in values]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return lines


def write_table(page: Path, lines: Sequence[str]) -> None:
    """Put a table between the marks of a page."""
    head, _, rest = page.read_text().partition("<!-- policy -->\n")
    _, _, tail = rest.partition("<!-- end of policy -->\n")
    assert tail, f"{page} has no marks"
    page.write_text(f"{head}<!-- policy -->\n" + "\n".join(lines) + f"\n<!-- end of policy -->\n{tail}")


def plot(first: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return a drawing: a dot for each class, before and now, as a share of the movement of reference clips.

    Classes stand from the one that moves least now to the one that moves most; those whose reference clips hardly move
    stand apart on the right, in centimetres, as a share of so little says nothing.
    """
    width, height, left, top, floor, apart, most = 760, 376, 44, 48, 318, 150, 2.0
    order = sorted(now["classes"], key=lambda name: now["classes"][name][0])
    quiet = sorted(now["quiet"], key=lambda name: now["quiet"][name][0])
    end = width - apart if quiet else width - 20
    parts = []

    def up(share: float) -> float:
        return floor - min(share, most) / most * (floor - top)

    def across(place: float, count: int, start: float, stop: float) -> float:
        return start + (place + 0.5) / max(count, 1) * (stop - start)

    low, high = up(BAND[0]), up(BAND[1])
    parts.append(f'<rect x="{left}" y="{high:.1f}" width="{end - left}" height="{low - high:.1f}" style="{_SHADE}"/>')
    for share in (0.0, 0.5, 1.0, 1.5, 2.0):
        parts.append(_line("grid" if share != 1 else "rule", left, up(share), end))
        parts.append(_text(left - 6, up(share) + 4, f"{share:g}", "end"))
    for result, kind, named in ((first, "c7", "before"), (now, "c2", "now")):
        shares = [result["classes"][name][0] for name in order]
        middle = float(np.median(shares))
        for place, (name, share) in enumerate(zip(order, shares, strict=True)):
            tip = f"{name}, {named}: {share:.2f} of reference"
            parts.append(_dot(kind, across(place, len(order), left, end), up(share), tip, share > most))
        parts.append(f'<line class="curve {kind}" x1="{left}" x2="{end}" y1="{up(middle):.1f}" y2="{up(middle):.1f}"/>')
        words = f"{named}: median {middle:.2f}"
        parts.append(_text(end - 4 if named == "before" else left + 6, up(middle) - 5, words, _ENDS[named], "note"))
    parts.append(_text(left, 18, "movement of each class, as a share of reference clips", "start", "axis"))
    parts.append(_text(left, 34, f"shaded: {BAND[0]:g} to {BAND[1]:g}; triangles: above {most:g}"))
    middle = (left + end) / 2
    parts.append(_text(middle, floor + 18, f"{len(order)} classes, by what they move now", "middle", "axis"))
    parts.append(_text(left, floor + 36, f"least: {', '.join(order[:NAMED])}"))
    parts.append(_text(left, floor + 50, f"most: {', '.join(order[: -NAMED - 1 : -1])}"))
    if quiet:
        parts.extend(_quiet(first, now, quiet, (end + 46, width - 12), (top, floor)))
    said = f"median over {len(order)} classes {np.median([now['classes'][name][0] for name in order]):.2f}"
    chart = (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Movement of each class as a share of reference '
        f'clips, before and now; {said}.">{"".join(parts)}</svg>'
    )
    return drawing(chart, width=width)


def _quiet(
    first: Mapping[str, Any],
    now: Mapping[str, Any],
    names: Sequence[str],
    sides: tuple[float, float],
    ends: tuple[float, float],
) -> list[str]:
    """Return the dots of the classes whose reference clips hardly move, over an axis of centimetres."""
    (start, stop), (top, floor) = sides, ends
    series = [(first, "c7", 0, "before"), (now, "c2", 0, "now"), (now, "control", 1, "reference")]
    most = max(
        1.0, math.ceil(100 * max(result["quiet"][name][place] for result, _, place, _ in series for name in names))
    )
    parts = []
    for size in range(0, int(most) + 1, max(1, int(most) // 4)):
        level = floor - size / most * (floor - top)
        parts += [_line("grid", start, level, stop), _text(start - 6, level + 4, f"{size}", "end")]
    for result, kind, place, named in series:
        for number, name in enumerate(names):
            size = 100 * result["quiet"][name][place]
            x = start + (number + 0.5) / len(names) * (stop - start)
            level = floor - size / most * (floor - top)
            if named == "reference":
                parts.append(
                    f'<line class="tick" x1="{x - 4:.1f}" x2="{x + 4:.1f}" y1="{level:.1f}" y2="{level:.1f}"/>'
                )
            else:
                parts.append(_dot(kind, x, level, f"{name}, {named}: {size:.1f} cm", False))
    parts.append(_text(stop, 18, f"{len(names)} that hardly move", "end", "axis"))
    parts.append(_text(stop, 34, "swing in cm; bars: reference", "end"))
    parts.append(_text(stop, floor + 18, ", ".join(names[:2]), "end"))
    return parts


_SHADE = "fill:var(--good);opacity:.13"
_ENDS = {"before": "end", "now": "start"}


def _line(kind: str, x1: float, y: float, x2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _dot(kind: str, x: float, y: float, tip: str, beyond: bool) -> str:
    """Return a dot with a tooltip; a triangle where its value lies beyond the axis."""
    if beyond:
        corners = f"{x:.1f},{y - 4:.1f} {x - 3.5:.1f},{y + 3:.1f} {x + 3.5:.1f},{y + 3:.1f}"
        return f'<polygon class="dot {kind}" points="{corners}"><title>{escape(tip)}</title></polygon>'
    return f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y:.1f}" r="2.6"><title>{escape(tip)}</title></circle>'


if __name__ == "__main__":
    main()
