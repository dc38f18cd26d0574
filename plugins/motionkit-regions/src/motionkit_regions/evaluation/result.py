"""Results of ``eval sa2va`` and of ``sa2va-rl``: figures with bootstrap intervals, tables, a verdict, and notes.

`summarise` returns every figure, the other functions show them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.tracking import TOO_FEW, Report, definition, label_of, table_of
from motionkit_regions.evaluation.known import TRUTH, Known
from motionkit_regions.evaluation.measure import RegionFigures, worded
from motionkit_regions.evaluation.split import EqualEntropy, SplitFigures
from motionkit_regions.policy import RegionPolicy

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
_RESAMPLES = 1000

CAPTIONS = ("cycle_iou", "judge_iou", *TRUTH, "words", "meteor", "cider")
"""Figures of captions, in the order that they are shown in."""

GREEDY = tuple(f"{name}_greedy" for name in CAPTIONS)
SAMPLED = ("cycle_iou", "judge_iou", "unique", "attributes_wrong", "words", "meteor", "cider")
_PRECISIONS = {f"precision_{round(100 * level)}": level for level in THRESHOLDS}

FIGURES = (*GREEDY, "giou", "ciou", *_PRECISIONS, "no_target", *SAMPLED)
"""Every figure: what one gets first, and then sampled captions; `motionkit.tracking` defines ``regions/NAME``."""

_EXPLAINED = (
    *GREEDY, "giou", "ciou", "precision_50", "no_target", "cycle_iou",
)  # fmt: skip
"""Figures that are explained; of those of sampled captions, which have the same meaning, one is enough."""

LONGER = 0.2
"""Share by which captions may grow before it is reported."""

_MAIN = (
    "cycle_iou_greedy", "judge_iou_greedy", "unique_greedy", "attributes_wrong_greedy", "giou", "referring_iou",
)  # fmt: skip

_EFFECTS = ("attributes_wrong_greedy", "words_greedy", "no_target")
"""Figures that a reward may pay for by making them worse."""

Figures = Mapping[str, Mapping[str, Any]]


def rows_of(figures: SplitFigures) -> dict[str, NDArray[np.float64]]:
    """Return numerators and denominators ``[R, 2]`` of each figure; NaN is left out.

    A figure is the sum of the numerators over that of the denominators, or 1 if the latter is 0: for cIoU pixels of
    the intersections over pixels of the unions, for every other figure a mean.
    """
    greedy, iou = figures.greedy.scores, figures.greedy.scores["referring_iou"]
    means = {f"{name}_greedy": values for name, values in greedy.items() if name not in ("referring_iou", "no_target")}
    means |= {"giou": iou, "no_target": greedy["no_target"]}
    means |= {name: (iou >= level).astype(np.float64) for name, level in _PRECISIONS.items()}
    means |= _sampled_of(figures.sampled)
    pairs = {"ciou": figures.counts.astype(np.float64)} | {name: _pairs(scores) for name, scores in means.items()}
    others = [name for name in pairs if name not in FIGURES]  # attributes one by one
    return {name: pairs[name] for name in (*FIGURES, *others) if name in pairs}


def _sampled_of(figures: RegionFigures) -> dict[str, NDArray[np.float64]]:
    return {name: figures.scores[name] for name in SAMPLED if name in figures.scores}


def _pairs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.nan_to_num(values), np.isfinite(values).astype(np.float64)], 1)


def value_of(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return figures ``[...]`` of summed numerators and denominators ``[..., 2]``."""
    above, below = pairs[..., 0], pairs[..., 1]
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), 1.0)


