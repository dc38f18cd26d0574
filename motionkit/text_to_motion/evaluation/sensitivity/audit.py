"""The audit: clips are scored as they are, after each change, and with unrelated captions.

A `Figure` says how much of a change a reward sees: a ratio of means, with an interval over resampled clips.
`motion_alone` and `text_alone` are classifiers that see the changed part without the other one. A reward should compare
a motion with a text; if one of them is enough to detect a change, the reward may have learnt that instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion import Skeleton, feature_layout
from motionkit.rl import stable_hash
from motionkit.text import KINDS, Prompt, is_english, kinds_of, words_of
from motionkit.text_to_motion.evaluation.sensitivity.bench import SOURCES, Audited, Bench, Clips, Example, Row, Scores

PLAIN = "none of these"  # the kind of English captions that name nothing besides the action
_UNKNOWN = frozenset({"not English"})  # the kind of other captions without a known word
FEWEST = 20  # clips from which a classifier is trained
_FOLDS = 5  # of the classifiers' cross-validation
_RIDGE = 0.1  # weight of the squared norm, in units of the mean squared value of a feature
_RESAMPLES = 1000  # of the interval of a figure
_MANY = 2000  # clips from which fewer resamples are enough
_APART = 1e-9  # differences of scores up to this count as none


@dataclass(frozen=True)
class Figure:
    """The sensitivity of a reward to a change."""

    real: float  # mean score of the clips
    changed: float  # mean score of the changed ones
    unrelated: float  # mean score of the clips with captions of other actions
    # ``(real - changed) / (real - unrelated)``: 1 if the change costs as much as an unrelated caption, 0 if it costs
    # nothing; NaN if unrelated captions score no less.
    seen: float
    ci95: tuple[float, float]  # percentile bootstrap interval of `seen` over clips
    fall: float  # ``real - changed`` in standard deviations over reference clips, for rewards that read no text
    told: float  # share of the clips that score higher than their change; a tie counts half
    n: int

    def document(self) -> dict[str, object]:
        """Return the figures as ``--json`` has them; NaN becomes None."""
        numbers = {
            "seen": self.seen, "real": self.real, "changed": self.changed, "unrelated": self.unrelated,
            "fall_in_std": self.fall, "told_apart": self.told,
        }  # fmt: skip
        low, high = (_known(value) for value in self.ci95)
        return {"n": self.n, **{key: _known(value) for key, value in numbers.items()}, "ci95": [low, high]}


@dataclass(frozen=True)
class Columns:
    """Scores of one reward, of one row."""

    real: Scores  # [n] scores of the clips with their captions
    changed: Scores  # [n] scores after the change
    unrelated: Scores  # [n] scores with captions of other actions
    std: float = float("nan")  # standard deviation of the reward over reference clips
    reads_text: bool = True  # whether captions matter to the reward

    def figure(self, keep: NDArray[np.bool_] | None = None) -> Figure:
        """Return the figure over the clips that `keep` (``[n]``, all by default) marks."""
        valid = np.isfinite(self.real) & np.isfinite(self.changed)
        if self.reads_text:
            valid &= np.isfinite(self.unrelated)
        valid = valid if keep is None else valid & keep
        real, changed = self.real[valid], self.changed[valid]
        away = self.unrelated[valid] if self.reads_text else real
        n, nan = len(real), float("nan")
        if not n:
            return Figure(nan, nan, nan, nan, (nan, nan), nan, nan, 0)
        fall, scale = real - changed, real - away
        told = float(((fall > 0) + 0.5 * (fall == 0)).mean())
        in_std = float(fall.mean()) / self.std if self.std > _APART else nan
        means = float(real.mean()), float(changed.mean()), float(away.mean())
        if not self.reads_text or scale.mean() <= _APART:
            return Figure(*means, nan, (nan, nan), in_std, told, n)
        tops, bottoms = (_counts(n) @ np.stack([fall, scale], axis=1) / n).T
        ratios = tops[bottoms > _APART] / bottoms[bottoms > _APART]
        low, high = (float(end) for end in np.quantile(ratios, [0.025, 0.975])) if len(ratios) > 1 else (nan, nan)
        return Figure(*means, float(fall.mean() / scale.mean()), (low, high), in_std, told, n)

    def tells_apart(self) -> bool:
        """Whether the clips score higher with their captions than with unrelated ones, by two standard errors."""
        scale = (self.real - self.unrelated)[np.isfinite(self.real) & np.isfinite(self.unrelated)]
        return len(scale) > 1 and bool(scale.mean() > max(2.0 * scale.std(ddof=1) / np.sqrt(len(scale)), 0.0))

    def share(self, keep: NDArray[np.bool_]) -> tuple[float, int]:
        """Return the share seen over a few of the clips, and their number.

        Their mean fall is divided by the mean ``real - unrelated`` of all clips of the row, because that of a few clips
        is too uncertain.
        """
        valid = np.isfinite(self.real) & np.isfinite(self.changed) & np.isfinite(self.unrelated)
        scale = float((self.real - self.unrelated)[valid].mean()) if valid.any() else 0.0
        selected = valid & keep
        fall = float((self.real - self.changed)[selected].mean()) if selected.any() else float("nan")
        return (fall / scale if scale > _APART else float("nan")), int(selected.sum())


@lru_cache(maxsize=64)
def _counts(n: int) -> NDArray[np.uint16]:
    """Return how often each of `n` clips is drawn in each resample, ``[resamples, n]``."""
    size = _RESAMPLES if n <= _MANY else _RESAMPLES // 5
    return np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), size=size).astype(np.uint16)


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


@dataclass(frozen=True)
class Measured:
    """One row of an audit."""

    row: Row
    examples: tuple[Example, ...]
    columns: Mapping[str, Columns]  # scores by reward
    # How often a classifier detects a changed motion without its caption, or a changed caption without its motion;
    # chance is 0.5, NaN if there are few clips or no classifier was trained.
    alone: float = float("nan")

    @property
    def n(self) -> int:
        """Number of clips."""
        return len(self.examples)


@dataclass(frozen=True)
class Audit:
    """The sensitivity of rewards to changes of clips."""

    names: tuple[str, ...]  # the rewards, and their weighted sum
    rows: tuple[Measured, ...]  # the rows that have clips
    missing: Mapping[str, str]  # why other rows have none
    actions: tuple[str, ...]  # action of each clip, empty if it is unknown
    kinds: Mapping[str, frozenset[str]]  # by reward, the changes that it was trained against
    reads_text: Mapping[str, bool]  # by reward, whether captions change its scores
    constant: frozenset[str]  # rewards that return the same value for everything
    dead: frozenset[str] = frozenset()  # rewards without a finite score
    # By reward and caption, why the caption could not be scored.
    unread: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    _figures: dict[tuple[str, str, str], Figure] = field(default_factory=dict, repr=False, compare=False)
    _named: dict[str, frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

    def figure(self, row: Measured, name: str) -> Figure:
        """Return a row's figure over all its captions."""
        return self._of_kind(row, name, "")

    def by_kind(self, row: Measured, name: str) -> dict[str, Figure]:
        """Return a row's figures by kind of caption; English captions of no kind are `PLAIN`."""
        result = {kind: self._of_kind(row, name, kind) for kind in (*KINDS, PLAIN)}
        return {kind: figure for kind, figure in result.items() if figure.n}

    def _of_kind(self, row: Measured, name: str, kind: str) -> Figure:
        key = row.row.name, name, kind
        if key not in self._figures:
            keep = None
            if kind:
                named = [self._kinds_of(example.caption) for example in row.examples]
                keep = np.array([not kinds if kind == PLAIN else kind in kinds for kinds in named], dtype=bool)
            self._figures[key] = row.columns[name].figure(keep)
        return self._figures[key]

    def _kinds_of(self, caption: str) -> frozenset[str]:
        if caption not in self._named:
            self._named[caption] = kinds_of(caption) or (frozenset() if is_english(caption) else _UNKNOWN)
        return self._named[caption]

    def by_action(self, row: Measured, name: str) -> dict[str, tuple[float, int]]:
        """Return the share seen and the number of clips by action if actions are known; see `Columns.share`."""
        actions = np.array([self.actions[example.place] for example in row.examples])
        return {action: row.columns[name].share(actions == action) for action in sorted(set(actions.tolist()) - {""})}


