"""`motionkit sa2va-rl --check`: whether a run can learn from its policy, data and rewards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor, nn

from motionkit.nn import EMA
from motionkit.rl import RowNoise, categorical
from motionkit.training.base import Checked
from motionkit_regions.evaluation.measure import Task, as_it_is
from motionkit_regions.meteor.score import Meteor
from motionkit_regions.policy import RegionPolicy
from motionkit_regions.self_play.loop import Loop, Played, Turn
from motionkit_regions.self_play.play import LoopRewards, roll_out
from motionkit_regions.self_play.settings import Sa2vaRlSettings

REGIONS = 8
"""Regions that are checked."""

_PACKAGES = ("torch", "transformers", "peft", "nltk")
_METEOR = {
    ("the couch is near the window", "the sofa is near the window"): 0.9976851851851852,
    ("two dogs are running", "two dogs are running"): 0.9921875,
    ("a red circle", "a blue square"): 0.16666666666666666,
}
"""Pairs with the score of nltk 3.10 and WordNet 3.0."""

_SAME = 0.98  # share of words that must be drawn again from the scores of the training pass; bfloat16 rounds the rest
_OF_LOOP = {"loop1": ("mlp1", "language_model"), "loop2": ("text_hidden_fcs",)}
"""Parts that the gradient of each built-in loop must reach."""

Groups = Mapping[str, Sequence[tuple[str, nn.Parameter]]]


class Preflight:
    """Checks a prepared trainer."""

    def __init__(
        self,
        settings: Sa2vaRlSettings,
        policy: RegionPolicy,
        groups: Groups,  # parameters to train by the name of their part
        loops: Mapping[str, Loop],
        rewards: Mapping[str, LoopRewards],
        task: Task,  # some regions
    ) -> None:
        self._settings, self._policy, self._groups = settings, policy, groups
        self._loops, self._rewards, self._task = loops, rewards, task

    def run(self) -> Iterator[Checked]:
        """Yield the results, one check after the other."""
        yield versions()
        yield self._regions()
        yield self._masks_count()
        yield self._scores()
        yield from (Checked(*result) for result in self._policy.checks())
        yield meteor()
        yield self._swap()
        for name in self._loops:
            yield self._spread(name)
        reached: set[str] = set()
        for name in self._loops:
            gradient, groups = self._gradients(name)
            reached |= groups
            yield gradient
        left = [group for group in self._groups if group not in reached]
        text = f"no loop reaches the {', '.join(left)}; it stays as it is" if left else "each is reached by a loop"
        yield Checked("trained parts", bool(reached), text)

    def _regions(self) -> Checked:
        cells = self._task.masks.flatten(1).sum(1)
        empty = int((cells == 0).sum())
        height, width = self._policy.mask_size
        text = f"{len(cells)} regions cover {int(cells.min())} to {int(cells.max())} of {height} x {width} pixels"
        return Checked("regions", not empty, f"{empty} of {len(cells)} masks are empty" if empty else text)

    @torch.no_grad()
    def _masks_count(self) -> Checked:
        """Score the same words for a region and for its complement."""
        task, policy = self._task, self._policy
        ids = policy.encode(task.captions)
        inside, outside = (policy.score_words(task.seen, masks, ids).log_prob for masks in (task.masks, ~task.masks))
        gaps = (inside - outside).abs().amax(1)
        odd, blind = int((~gaps.isfinite()).sum()), int((gaps == 0).sum())
        text = f"log-probabilities move by {float(gaps.min()):.2g} to {float(gaps.max()):.2g} with the mask"
        if blind:
            text = f"{blind} of {len(gaps)} regions change nothing"
        if odd:
            text = f"log-probabilities of {odd} of {len(gaps)} regions are not finite"
        return Checked("mask prompts are read", not blind and not odd, text)

    @torch.no_grad()
    def _scores(self) -> Checked:
        """Sample captions, and sample their words again with the same noise from the scores of the training pass."""
        task, policy, temperature = self._task, self._policy, self._settings.rollout.temperature
        noise = self._noise(0, len(task.captions)).uniform(policy.longest)
        captions = policy.sample_captions(task.seen, task.masks, temperature=temperature, noise=noise)
        scores = policy.score_words(task.seen, task.masks, captions.ids, temperature=temperature, whole=True)
        assert scores.whole is not None
        again = categorical(scores.whole.flatten(0, 1), noise[:, : captions.ids.shape[1]].flatten()).view_as(
            captions.ids
        )
        inside = scores.mask
        words, same = int(inside.sum()), int(((again == captions.ids) & inside).sum())
        text = f"{same} of {words} words are drawn again from the log-probabilities of training"
        cut = int((~captions.ended).sum())
        text += f"; {cut} captions were cut" if cut else ""
        # Words that are drawn from NaN are the same words again.
        odd = int((~scores.log_prob.isfinite() & inside).sum())
        if odd:
            text = f"log-probabilities of {odd} of {words} words are not finite"
        return Checked("log-probabilities", words > 0 and not odd and same >= _SAME * words, text)

    @torch.no_grad()
    def _swap(self) -> Checked:
        """Swap other weights in and out again."""
        named = [pair for group in self._groups.values() for pair in group]
        kept = {name: parameter.detach().clone() for name, parameter in named}
        teacher = EMA(named, 0.0)
        for _, parameter in named:
            parameter.add_(1.0)
        moved = {name: parameter.detach().clone() for name, parameter in named}
        with teacher.applied():
            inside = all(torch.equal(parameter, kept[name]) for name, parameter in named)
        outside = all(torch.equal(parameter, moved[name]) for name, parameter in named)
        for name, parameter in named:
            parameter.copy_(kept[name])
        text = f"{len(named):,} tensors go in and come back bit for bit"
        return Checked(
            "partner's weights", inside and outside, text if inside and outside else "they come back changed"
        )

    def _spread(self, name: str) -> Checked:
        """Play a loop for whole groups, and check the variance of the rewards."""
        group = self._settings.rollout.group_size
        rows = self._task.repeated(group)
        scored = roll_out(
            name, self._loops[name], self._rewards[name], rows, self._turn(name, len(rows.captions)), group=group,
            floor=self._settings.objective.std_floor,
        )  # fmt: skip
        metrics, parts = scored.metrics, scored.scores.parts
        dead, mean, std = (metrics[f"{name}/{key}"] for key in ("zero_std_frac", "reward_mean", "reward_std"))
        shares = ", ".join(f"{part} {metrics[f'{name}/reward/{part}']:.3f}" for part in parts)
        text = f"reward {mean:.3f} ({shares}), spread {std:.3f} in a group; {dead:.0%} of the groups have none"
        if (cycle := metrics.get(f"{name}/cycle_iou")) is not None:
            text = f"cycle IoU {cycle:.3f}, {text}"
        # What is paid for words alone has a spread where nothing is seen and nothing is drawn.
        task = [parts[part].view(-1, group) for part in self._rewards[name].of_task]
        flat = float(torch.stack([(part == part[:, :1]).all(1) for part in task]).all(0).float().mean()) if task else 0
        if task:
            text += f", by {' and '.join(self._rewards[name].of_task)} alone {flat:.0%}"
        odd = int((~scored.scores.finite).sum())
        if odd:
            text += f"; {odd} of {len(scored.rewards)} rewards are not finite"
        return Checked(f"{name} has something to learn from", dead < 1 and flat < 1 and not odd, text)

    def _gradients(self, name: str) -> tuple[Checked, set[str]]:
        """Send a gradient through a loop, and list the parts that it reaches."""
        rows = self._first(2).repeated(2)
        named = [pair for group_parameters in self._groups.values() for pair in group_parameters]
        for _, parameter in named:
            parameter.grad = None
        played = self._loops[name].play(rows, self._turn(name, len(rows.captions)))
        objective = _objective(played, len(rows.captions))
        objective.backward()
        moved = {key for key, p in named if p.grad is not None and bool(p.grad.abs().sum() > 0)}
        finite = bool(objective.detach().isfinite())  # a constant that is not finite has a finite gradient
        finite &= all(p.grad is None or bool(torch.isfinite(p.grad).all()) for _, p in named)
        reached = {
            group
            for group, group_parameters in self._groups.items()
            if any(key in moved for key, _ in group_parameters)
        }
        parts = tuple(_OF_LOOP.get(name, ()))
        expected = {
            group
            for group, group_parameters in self._groups.items()
            if any(key.startswith(parts) for key, _ in group_parameters)
        }
        for _, parameter in named:
            parameter.grad = None
        missing = sorted(expected - reached)
        text = f"reaches {', '.join(group for group in self._groups if group in reached) or 'nothing'}"
        text += f"; not {', '.join(missing)}" if missing else ""
        return Checked(f"gradient of {name}", bool(reached) and not missing and finite,
                       text if finite else f"{text}; it is not finite"), reached  # fmt: skip

    def _first(self, count: int) -> Task:
        task = self._task
        index = torch.arange(min(count, len(task.captions)), device=task.masks.device)
        return Task(task.seen.select(index), task.masks[index], task.captions[:count])

    def _turn(self, name: str, rows: int) -> Turn:
        with torch.no_grad():
            measured = self._loops[name].measure(self._task)
        place = 1 + list(self._loops).index(name)
        return Turn(
            as_it_is, as_it_is, self._noise(place, rows), self._settings.rollout.temperature, measured
        )  # fmt: skip

    def _noise(self, place: int, rows: int) -> RowNoise:
        return RowNoise((self._settings.seed, 0, place), rows, device=self._policy.device)


def _objective(played: Played, rows: int) -> Tensor:
    """Return a scalar with the gradients of a loop's loss, without advantages, which could cancel."""
    if played.direct is not None:
        return played.direct(torch.zeros(rows, device=played.made.masks.masks.device)).sum()
    terms = played.terms()
    return (terms.log_ratio * terms.mask).sum()


def versions() -> Checked:
    """Report the versions of the packages that the result depends on."""
    parts = []
    for name in _PACKAGES:
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            parts.append(f"no {name}")
    return Checked("versions", not any(part.startswith("no ") for part in parts), ", ".join(parts))


def meteor() -> Checked:
    """Score pairs whose METEOR is known."""
    score = Meteor()
    gaps = [abs(score(text, [reference]) - value) for (text, reference), value in _METEOR.items()]
    return Checked(
        "METEOR", all(gap < 1e-9 for gap in gaps), f"{len(gaps)} known pairs differ by {max(gaps):.1g} at most"
    )
