"""The figures of a set of motions, with reasons for those that cannot be measured."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels import physics_sums
from motionkit.metrics import (
    FrechetReference,
    body_positions,
    diversity,
    floor_distance,
    interval,
    kid,
    kinetic_fid,
    matching_score,
    multimodality,
    npss_rows,
    r_precision,
    random_pairs,
)
from motionkit.motion import MotionBatch
from motionkit.text_to_motion.evaluation.quality import bodies_of
from motionkit.tracking import LEAST_MOVEMENT, MOST_STATUES, definition

QUANTITIES = (
    "r_precision_1", "r_precision_2", "r_precision_3", "mm_dist", "fid", "kid", "fid_guide", "diversity",
    "multimodality", "movement", "statues", "side", "kinetic_fid", "npss", "skate", "penetration", "float", "jerk",
)  # fmt: skip
"""Names of the figures, in the order of the tables."""

EMBEDDED = QUANTITIES[: QUANTITIES.index("movement")]  # those that need an evaluator
MOVING = ("movement", "statues", "side")  # those that compare motions with real clips of the same action
REWARD = "reward/"  # prefix of the names of rewards that are measured in addition
BIASED = "biased, compare at equal n only"
_BATCH, _PAIRS, _ENOUGH = 32, 300, 5
_UNMOVED = "motions are shorter than 1 s, or real clips of their actions hardly move or are not known"


@dataclass
class Sheet:
    """Figures by name."""

    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # by name, why a figure could not be measured
    notes: dict[str, str] = field(default_factory=dict)  # by name, a remark on a figure

    def add(self, other: Sheet) -> None:
        """Add the figures of another sheet."""
        self.values |= other.values
        self.missing |= other.missing
        self.notes |= other.notes


def embedding_figures(text: Tensor, motion: Tensor, real: Tensor | FrechetReference, *, count: int, seed: int) -> Sheet:
    """Return R-precision, MM-Dist, FID and Diversity of one replication.

    Args:
        text: ``[N, E]`` embeddings of the captions; each 32 in a row are a batch.
        motion: ``[N, E]`` embeddings of their motions.
        real: ``[M, E]`` embeddings of real motions, or their moments if no kernel distance is needed.
        count: M.
        seed: Seed of the pairs of Diversity.
    """
    sheet, n = Sheet(), len(motion)
    if n < _BATCH:
        why = f"batches of {_BATCH} need at least {_BATCH} motions, there are {n}"
        sheet.missing |= dict.fromkeys(("r_precision_1", "r_precision_2", "r_precision_3", "mm_dist"), why)
    else:
        hits = r_precision(text, motion).tolist()
        sheet.values |= {f"r_precision_{k}": value for k, value in enumerate(hits, start=1)}
        sheet.values["mm_dist"] = float(matching_score(text, motion))
    sheet.add(_fid(motion, real, count, "fid"))
    if n <= _PAIRS:
        sheet.missing["diversity"] = f"{_PAIRS} pairs need more than {_PAIRS} motions, there are {n}"
    else:
        sheet.values["diversity"] = diversity(motion, *random_pairs(n, _PAIRS, seed=seed))
    return sheet


def _fid(motion: Tensor, real: Tensor | FrechetReference, count: int, name: str) -> Sheet:
    sheet, few, width = Sheet(), min(len(motion), count), motion.shape[1]
    if not count:
        sheet.missing[name] = "the set holds no real motions"
        return sheet
    if few <= width:
        sheet.missing[name] = f"a covariance of width {width} needs more than {width} motions, there are {few}"
        return sheet
    reference = real if isinstance(real, FrechetReference) else FrechetReference(real)
    sheet.values[name] = reference.distance(motion)
    if few < _ENOUGH * width:
        sheet.notes[name] = f"{BIASED} ({few} motions, width {width})"
        if isinstance(real, Tensor) and name == "fid":
            sheet.values["kid"] = kid(motion, real)
    return sheet


def guide_figure(motion: Tensor, singles: Tensor) -> Sheet:
    """Return the guide's FID of composite motions: against the single clips ``[M, E]`` of their dataset."""
    return _fid(motion, singles, len(singles), "fid_guide")


def multimodality_figure(repeats: Tensor, *, pairs: int, seed: int) -> Sheet:
    """Return MultiModality of ``[C, R, E]`` embeddings: R motions of each of C texts, `pairs` shared pairs."""
    first, second = random_pairs(repeats.shape[1], min(pairs, repeats.shape[1]), seed=seed)
    return Sheet({"multimodality": multimodality(repeats, first, second)})


def physics_figures(motions: MotionBatch) -> dict[str, Tensor]:
    """Return skate, penetration, float and jerk of each motion, ``[N]`` each; definitions in `tracking`."""
    joints = motions.joints
    skate, jerk = physics_sums(joints, motions.lengths, fps=motions.fps, feet=motions.skeleton.feet)
    below, above = floor_distance(joints, motions.lengths)
    return {"skate": skate, "penetration": below, "float": above, "jerk": jerk}