def audit(
    clips: Clips,
    audited: Sequence[Audited],
    *,
    device: torch.device,
    limit: int = 0,  # most clips of a row; 0 takes all that the change applies to
    rows: Sequence[str] = (),  # names of `SOURCES`; empty for all
    seed: int = 0,  # seed of random changes
    classify: bool = False,  # also train the classifiers of `Measured.alone`
    progress: Callable[[int], None] | None = None,  # called with 1 after each row
) -> Audit:
    """Change reference clips and score them."""
    bench = Bench(audited, clips.skeleton, clips.fps, device)
    known: dict[tuple[Prompt, int], dict[str, float]] = {}
    chosen = {name: source for name, source in SOURCES.items() if not rows or name in rows}
    scored: list[tuple[Row, tuple[Example, ...], tuple[dict[str, Scores], ...]]] = []
    missing: dict[str, str] = {}
    for name, source in chosen.items():
        generator = torch.Generator().manual_seed(stable_hash(f"sensitivity {seed} {name}") % 2**63)
        examples = tuple(source.examples(clips, generator, limit))
        try:
            changed = _changed(bench, examples)
        except MotionkitError:
            if source.row.family != "text":
                raise
            examples = _readable(bench, examples)
            changed = _changed(bench, examples)
        if examples:
            real = _cached(bench, known, examples, [example.own for example in examples])
            away = _cached(bench, known, examples, [example.unrelated for example in examples])
            scored.append((source.row, examples, (real, changed, away)))
        else:
            missing[name] = _why_not(clips, source.row)
        if progress is not None:
            progress(1)
    reads = {name: any(_differ(real[name], away[name]) for _, _, (real, _, away) in scored) for name in bench.names}
    spread = {name: _std([scores[0][name] for _, _, scores in scored]) for name in bench.names}
    dead = {
        name
        for name in bench.names
        if scored and not any(np.isfinite(real[name]).any() for _, _, (real, _, _) in scored)
    }
    same = {
        name
        for name in bench.names
        if not reads[name]
        and name not in dead
        and not any(_differ(real[name], changed[name]) for _, _, (real, changed, _) in scored)
        and not spread[name] > 0
    }
    measured = [
        Measured(
            row,
            examples,
            {name: Columns(real[name], changed[name], away[name], spread[name], reads[name]) for name in bench.names},
            _alone(row, examples, clips) if classify else float("nan"),
        )
        for row, examples, (real, changed, away) in scored
    ]
    kinds = {item.name: item.kinds for item in audited}
    return Audit(
        tuple(bench.names),
        tuple(measured),
        missing,
        tuple(clips.actions),
        kinds,
        reads,
        frozenset(same),
        frozenset(dead),
        {name: reasons for name, reasons in bench.unread.items() if reasons},
        tuple(_notes(clips, bench)),
    )


