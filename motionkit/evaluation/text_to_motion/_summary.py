"""Replications as a table: means with intervals, reasons where there is no figure, and one sentence about it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from motionkit.evaluation.text_to_motion._figures import QUANTITIES, REWARD, Sheet
from motionkit.metrics import interval
from motionkit.tracking import LEAST_MOVEMENT, MOST_STATUES, definition

TITLES = {
    "r_precision_1": "R@1", "r_precision_2": "R@2", "r_precision_3": "R@3", "mm_dist": "MM-Dist", "fid": "FID",
    "kid": "KID", "fid_guide": "FID to single clips (guide)", "diversity": "Diversity",
    "multimodality": "MultiModality", "movement": "movement, share of real", "statues": "statues",
    "side": "named side right", "kinetic_fid": "kinetic FID", "npss": "NPSS",
    "skate": "skate", "penetration": "penetration", "float": "float", "jerk": "jerk",
}  # fmt: skip

_CHANCE = 0.12
"""R@3 of real motions below which an evaluator knows nearly nothing; guessing reaches 3 / 32."""

Block = Mapping[str, Mapping[str, Any]]
"""``{name: {"mean", "ci95", ...}}``, or ``{"mean": None, "why"}``."""


def summarise(sheets: Sequence[Sheet]) -> dict[str, dict[str, Any]]:
    """Return the figures of replications as ``--json`` has them.

    ``mean`` is the mean over replications, ``ci95`` the interval mean -+ 1.96 std / sqrt(n) with the population's
    standard deviation, as the field reports it; ``values`` are the replications. A figure that a replication lacks is
    ``{"mean": None, "why"}``.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in QUANTITIES:
        why = next((sheet.missing[name] for sheet in sheets if name in sheet.missing), "")
        values = [sheet.values[name] for sheet in sheets if name in sheet.values]
        if why:
            found[name] = {"mean": None, "why": why}
        elif values:
            mean, half = interval(torch.tensor(values, dtype=torch.float64))
            found[name] = {"mean": mean, "ci95": [mean - half, mean + half], "values": values}
            if note := next((sheet.notes[name] for sheet in sheets if name in sheet.notes), ""):
                found[name]["note"] = note
    return found


def table(title: str, columns: Mapping[str, Block]) -> dict[str, Any]:
    """Return blocks side by side, a row per figure; reasons and notes stand in the last column."""
    names = [name for name in QUANTITIES if any(name in block for block in columns.values())]
    rows = []
    for name in names:
        blocks = [block.get(name, {}) for block in columns.values()]
        remarks = dict.fromkeys(str(one.get("why") or one.get("note") or "") for one in blocks)
        metric = definition(tracked(name))
        unit = f" ({metric.unit})" if metric.unit != "1" else ""
        arrow = {"up": " ↑", "down": " ↓", "one": " → 1", "none": ""}[metric.better]
        rows.append((f"{TITLES[name]}{unit}{arrow}", *map(_cell, blocks), "; ".join(filter(None, remarks))))
    return {
        "title": title,
        "columns": ["", *columns, "note"],
        "rows": rows,
        "numbers": list(range(1, len(columns) + 1)),
    }


def explain() -> list[tuple[str, str, str, str]]:
    """Return name, unit, better direction and definition of every figure."""
    metrics = [(TITLES[name], definition(tracked(name))) for name in QUANTITIES]
    return [
        (title, metric.unit, "near 1" if metric.better == "one" else metric.better, metric.meaning)
        for title, metric in metrics
    ]


def titled(name: str) -> str:
    """Return what tables call a figure; a reward has its own name."""
    return TITLES.get(name) or name.removeprefix(REWARD)


def tracked(name: str) -> str:
    """Return the name that a figure is defined by in `motionkit.tracking`."""
    if name.startswith(REWARD):
        return f"{name}/mean"
    return f"physics/{name}" if name in ("skate", "penetration", "float", "jerk") else f"eval/{name}"


def verdict(metrics: Block, truth: Block) -> str:
    """Return one sentence: how near the policy is to real motion, by what could be measured."""
    said = []
    top, real = metrics.get("r_precision_3", {}).get("mean"), truth.get("r_precision_3", {}).get("mean")
    if top is not None and real:
        said.append(f"R@3 is {top:.3f}, {top / real:.0%} of what real motions reach ({real:.3f})")
    fid, floor = metrics.get("fid", {}).get("mean"), truth.get("fid", {}).get("mean")
    if fid is not None:
        said.append(f"FID is {fid:.3g}" + (f" (real against real: {floor:.3g})" if floor is not None else ""))
    movement, statues = (metrics.get(name, {}).get("mean") for name in ("movement", "statues"))
    if movement is not None:
        little = f", which is little (below {LEAST_MOVEMENT:.0%})" if movement < LEAST_MOVEMENT else ""
        said.append(f"motions move {movement:.0%} as much as real ones of the same actions{little}")
    if statues:
        many = f", which are many (above {MOST_STATUES:.0%})" if statues > MOST_STATUES else ""
        said.append(f"{statues:.1%} of them are statues{many}")
    for name, unit in (("skate", "m/s"), ("jerk", "m/s^3")):
        one, other = metrics.get(name, {}).get("mean"), truth.get(name, {}).get("mean")
        if one is not None and other is not None:
            said.append(f"{name} is {one:.3g} {unit} (real: {other:.3g})")
    passed = [
        TITLES[name]
        for name, sign in (("r_precision_3", 1), ("mm_dist", -1), ("fid", -1))
        if _beats(metrics.get(name, {}), truth.get(name, {}), sign)
    ]
    if passed:
        said.append(f"it passes real motion on {' and '.join(passed)}: look at the motions before believing it")
    if real is not None and real < _CHANCE:
        said.append("the evaluator tells the texts of real motions apart hardly better than chance (0.094): train it")
    return "; ".join(said) + "." if said else "nothing could be measured."


def _beats(one: Mapping[str, Any], other: Mapping[str, Any], sign: int) -> bool:
    if one.get("mean") is None or other.get("mean") is None:
        return False
    # Beyond both intervals.
    mine, theirs = ((block["ci95"][0], block["ci95"][1]) if sign > 0 else block["ci95"][::-1] for block in (one, other))
    return bool(sign * (mine[0] - theirs[1]) > 0)


def _cell(block: Mapping[str, Any]) -> str:
    if not block:
        return ""
    if block["mean"] is None:
        return "n/a"
    mean, (low, high) = block["mean"], block["ci95"]
    digits = 4 if abs(mean) < 0.1 else 3 if abs(mean) < 100 else 1
    return f"{mean:.{digits}f} ± {(high - low) / 2:.{digits}f}" if len(block["values"]) > 1 else f"{mean:.{digits}f}"