def npss_columns(
    motions: MotionBatch,
    truths: Sequence[Tensor | None],  # N features [T, D] as long as the motions; None if a prompt has no real motion
) -> tuple[Tensor, Tensor]:
    """Return the two terms of NPSS of each motion against the real motion of its prompt, ``[N]`` each.

    See `motionkit.metrics.npss_terms`; it compares joint positions relative to root and heading. NaN without a real
    motion.
    """
    positions = body_positions(motions.joints, motions.headings).flatten(2)
    bodies = [positions[row, :length] for row, length in enumerate(motions.lengths.tolist())]
    return npss_rows(bodies, bodies_of(truths, motions.skeleton, motions.fps))


def moving_figures(
    # [N] columns of `MOVING` and, in ``npss_moved`` and ``npss_power``, of `npss_columns`; [N, F] kinetic features in
    # ``kinetic``
    columns: Mapping[str, Tensor],
    real: Tensor,  # [M, F] kinetic features of real motions
) -> Sheet:
    """Return the figures of movement, NPSS and kinetic FID."""
    sheet = Sheet()
    for name in MOVING:
        known = columns[name][columns[name].isfinite()]
        if len(known):
            sheet.values[name] = float(known.double().mean())
            if name == "movement" and len(known) < len(columns[name]):
                sheet.notes[name] = f"of {len(known)} of {len(columns[name])} motions"
        else:
            sheet.missing[name] = "no caption names a limb's side" if name == "side" else _UNMOVED
    power = columns["npss_power"].nansum()
    if float(power) > 0:
        sheet.values["npss"] = float(columns["npss_moved"].nansum() / power)
    else:
        sheet.missing["npss"] = "no prompt has a real motion to compare with"
    generated, truth = (features[features.isfinite().all(1)] for features in (columns["kinetic"], real))
    few, width = min(len(generated), len(truth)), generated.shape[1]
    if few <= width:
        sheet.missing["kinetic_fid"] = f"a covariance of width {width} needs more than {width} motions, there are {few}"
    else:
        sheet.values["kinetic_fid"] = kinetic_fid(generated, truth)
        if few < _ENOUGH * width:
            sheet.notes["kinetic_fid"] = f"{BIASED} ({few} motions, width {width})"
    return sheet


def require_finite(embeddings: Tensor, what: str) -> Tensor:
    """Return `embeddings`; raise if one is not finite."""
    bad = int((~torch.isfinite(embeddings).all(-1)).sum())
    if bad:
        raise MotionkitError(
            f"{bad} of {embeddings.shape[:-1].numel()} {what} motions have no finite embedding.",
            why="the motions hold NaN or infinity, so that no figure can be computed.",
            fix="look at the training run: alarms, gradient norm, precision.",
            code=1,
        )
    return embeddings