def _changed(bench: Bench, examples: Sequence[Example]) -> dict[str, Scores]:
    return bench.score([example.changed for example in examples], [example.asked for example in examples])


def _readable(bench: Bench, examples: tuple[Example, ...]) -> tuple[Example, ...]:
    """Return the examples whose changed captions can be encoded; stored embeddings exist for few captions."""
    result = []
    for example in examples:
        try:
            _changed(bench, [example])
        except MotionkitError:
            continue
        result.append(example)
    return tuple(result)


def _cached(
    bench: Bench, known: dict[tuple[Prompt, int], dict[str, float]], examples: Sequence[Example], asked: list[Prompt]
) -> dict[str, Scores]:
    """Return the scores of unchanged clips, each scored once."""
    keys = [(prompt, example.place) for example, prompt in zip(examples, asked, strict=True)]
    new = [place for place, key in enumerate(keys) if key not in known]
    if new:
        scores = bench.score([examples[place].real for place in new], [asked[place] for place in new])
        for number, place in enumerate(new):
            known[keys[place]] = {name: float(values[number]) for name, values in scores.items()}
    return {name: np.array([known[key][name] for key in keys]) for name in bench.names}


def _alone(row: Row, examples: Sequence[Example], clips: Clips) -> float:
    if row.family == "text" or row.name == "other-wording":
        return text_alone(examples)
    return motion_alone(examples, clips.skeleton)


def _differ(first: Scores, second: Scores) -> bool:
    both = np.isfinite(first) & np.isfinite(second)
    return bool(both.any()) and not np.allclose(first[both], second[both], rtol=1e-6, atol=1e-9)


def _std(columns: Sequence[Scores]) -> float:
    """Return the standard deviation over reference clips, of the row with the most clips."""
    values = max((column[np.isfinite(column)] for column in columns), key=len, default=np.empty(0))
    return float(values.std()) if len(values) > 1 and np.ptp(values) > 0 else float("nan")