def summarise(
    after: SplitFigures,
    before: SplitFigures | None = None,
    equal: EqualEntropy | None = None,
    *,
    data: Mapping[str, float] | None = None,
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """Return every figure with 95 % percentile bootstrap intervals over regions.

    Args:
        after: What was measured.
        before: The same regions by the policy that it is compared with; the difference is paired by region.
        equal: That policy at the temperature of equal entropy, beside sampled captions.
        data: Figures of the data's own captions; see `of_data`.
        seed: Of the resampling.

    Returns:
        By figure ``after`` and ``after_ci95``, with `before` also ``before``, ``before_ci95``, ``delta`` and its
        ``ci95``; ``n``; ``data`` if the data's captions have it; and of sampled captions ``equal_entropy`` with
        ``before``, ``delta`` and ``ci95``. A figure of no region is left out.
    """
    sides = {"after": rows_of(after)} | ({} if before is None else {"before": rows_of(before)})
    figures = list(sides["after"])
    if equal is not None:
        pairs = {name: _pairs(scores) for name, scores in _sampled_of(equal.sampled).items()}
        sides["equal"] = {name: pairs.get(name, np.zeros((len(after.counts), 2))) for name in figures}
    sums = {name: np.stack(list(rows.values()), 1) for name, rows in sides.items()}  # [R, figures, 2]
    count = len(sums["after"])
    draw = np.random.default_rng(seed)
    resampled: dict[str, list[NDArray[np.float64]]] = {name: [] for name in sums}
    for _ in range(_RESAMPLES):
        # How often each region is drawn: the sums follow by one product.
        times = np.bincount(draw.integers(count, size=count), minlength=count).astype(np.float64)
        for name, rows in sums.items():
            resampled[name].append(value_of(np.tensordot(times, rows, 1)))
    spread = {name: np.stack(samples) for name, samples in resampled.items()}
    values = {name: value_of(rows.sum(0)) for name, rows in sums.items()}
    document: dict[str, dict[str, Any]] = {}
    for place, figure in enumerate(figures):
        measured = int((sums["after"][:, place, 1] > 0).sum()) if figure != "ciou" else count
        if not measured:
            continue
        entry: dict[str, Any] = {}
        for name in ("before", "after"):
            if name in sums:
                entry |= {name: float(values[name][place]), f"{name}_ci95": _ends(spread[name][:, place])}
        if before is not None:
            entry["delta"] = float(values["after"][place] - values["before"][place])
            entry["ci95"] = _ends(spread["after"][:, place] - spread["before"][:, place])
        if equal is not None and figure in SAMPLED:
            entry["equal_entropy"] = {
                "before": float(values["equal"][place]),
                "delta": float(values["after"][place] - values["equal"][place]),
                "ci95": _ends(spread["after"][:, place] - spread["equal"][:, place]),
            }
        if data is not None and figure in data:
            entry["data"] = data[figure]
        document[figure] = {**entry, "n": measured}
    return document


def of_data(captions: Sequence[str], known: Known) -> dict[str, float]:
    """Return means of the data's own captions, by the names of the greedy figures: what they have of `TRUTH`, words."""
    scores = worded(captions, captions, known)
    return {
        f"{name}_greedy": float(values.mean()) for name, values in scores.items() if name not in ("meteor", "cider")
    }


def _ends(values: NDArray[np.float64]) -> list[float]:
    low, high = np.quantile(values, (0.025, 0.975))
    return [float(low), float(high)]


def tables(
    figures: Figures,  # what `summarise` returns
    title: str,  # of the first table
    *,
    compared: bool,  # whether there is a policy before
    equal: float | None = None,  # temperature of equal entropy
) -> list[dict[str, Any]]:
    """Return tables: greedy captions and masks, sampled captions, and attributes."""
    lead = {name: values for name, values in figures.items() if name in FIGURES and name not in SAMPLED}
    sampled = {name: values for name, values in figures.items() if name in SAMPLED}
    if compared:
        shown = [Report(lead).table(title), sampled_table(sampled, equal)]
    else:
        shown = [_values(lead, title), _values(sampled, "Sampled captions")]
    rest = {name: values for name, values in figures.items() if name not in FIGURES}
    return [*shown, *attribute_table(rest)]


def sampled_table(
    figures: Figures,  # before, after, and ``equal_entropy`` of each
    equal: float | None,  # temperature of equal entropy; None compares with the policy before at its temperature
) -> dict[str, Any]:
    """Return the table of sampled captions."""
    blocks = {name: {**values, **(values.get("equal_entropy") or {})} for name, values in figures.items()}
    columns = ["", "before", *([f"at T {equal:.3g}"] if equal else []), "after", "change", "95 % interval", "that is"]
    rows = [
        (
            label_of(row.name).removesuffix(", sampled"), row.text(float(figures[row.name]["before"])),
            *([row.text(row.before)] if equal else []), row.text(row.after), row.text(row.delta, sign=True),
            row.interval, row.verdict,
        )
        for row in Report(blocks).changes
    ]  # fmt: skip
    title = "Sampled captions, " + ("beside the policy before at equal entropy" if equal else "before and after")
    return table_of(title, columns, rows, range(1, len(columns) - 1))


def attribute_table(
    figures: Figures,  # ``<attribute>_right_greedy``, ``_wrong_greedy`` and ``_left_out_greedy``
) -> list[dict[str, Any]]:
    """Return a list with the table of attributes; empty if there are none."""
    sides = [side for side in ("before", "after", "data") if any(side in values for values in figures.values())]
    rows = []
    for name, values in figures.items():
        rows.append((label_of(name), *(_text(name, values[side]) if side in values else "-" for side in sides)))
    title = "Attributes, as share of the captions"
    heads = ["reference" if side == "data" else side for side in sides]
    return [table_of(title, ["", *heads], rows)] if rows else []


def _values(figures: Figures, title: str) -> dict[str, Any]:
    """Return a table of values with their intervals, and those of the data's captions."""
    known = any("data" in figure for figure in figures.values())
    rows = []
    for name, figure in figures.items():
        low, high = figure["after_ci95"]
        data = [_text(name, figure["data"]) if "data" in figure else "-"] if known else []
        rows.append((label_of(name), _text(name, figure["after"]), *data, f"{_text(name, low)} to {_text(name, high)}"))
    columns = ["", "value", *(["reference"] if known else []), "95 % interval"]
    return table_of(title, columns, rows)


def verdict(
    figures: Figures,  # what was measured
    *,
    compared: bool,  # whether there is a policy before
    equal: float | None = None,  # temperature of equal entropy
    lead: bool = True,  # with the first figure, which the headline of a run has already
) -> str:
    """Return the main figures in a sentence: of greedy captions, then of sampled ones."""
    names = [name for name in _MAIN[not lead :] if name in figures]
    if not compared:
        return ", ".join(f"{label_of(name)} {_text(name, figures[name]['after'])}" for name in names) + "."
    changes = ", ".join(
        f"{label_of(name)} {_text(name, figures[name]['before'])} to {_text(name, figures[name]['after'])}"
        for name in names
    )
    (judge,) = Report({"judge_iou_greedy": figures["judge_iou_greedy"]}).changes
    sure = judge.verdict == "better"
    head = "the judge draws its captions better" if sure else "the judge sees no clear gain"
    if judge.verdict == TOO_FEW:
        head = f"{judge.n} regions are {TOO_FEW} to say whether the judge draws its captions better"
    if worse := [short for short, _ in _effects(figures)]:
        head += f", {'but' if sure else 'and'} {' and '.join(worse)}"
    return f"{head}: {changes}.{_equal_entropy_sentence(figures, equal)}"


def _equal_entropy_sentence(figures: Figures, equal: float | None) -> str:
    name = "cycle_iou"
    sampled = figures.get(name, {})
    other = sampled.get("equal_entropy")
    if not other or equal is None:
        return ""
    return (
        f" Sampled captions have cycle IoU {_text(name, sampled['after'])}; those of the policy before "
        f"{_text(name, sampled['before'])}, and {_text(name, other['before'])} at the temperature of equal entropy, "
        f"{equal:.3g}."
    )


def side_effects(
    figures: Figures,  # before, after and the interval of the change, of greedy captions
) -> list[str]:
    """Return a sentence for each figure that got worse: wrong attributes, longer captions, masks of absent objects."""
    return [text for _, text in _effects(figures)]


def _effects(figures: Figures) -> list[tuple[str, str]]:
    """Return each side effect in a few words and in a sentence."""
    effects: list[tuple[str, str]] = []
    wrong, words, absent = (figures.get(name) for name in _EFFECTS)
    measured = Report({name: figures[name] for name in _EFFECTS if name in figures})
    verdicts = {row.name: row.verdict for row in measured.changes}
    if wrong and verdicts["attributes_wrong_greedy"] == "worse":
        span = f"{wrong['before']:.1%} before, {wrong['after']:.1%} after"
        effects.append(("more of what they say is wrong", f"captions name more attributes wrongly: {span}."))
    if words and verdicts["words_greedy"] == "longer" and words["after"] > (1 + LONGER) * words["before"]:
        data = f"; the data's have {words['data']:.1f}" if "data" in words else ""
        span = f"from {words['before']:.1f} to {words['after']:.1f} words{data}"
        effects.append(("they are longer", f"captions grew {span}."))
    if absent and verdicts["no_target"] == "worse":
        span = f"nothing is drawn of {absent['before']:.0%} before, {absent['after']:.0%} after"
        effects.append(("more is drawn of absent objects", f"masks of absent objects got worse: {span}."))
    return effects


def describe_sampled(temperature: float, equal: float | None, nats: float, count: int) -> str:
    """Return a sentence on how sampled captions are compared."""
    if equal is None:
        return f"Sampled captions: temperature {temperature:g}."
    return (
        f"Sampled captions: temperature {temperature:g}, and the policy before also at {equal:.3g}, where its words "
        f"have the same mean entropy, {nats:.2f} nats, over the captions that the trained one "
        f"sampled of {count:,} regions; found by bisection. The change is beside that."
    )


def limits_of(
    policy: RegionPolicy,
    captions: Sequence[str],  # the data's
) -> list[str]:
    """Return notes on a policy's image size, and on the share of the data's words that it knows."""
    notes = [f"the policy sees {policy.sees}."] if policy.sees else []
    share = policy.known_words(captions)
    if share is not None and share < 1:
        notes.append(
            f"the policy knows {share:.0%} of the words of the data's captions; it can neither read nor say the others."
        )
    return notes


def explained() -> list[tuple[str, str]]:
    """Return every figure with its meaning."""
    rows = {name: _within(definition(f"regions/{name}").meaning) for name in _EXPLAINED}
    return [(label_of(name), "of sampled captions" if name in SAMPLED else text) for name, text in rows.items()]


def _within(sentence: str) -> str:
    """Return a sentence in lower case at its start, unless with a name such as METEOR, and without its full stop."""
    first = sentence.partition(" ")[0]
    return (sentence[:1].lower() if first[1:].islower() else sentence[:1]) + sentence[1:].removesuffix(".")


def _text(name: str, value: float) -> str:
    return definition(f"regions/{name}").text(value)