Format = Literal["table", "markdown", "latex", "csv"]
_LATEX = str.maketrans(
    {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
     "^": r"\^{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}
)  # fmt: skip


def formatted(tables: Sequence[Mapping[str, Any]], kind: Format) -> str:
    """Return tables of the command line in another format; an empty text for ``table``, which it prints itself.

    LaTeX needs no package. In CSV an empty line separates the tables.

    Example:
        >>> formatted([{"title": "x", "columns": ["", "a"], "rows": [("FID", "0.5")]}], "markdown").splitlines()[-1]
        '| FID | 0.5 |'
    """
    write = {"markdown": _markdown, "latex": _latex, "csv": _csv}
    return "\n\n".join(write[kind](table) for table in tables) if kind in write else ""


def _markdown(table: Mapping[str, Any]) -> str:
    numbers = set(table.get("numbers", ()))
    rules = ["---:" if place in numbers else "---" for place in range(len(table["columns"]))]
    rows = [table["columns"], rules, *table["rows"]]
    lines = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([f"**{table['title']}**", "", *lines] if table.get("title") else lines)


def _latex(table: Mapping[str, Any]) -> str:
    numbers = set(table.get("numbers", ()))
    places = "".join("r" if place in numbers else "l" for place in range(len(table["columns"])))
    rows = [" & ".join(str(cell).translate(_LATEX) for cell in row) + r" \\" for row in table["rows"]]
    head = " & ".join(str(cell).translate(_LATEX) for cell in table["columns"]) + r" \\"
    title = [f"% {table['title']}"] if table.get("title") else []
    return "\n".join(
        [*title, rf"\begin{{tabular}}{{{places}}}", r"\hline", head, r"\hline", *rows, r"\hline", r"\end{tabular}"]
    )


def _csv(table: Mapping[str, Any]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table["columns"])
    writer.writerows(table["rows"])
    return out.getvalue().rstrip("\n")


# Published figures on HumanML3D's test split.

COLUMNS = ("r_precision_1", "r_precision_2", "r_precision_3", "fid", "mm_dist", "diversity", "multimodality")
_MDM = "fixed results of MDM's repository (evaluation of January 2024 on)"
_LIST = "as cited by later papers"
_LONG = "1,024 of 60 frames or more"
"""DiP's evaluation leaves out prompts of clips shorter than a prefix and a block (20 + 40 frames), but keeps the real
motions of such clips."""


@dataclass(frozen=True)
class Published:
    """One published row."""

    name: str
    figures: tuple[str, ...]  # as printed, in the order of `COLUMNS`; empty if there is none
    source: str
    prompts: str  # number of motions of its FID


PUBLISHED = (
    Published("real motions", (".512", ".702", ".797", ".002", "2.97", "9.50", ""), _MDM, "whole split"),
    Published(
        "MDM, 1000 steps",
        (".418 ± .005", ".604 ± .005", ".707 ± .004", ".489 ± .025", "3.63 ± .023", "9.45 ± .066", "2.87 ± .111"),
        _MDM,
        "1,024",
    ),
    Published(
        "MDM, 50 steps",
        (".455 ± .006", ".645 ± .007", ".749 ± .006", ".489 ± .047", "3.33 ± .025", "9.92 ± .083", "2.29 ± .07"),
        _MDM,
        "1,024",
    ),
    Published(
        "MDM, 50 steps, DistilBERT",
        (".491 ± .006", ".709 ± .006", ".815 ± .005", ".495 ± .041", "3.04 ± .016", "9.88 ± .098", "1.67 ± .12"),
        _MDM,
        "1,024",
    ),
    Published(
        "DiP",
        (".458 ± .006", ".664 ± .005", ".768 ± .004", ".228 ± .027", "3.23 ± .019", "9.41 ± .067", "1.04 ± .08"),
        _MDM,
        _LONG,
    ),
    Published("DiP with targets", (".452", ".661", ".772", ".232", "3.22", "9.47", "1.14"), _MDM, _LONG),
    Published("T2M-GPT", (".491", ".680", ".775", ".116", "3.118", "9.761", "1.856"), _LIST, "whole split"),
    Published("MotionLCM", (".502", ".698", ".798", ".304", "3.012", "9.607", "2.259"), _LIST, "whole split"),
    Published("MoMask", (".521", ".713", ".807", ".045", "2.958", "", "1.241"), _LIST, "whole split"),
)
"""HumanML3D, test split, evaluator of Guo et al., 20 replications. Rows measured before MDM's correction of January
2024 (R@3 of MDM about .61) are left out, because that evaluation differs."""


def comparable(dataset: str, split: str, evaluator: str, protocol: str, *, width: int) -> str:
    """Return a sentence on which of the published rows compare with ours."""
    reasons = [
        text
        for wrong, text in (
            (dataset != "humanml", f"the data are {dataset}, not HumanML3D"),
            (split != "test", f"the split is {split}, not test"),
            (
                evaluator == "starter" or width != 512,
                f"the evaluator is {evaluator}, {width} wide, not the released one",
            ),
        )
        if wrong
    ]
    if reasons:
        return f"nothing compares with the published rows: {'; '.join(reasons)}."
    motions = "1,024" if protocol == "mdm" else "whole split"
    return (
        "R-precision and MM-Dist compare with every row but DiP's, whose prompts are of clips of 60 frames or more "
        f"(--dataset.min-length 60 measures on those); FID with rows over as many motions ({motions}) only; "
        "published rows are means over 20 replications, ours is one draw of prompts."
    )


# The table of replications: means with intervals, or reasons; and a sentence that sums it up.

_CHANCE = 0.12  # R@3 of real motions below which an evaluator is hardly trained; guessing reaches 3 / 32

Block = Mapping[str, Mapping[str, Any]]  # ``{name: {"mean", "ci95", ...}}``, or ``{"mean": None, "why"}``


def summarise(sheets: Sequence[Sheet]) -> dict[str, dict[str, Any]]:
    """Return the figures of replications as ``--json`` has them.

    ``mean`` is the mean over replications, ``ci95`` the interval mean -+ 1.96 std / sqrt(n) with the population's
    standard deviation, as the field reports it; ``values`` are the replications. A figure that a replication lacks is
    ``{"mean": None, "why"}``.
    """
    result: dict[str, dict[str, Any]] = {}
    for name in QUANTITIES:
        why = next((sheet.missing[name] for sheet in sheets if name in sheet.missing), "")
        values = [sheet.values[name] for sheet in sheets if name in sheet.values]
        if why:
            result[name] = {"mean": None, "why": why}
        elif values:
            mean, half = interval(torch.tensor(values, dtype=torch.float64))
            result[name] = {"mean": mean, "ci95": [mean - half, mean + half], "values": values}
            if note := next((sheet.notes[name] for sheet in sheets if name in sheet.notes), ""):
                result[name]["note"] = note
    return result


def table(title: str, columns: Mapping[str, Block]) -> dict[str, Any]:
    """Return blocks side by side, a row per figure, with reasons and notes in the last column."""
    names = [name for name in QUANTITIES if any(name in block for block in columns.values())]
    rows = []
    for name in names:
        blocks = [block.get(name, {}) for block in columns.values()]
        remarks = dict.fromkeys(str(block.get("why") or block.get("note") or "") for block in blocks)
        metric = definition(tracked(name))
        unit = f" ({metric.unit})" if metric.unit != "1" else ""
        arrow = {"up": " ↑", "down": " ↓", "one": " → 1", "none": ""}[metric.better]
        rows.append((f"{metric.title()}{unit}{arrow}", *map(_cell, blocks), "; ".join(filter(None, remarks))))
    return {
        "title": title,
        "columns": ["", *columns, "note"],
        "rows": rows,
        "numbers": list(range(1, len(columns) + 1)),
    }


def explain() -> list[tuple[str, str, str, str]]:
    """Return name, unit, better direction and definition of every figure."""
    return [
        (metric.title(), metric.unit, "near 1" if metric.better == "one" else metric.better, metric.meaning)
        for metric in (definition(tracked(name)) for name in QUANTITIES)
    ]


def titled(name: str) -> str:
    """Return the title of a figure in tables; a reward has its name."""
    return name.removeprefix(REWARD) if name.startswith(REWARD) else definition(tracked(name)).title()


def tracked(name: str) -> str:
    """Return the name of a figure's definition in `motionkit.tracking`."""
    if name.startswith(REWARD):
        return f"{name}/mean"
    return f"physics/{name}" if name in ("skate", "penetration", "float", "jerk") else f"eval/{name}"


def verdict(metrics: Block, truth: Block) -> str:
    """Return a sentence on how near the policy is to real motion, by the figures that could be measured."""
    parts = []
    top, real = metrics.get("r_precision_3", {}).get("mean"), truth.get("r_precision_3", {}).get("mean")
    if top is not None and real:
        parts.append(f"R@3 is {top:.3f}, {top / real:.0%} of what real motions reach ({real:.3f})")
    fid, floor = metrics.get("fid", {}).get("mean"), truth.get("fid", {}).get("mean")
    if fid is not None:
        parts.append(f"FID is {fid:.3g}" + (f" (real against real: {floor:.3g})" if floor is not None else ""))
    movement, statues = (metrics.get(name, {}).get("mean") for name in ("movement", "statues"))
    if movement is not None:
        little = f", which is little (below {LEAST_MOVEMENT:.0%})" if movement < LEAST_MOVEMENT else ""
        parts.append(f"motions move {movement:.0%} as much as real ones of the same actions{little}")
    if statues:
        many = f", which are many (above {MOST_STATUES:.0%})" if statues > MOST_STATUES else ""
        parts.append(f"{statues:.1%} of them are statues{many}")
    for name, unit in (("skate", "m/s"), ("jerk", "m/s^3")):
        value, real_value = metrics.get(name, {}).get("mean"), truth.get(name, {}).get("mean")
        if value is not None and real_value is not None:
            parts.append(f"{name} is {value:.3g} {unit} (real: {real_value:.3g})")
    passed = [
        titled(name)
        for name, sign in (("r_precision_3", 1), ("mm_dist", -1), ("fid", -1))
        if _beats(metrics.get(name, {}), truth.get(name, {}), sign)
    ]
    if passed:
        parts.append(f"it passes real motion on {' and '.join(passed)}: look at the motions before believing it")
    if real is not None and real < _CHANCE:
        parts.append("the evaluator tells the texts of real motions apart hardly better than chance (0.094): train it")
    return "; ".join(parts) + "." if parts else "nothing could be measured."


def _beats(metric: Mapping[str, Any], truth: Mapping[str, Any], sign: int) -> bool:
    if metric.get("mean") is None or truth.get("mean") is None:
        return False
    # The intervals must not overlap.
    (low, high), (truth_low, truth_high) = metric["ci95"], truth["ci95"]
    return bool(low > truth_high if sign > 0 else high < truth_low)


def _cell(block: Mapping[str, Any]) -> str:
    if not block:
        return ""
    if block["mean"] is None:
        return "n/a"
    mean, (low, high) = block["mean"], block["ci95"]
    digits = 4 if abs(mean) < 0.1 else 3 if abs(mean) < 100 else 1
    return f"{mean:.{digits}f} ± {(high - low) / 2:.{digits}f}" if len(block["values"]) > 1 else f"{mean:.{digits}f}"
