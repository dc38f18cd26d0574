"""The same prompts before and after training, side by side in the player, sorted by what they gained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from motionkit.documents import value_at
from motionkit.errors import MotionkitError
from motionkit.page.curves import Chart
from motionkit.page.html import details, grid, note, table
from motionkit.page.wording import count
from motionkit.player import PlayerTrack, player_assets, player_fragment
from motionkit.runs import RunInfo
from motionkit.runs.sections import Section, Sections
from motionkit.runs.source import Source, not_shown
from motionkit.text_to_motion.evaluation.heldout import Shown
from motionkit.text_to_motion.evaluation.points import kept_points, track

_LEGEND = (
    "First sample of each prompt. Under the timeline: the score of each segment as a bar, and when the left and the "
    "right foot touch the floor. Drag to turn, scroll to zoom, space to play; each begins in mid-action."
)
_REAL = "reference clips"

_POINTS = 5
"""Points on the way that are shown, the first and the last among them: as many figures as fit beside each other."""

_OWN = 2
"""Prompts of each run that are shown where several have none in common."""


CHARTS = (
    Chart(
        "Gain since the start",
        {"reward": "heldout/reward/delta", "judge": "heldout/judge/delta"},
        "On held-out prompts. Where the judge, which is never trained on, stops following, the reward is being gamed.",
        zero=True,
    ),
    Chart(
        "Movement, share of reference",
        {"movement": "heldout/movement", "statues": "heldout/statues"},
        "How far the limb swings that moves most in reference clips of the action, as a share of theirs; and the share "
        "of segments in which nothing moves 10 cm.",
        zero=True,
    ),
    Chart(
        "Foot skate, m/s",
        {"train": "physics/skate", "held out": "heldout/physics/skate"},
        "Speed of the feet along the floor while they touch it; lower is better.",
    ),
    Chart(
        "Jerk, m/s³",
        {"train": "physics/jerk", "held out": "heldout/physics/jerk"},
        "Roughness of the motion: far above the start it trembles, far below it has all but stopped.",
    ),
    Chart(
        "Retrieval of 32, %",
        {"R@1": "retrieval/t2m/r1_32", "R@3": "retrieval/t2m/r3_32", "R@10": "retrieval/t2m/r10_32"},
        "Text to motion: how often the true motion is among the first 1, 3 or 10 of 32.",
    ),
    Chart(
        "Retrieval of all, %",
        {"R@1": "retrieval/t2m/r1", "R@3": "retrieval/t2m/r3", "R@10": "retrieval/t2m/r10"},
        "Text to motion among all held-out clips.",
    ),
)
"""Charts of what is logged while training."""


@dataclass(frozen=True)
class _Prompt:
    """One prompt with its motions in the order of the panels, the reference last; `rewards` are without that."""

    text: str
    rewards: Sequence[float]
    tracks: Sequence[PlayerTrack]
    real: float = math.nan

    @property
    def gain(self) -> float:
        return self.rewards[-1] - self.rewards[0]


@dataclass(frozen=True)
class HeldOutMotions:
    """Held-out motions that a run has kept."""

    before: Shown | None  # Before training
    after: Shown | None  # The same prompts after it
    real: Shown | None  # Reference motions of the same actions
    missing: Sequence[str]  # What a reader would expect and is not there, in sentences
    points: Mapping[int, Shown]  # Motions of some other prompts at points on the way, by step


def read_motions(info: RunInfo) -> HeldOutMotions:
    """Read the held-out motions of a run, as far as they are there and whole."""
    shown: dict[str, Shown | None] = {}
    missing = []
    listed = info.record is not None and "heldout" in info.record.artifacts and "rows" not in info.summary
    paired = not (measured := info.summary.get("heldout")) or "reward" in measured  # other trainers keep `after` alone
    ended = info.status == "done"
    for name, wanted in {"before": paired and ended, "after": ended, "real": False}.items():
        file = info.directory / "heldout" / f"{name}.npz"
        shown[name] = None
        if file.exists() or (listed and wanted):
            try:
                shown[name] = Shown.load(file)
            except MotionkitError:
                missing.append(not_shown(file))
    points: dict[int, Shown] = {}
    for step, file in _spread(kept_points(info.directory)).items():
        try:
            points[step] = Shown.load(file)
        except MotionkitError:
            missing.append(not_shown(file))
    return HeldOutMotions(**shown, missing=missing, points=points)


def _spread(files: Mapping[int, Path]) -> dict[int, Path]:
    """Return the first point, the last one and some between them."""
    steps, last = list(files), len(files) - 1
    count = min(_POINTS, len(steps))
    chosen = steps if count == len(steps) else [steps[place * last // (count - 1)] for place in range(count)]
    return {step: files[step] for step in chosen}


def sensitivity(source: Source) -> str:
    """Return what the rewards of a run do not see, as the run itself found before it trained; empty for other runs."""
    recorded = (source.info.record.model_extra or {}).get("sensitivity") if source.info.record else None
    rewards, audit = value_at(recorded, "rewards"), value_at(recorded, "table")
    if not isinstance(rewards, Mapping) or not isinstance(audit, Mapping):
        return ""
    sentences = [words for name in rewards if isinstance(words := value_at(rewards, name, "sentence"), str)]
    columns, rows = audit.get("columns"), audit.get("rows")
    shown = ""
    if isinstance(columns, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        heads = [str(head) for head in columns]
        shown = table(heads, [row[: len(heads)] for row in rows], numbers=range(2, len(heads)))
    words = (
        "Before training, reference clips were changed and scored again. Seen is what the change costs, as a share of "
        "what an unrelated caption costs, with its 95 % interval; a reward that reads no text: in standard deviations "
        "over reference clips. * trained against this change. motionkit eval sensitivity measures all changes. Of the "
        "starter's rewards, the order of events and how often something is done are from the audit in docs/rewards.md."
    )
    paragraphs = "".join(f"<p>{escape(text)}.</p>" for text in sentences)  # each begins with the name of a reward
    return f"<h2>What the reward does not see</h2>{paragraphs}{details('Figures', shown + note(words))}"


def motions(kept: HeldOutMotions) -> str:
    """Return the section of motions; empty where none were kept."""
    shown = {
        name: kept_motions
        for name, kept_motions in (("before", kept.before), ("after", kept.after))
        if kept_motions is not None
    }
    return section(shown, kept.real)


def on_the_way(kept: HeldOutMotions) -> str:
    """Return a player for each prompt whose motions were kept at the points on the way; empty where none were.

    All of them are open until there are motions of the finished policy.
    """
    shown = {f"step {step}" if step else "start": item for step, item in kept.points.items()}
    prompts = _prompts(shown, None) if shown else []
    if not prompts:
        return ""
    words = (
        f"{count(len(prompts), 'held-out prompt').capitalize()} at points of the training, the same noise each time. "
        "A number is the score there, of this sample alone."
    )
    opened = len(prompts) if kept.after is None else 1
    parts = [_player(item, "") for item in prompts[:opened]]
    closed = "".join(details(f"{_figures(item)}  {item.text}", _fragment(item)) for item in prompts[opened:])
    return f"<h2>During training</h2>{note(words)}{player_assets()}{''.join(parts)}{closed}"


def compared(sources: Mapping[str, Source], kept: Mapping[str, HeldOutMotions]) -> str:
    """Return players with the start and each run's motions; where they have no prompt in common, each run's own."""
    shown = {name: motions.after for name, motions in kept.items() if motions.after is not None}
    if not shown:
        return ""
    first = next(iter(kept.values()))
    start = {} if first.before is None else {"before": first.before}
    if len(shown) == len(kept) and _prompts({**start, **shown}, first.real):
        return section({**start, **shown}, first.real)
    if len(shown) == 1:
        why = f"No motions were kept of {', '.join(name for name in kept if name not in shown)}"
    else:
        why = "These runs were measured on different prompts"
        segments = [(source.info.config.get("prompts") or {}).get("k_segments") for source in sources.values()]
        if len(set(segments)) > 1:
            why += f" (prompts.k_segments {', '.join(map(str, segments))})"
    columns = []
    for name, after in shown.items():
        before = kept[name].before
        mine = _prompts({"after": after} if before is None else {"before": before, "after": after}, kept[name].real)
        players = "".join(_player(motions, "") for motions in mine[:_OWN])
        columns.append(f"<div><h3>{escape(name)}</h3>{players or note('Its motions cannot be read.')}</div>")
    words = note(f"{why}, so that each shows the first {count(_OWN, 'prompt')} of its own. {_LEGEND}")
    return f"<h2>Before and after</h2>{words}{player_assets()}{grid(columns)}"


def section(
    shown: Mapping[str, Shown],  # motions by what they are called; the gain is of the last over the first
    real: Shown | None = None,  # reference motions of the same actions; shown beside those of the same texts
) -> str:
    """Return players for the prompts that all of `shown` have: three open, the others closed."""
    if not shown:
        return ""
    prompts = _prompts(shown, real)
    if not prompts:
        return note("No motions are shown: those that were kept cannot be read, or not every one has the prompts.")
    if len(shown) == 1:
        head, opened, others = (
            f"Motions {next(iter(shown))} training",
            dict.fromkeys(range(min(3, len(prompts))), ""),
            "",
        )
        words = f"{count(len(prompts), 'held-out prompt')}. {_LEGEND}"
    else:
        prompts.sort(
            key=lambda prompt: (not math.isfinite(prompt.gain), -prompt.gain if math.isfinite(prompt.gain) else 0.0)
        )
        places = {0: "Best", len(prompts) // 2: "Middle", len(prompts) - 1: "Worst"}
        opened = dict(sorted(places.items())) if len(prompts) > 2 else dict.fromkeys(range(len(prompts)), "")
        head = (
            "Before, after and reference"
            if any(math.isfinite(prompt.real) for prompt in prompts)
            else "Before and after"
        )
        whose = f" of {list(shown)[-1]}" if len(shown) > 2 else ""
        words = f"The first {count(len(prompts), 'held-out prompt')}, sorted by the gain in reward{whose}. {_LEGEND}"
    parts = [_player(prompts[place], label) for place, label in opened.items()]
    rest = [prompt for place, prompt in enumerate(prompts) if place not in opened]
    closed = "".join(details(f"{_figures(prompt)}  {prompt.text}", _fragment(prompt)) for prompt in rest)
    others = f"<h3>The other {count(len(rest), 'prompt')}</h3>{closed}" if rest else ""
    return f"<h2>{head}</h2>{note(words)}{player_assets()}{''.join(parts)}{others}"


def _player(prompt: _Prompt, label: str) -> str:
    tone = "" if len(prompt.rewards) < 2 or not _shown(prompt.gain) else "good" if prompt.gain > 0 else "bad"
    lead = f"{escape(label)}: " if label else ""
    return (
        f'<h3>{lead}<span class="{tone}">{escape(_figures(prompt))}</span> '
        f'<span class="prompt">{escape(prompt.text)}</span></h3>{_fragment(prompt)}'
    )


def _fragment(prompt: _Prompt) -> str:
    """Return a player that begins in mid-action."""
    return player_fragment(prompt.tracks, assets=False, attributes=(f'time="{mid_action(prompt.tracks[-1]):.2f}"',))


def mid_action(track: PlayerTrack) -> float:
    """Return the second at which a figure is farthest from its mean pose, in the middle half of its first segment."""
    end = track.segments[0][2] if track.segments else track.duration
    frames = min(max(1, round(end * track.fps)), track.frames)
    pose = (track.positions[:frames] - track.positions[:frames, :1]).flatten(1)
    distance = (pose - pose.nanmean(0)).square().sum(1).nan_to_num(0.0)
    start = frames // 4
    return (start + int(distance[start : max(start + 1, frames * 3 // 4)].argmax())) / track.fps


def _figures(prompt: _Prompt) -> str:
    known = any(map(math.isfinite, prompt.rewards))
    values = " → ".join(_number(value) for value in prompt.rewards) if known or len(prompt.rewards) < 2 else ""
    gain = f" ({_shown(prompt.gain):+.2f})" if len(prompt.rewards) > 1 and math.isfinite(prompt.gain) else ""
    return f"{values}{gain}{f', reference {prompt.real:.2f}' if math.isfinite(prompt.real) else ''}"


def _shown(gain: float) -> float:
    """Return a gain as it is shown; one that is rounded to zero has no sign."""
    return round(gain, 2) + 0.0 if math.isfinite(gain) else 0.0


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "no reward"


def _prompts(shown: Mapping[str, Shown], real: Shown | None) -> list[_Prompt]:
    first = next(iter(shown.values()))
    prompts = []
    for place, text in enumerate(first.texts):
        rows = {name: motions.texts.index(text) for name, motions in shown.items() if text in motions.texts}
        if len(rows) < len(shown):
            continue
        try:
            titles = {name: name if len(shown) > 1 else f"{name} training" for name in shown}
            tracks = [
                track(titles[name], motions, place if motions is first else rows[name])
                for name, motions in shown.items()
            ]
        except MotionkitError:  # no finite frame, or another body: the table still has its reward
            continue
        rewards = [shown[name].rewards[row] for name, row in rows.items()]
        prompts.append(_beside(_Prompt(text, rewards, tracks), real))
    return prompts


def _beside(prompt: _Prompt, real: Shown | None) -> _Prompt:
    """Return a prompt with the reference motion of its text beside the others, where there is one."""
    if real is None or prompt.text not in real.texts:
        return prompt
    row = real.texts.index(prompt.text)
    try:
        answer = track(_REAL, real, row)
    except MotionkitError:
        return prompt
    return replace(prompt, tracks=[*prompt.tracks, answer], real=real.rewards[row])


def _of(source: Source) -> Section:
    """Return what the rewards do not see, and the motions before and after and on the way."""
    kept = read_motions(source.info)
    looked_at = [motions(kept), on_the_way(kept)]
    if kept.after is None:  # what is new comes first
        looked_at.reverse()
    return Section("".join((sensitivity(source), *looked_at)), kept.missing)


def _compared(sources: Mapping[str, Source]) -> Section:
    """Return the same prompts of several runs side by side."""
    kept = {letter: read_motions(source.info) for letter, source in sources.items()}
    missing = [f"{letter}: {text}" for letter, motions in kept.items() for text in motions.missing]
    return Section(compared(sources, kept), missing)


def _texts(source: Source) -> list[str]:
    """Return the first held-out prompt of a run, of after training where that was kept."""
    kept = read_motions(source.info)
    return [shown.texts[0] for shown in (kept.after, kept.before) if shown is not None]


def _unseen(source: Source) -> list[str]:
    """Return what the audit of a run's rewards found."""
    record = source.info.record
    rewards = value_at((record.model_extra or {}).get("sensitivity") if record else None, "rewards")
    sentences = [value_at(reward, "sentence") for reward in rewards.values()] if isinstance(rewards, Mapping) else []
    return [text for text in sentences if isinstance(text, str)]


SECTIONS = Sections(_of, _compared, _texts, _unseen)