def _why_not(clips: Clips, row: Row) -> str:
    texts = [text for captions in clips.captions for text in captions]
    if row.family in ("text", "tempo") and not any(map(is_english, texts)):
        return "captions are not English"
    return f"no clip fits: {row.where}" if row.where else "no clip fits"


def _notes(clips: Clips, bench: Bench) -> list[str]:
    texts = [text for captions in clips.captions for text in captions]
    foreign = [text for text in texts if not is_english(text)]
    notes = []
    if clips.left_out:
        notes.append(f"{clips.left_out} clips without a caption, or of one frame, are left out")
    if foreign:
        who = "no caption is" if len(foreign) == len(texts) else f"{len(foreign)} of {len(texts)} captions are not"
        notes.append(
            f"{who} English: tempo, direction, count and order are recognised in English words only, sides in English "
            "and Chinese ones"
        )
    for name, why in bench.unread.items():
        if why:
            text, reason = next(iter(why.items()))
            message = reason if repr(text) in reason else f"{text!r}: {reason}"
            notes.append(f"{name} cannot read {len(why)} captions, which are left out: {message}")
    for name, lost in bench.not_finite.items():
        notes.append(f"{name} gave no finite score {lost} times; these are left out")
    return notes


def motion_alone(examples: Sequence[Example], skeleton: Skeleton) -> float:
    """Return the accuracy of a linear classifier of changed and reference motions, without their captions.

    It is the accuracy on held-out clips, chance is 0.5; NaN with fewer than `FEWEST` clips.
    """
    pairs = [(example.real, example.changed) for example in examples]
    if len(pairs) < FEWEST:
        return float("nan")
    rows = [np.stack([summary(motion, skeleton) for motion in side]) for side in zip(*pairs, strict=True)]
    return _accuracy(rows[0], rows[1])


def text_alone(examples: Sequence[Example]) -> float:
    """Return the accuracy of a linear classifier of changed and true captions by their words; as `motion_alone`."""
    pairs = [(words_of(example.own.text), words_of(example.asked.text)) for example in examples]
    if len(pairs) < FEWEST:
        return float("nan")
    known = sorted({word for pair in pairs for words in pair for word in words})
    rows = [np.array([[float(word in words) for word in known] for words in side]) for side in zip(*pairs, strict=True)]
    return _accuracy(rows[0], rows[1])


def summary(features: Tensor, skeleton: Skeleton) -> NDArray[np.float64]:
    """Return averages of a clip ``[T, D]``: mean and spread of positions, speeds and accelerations of the joints."""
    layout = feature_layout(skeleton)
    rows = features.double()
    places = torch.cat([rows[:, layout.positions], rows[:, layout.root_height]], dim=1)
    steps = rows[:, layout.velocities].unflatten(1, (skeleton.joints, 3))
    speed, jolt = steps.norm(dim=-1), steps.diff(n=2, dim=0).norm(dim=-1)
    root = torch.cat([rows[:, layout.yaw_rate], rows[:, layout.root_velocity]], dim=1)
    parts = [
        places.mean(0), places.std(0, correction=0), speed.mean(0), speed.std(0, correction=0),
        jolt.mean(0) if len(jolt) else torch.zeros(skeleton.joints, dtype=torch.float64),
        root.mean(0), root.std(0, correction=0), rows[:, layout.contacts].mean(0),
    ]  # fmt: skip
    result: NDArray[np.float64] = torch.cat(parts).numpy()
    return result


def _accuracy(real: NDArray[np.float64], changed: NDArray[np.float64]) -> float:
    """Return the accuracy of ridge regression to +1 and -1; a clip and its change are always in the same fold."""
    folds = np.random.default_rng(0).permutation(len(real)) % _FOLDS
    right = 0
    for fold in range(_FOLDS):
        held_out = folds == fold
        known = np.concatenate([real[~held_out], changed[~held_out]])
        centre, scale = known.mean(0), known.std(0)
        scale[scale < 1e-9] = 1.0
        sides = [(part - centre) / scale for part in (real, changed)]
        x = np.concatenate([part[~held_out] for part in sides])
        y = np.repeat([1.0, -1.0], (~held_out).sum())
        weights = np.linalg.solve(x.T @ x + _RIDGE * len(x) * np.eye(x.shape[1]), x.T @ y)
        right += int((sides[0][held_out] @ weights > 0).sum() + (sides[1][held_out] @ weights < 0).sum())
    return right / (2 * len(real))
