"""Tables of figures: means of replications and a sentence on them, published rows, and formats for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from motionkit.metrics import interval
from motionkit.text_to_motion.evaluation.protocol.figures import EMBEDDED, QUANTITIES, REWARD, Sheet, ordered
from motionkit.text_to_motion.findings import LEAST_MOVEMENT, MOST_STATUES, is_noise, noise_sentence
from motionkit.tracking import definition, table_of

Block = Mapping[str, Mapping[str, Any]]  # ``{name: {"mean", "ci95", ...}}``, or ``{"mean": None, "why"}``

Format = Literal["table", "markdown", "latex", "csv"]
_LATEX = str.maketrans(
    {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
     "^": r"\^{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}
)  # fmt: skip

COLUMNS = ("r_precision_1", "r_precision_2", "r_precision_3", "fid", "mm_dist", "diversity", "multimodality")
_MDM = "fixed results of MDM's repository (evaluation of January 2024 on)"
_LIST = "as cited by later papers"
_LONG = "1,024 of 60 frames or more"
"""DiP's evaluation leaves out prompts of clips shorter than a prefix and a block (20 + 40 frames), but keeps the
reference motions of such clips."""


def summarise(sheets: Sequence[Sheet]) -> dict[str, dict[str, Any]]:
    """Return the figures of replications as ``--json`` has them.

    ``mean`` is the mean over replications, ``ci95`` the interval mean -+ 1.96 std / sqrt(n) with the population's
    standard deviation, as the field reports it; ``values`` are the replications. A figure that a replication lacks is
    ``{"mean": None, "why"}``.
    """
    result: dict[str, dict[str, Any]] = {}
    for name in ordered(name for sheet in sheets for name in (*sheet.values, *sheet.missing)):
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
    names = ordered(name for block in columns.values() for name in block)
    rows = []
    for name in names:
        blocks = [block.get(name, {}) for block in columns.values()]
        remarks = dict.fromkeys(str(block.get("why") or block.get("note") or "") for block in blocks)
        metric = definition(tracked(name))
        unit = f" ({metric.unit})" if metric.unit != "1" else ""
        arrow = {"up": " ↑", "down": " ↓", "one": " → 1", "none": ""}[metric.better]
        rows.append((f"{metric.title()}{unit}{arrow}", *map(_cell, blocks), "; ".join(filter(None, remarks))))
    return table_of(title, ["", *columns, "note"], rows, range(1, len(columns) + 1))


def explain(names: Iterable[str] = QUANTITIES) -> list[tuple[str, str, str, str]]:
    """Return name, unit, better direction and definition of figures, by default of every one of motionkit's."""
    return [
        (metric.title(), metric.unit, "near 1" if metric.better == "one" else metric.better, metric.meaning)
        for metric in (definition(tracked(name)) for name in names)
    ]


def titled(name: str) -> str:
    """Return the title of a figure in tables; a reward has its name."""
    return name.removeprefix(REWARD) if name.startswith(REWARD) else definition(tracked(name)).title()


def tracked(name: str) -> str:
    """Return the name of a figure's definition in `motionkit.tracking`."""
    if name.startswith(REWARD):
        return f"{name}/mean"
    if name not in QUANTITIES:
        return f"heldout/{name}"
    return f"physics/{name}" if name in ("skate", "penetration", "float", "jerk") else f"eval/{name}"


def verdict(metrics: Block, truth: Block, doubt: str = "") -> str:
    """Return a sentence on how near the policy is to the reference motions, by the figures that could be measured.

    Args:
        metrics: Figures of the policy.
        truth: Figures of the reference motions.
        doubt: Why nothing is read off the evaluator's figures; they are left out then.
    """
    parts = []
    jerk, usual = (block.get("jerk", {}).get("mean") for block in (metrics, truth))
    noise = jerk is not None and is_noise(jerk, usual)
    if noise and jerk is not None and usual is not None:
        parts.append(f"{noise_sentence(jerk, usual)}: train it longer")
    if doubt and any(metrics.get(name, {}).get("mean") is not None for name in EMBEDDED):
        parts.append(f"nothing is read off R-precision, FID and the evaluator's other figures, as {doubt}")
        metrics, truth = (
            {name: of for name, of in block.items() if name not in EMBEDDED} for block in (metrics, truth)
        )
    top, real = metrics.get("r_precision_3", {}).get("mean"), truth.get("r_precision_3", {}).get("mean")
    if top is not None and real:
        parts.append(f"R@3 is {top:.3f}, {top / real:.0%} of what reference motions reach ({real:.3f})")
    fid, floor = metrics.get("fid", {}).get("mean"), truth.get("fid", {}).get("mean")
    if fid is not None:
        parts.append(
            f"FID is {fid:.3g}" + (f" (reference against reference: {floor:.3g})" if floor is not None else "")
        )
    movement, statues = (metrics.get(name, {}).get("mean") for name in ("movement", "statues"))
    if movement is not None:
        few = movement < LEAST_MOVEMENT and not noise  # noise shakes in place
        little = f", which is little (below {LEAST_MOVEMENT:.0%})" if few else ""
        parts.append(f"motions move {movement:.0%} as much as reference ones of the same actions{little}")
    if statues:
        many = f", which are many (above {MOST_STATUES:.0%})" if statues > MOST_STATUES else ""
        parts.append(f"{statues:.1%} of them are statues{many}")
    for name, unit in (("skate", "m/s"), ("jerk", "m/s^3")):
        value, real_value = metrics.get(name, {}).get("mean"), truth.get(name, {}).get("mean")
        if value is not None and real_value is not None:
            shown, known = (f"{number:,.0f}" if number >= 1000 else f"{number:.3g}" for number in (value, real_value))
            parts.append(f"{name} is {shown} {unit} (reference: {known})")
    passed = [
        titled(name)
        for name, sign in (("r_precision_3", 1), ("mm_dist", -1), ("fid", -1))
        if _beats(metrics.get(name, {}), truth.get(name, {}), sign)
    ]
    if passed:
        parts.append(
            f"it passes the reference motions on {' and '.join(passed)}: look at the motions before believing it"
        )
    if metrics and not (parts or truth):
        return "there are no reference motions to compare with: motionkit eval compare compares policies."
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
        "published rows are means over 20 replications, ours is one draw of prompts. The layout of a folder does "
        "not say whether HumanML3D is in it: nothing compares if it is not."
    )


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
