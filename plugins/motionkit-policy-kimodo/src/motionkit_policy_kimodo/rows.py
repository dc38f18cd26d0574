"""Definitions of what is measured as in Kimodo's benchmark. It imports no torch."""

from __future__ import annotations

from motionkit.plugins import Metric

_PAIRS = {"t2m": "texts whose own motion", "m2m": "motions whose true motion", "t2m_gt": "texts whose true motion"}
_SETS = {"gen_gt": "motions and true motions", "gt_text": "true motions and texts", "gen_text": "motions and texts"}

_ROWS = (
    ("skate_height", "m/s", "down", "Mean speed of toes below 5 cm.", "foot skate, by height"),
    ("skate_contacts", "m/s", "down", "Mean speed of feet where the model says contact.", "foot skate, by contacts"),
    ("skate_most", "m/s", "down", "Largest speed of feet where the model says contact.", "largest foot skate"),
    ("skate_ratio", "1", "down", "Share of the toes on the floor that are faster than 0.2 m/s.", "sliding toes"),
    ("consistency", "1", "up", "Share of the model's contacts that agree with speed and height.", "right contacts"),
    ("path_error", "m", "down", "Distance to the path that a prompt gives, on its frames.", "error of the path"),
    ("effectors_error", "m", "down", "Distance of joints to where a prompt wants them.", "error of joints"),
    *(
        (f"{pair}_R{k:02d}", "%", "up", f"Share of {who} is among the {k} nearest, by TMR-SOMA.", f"{pair} R@{k}")
        for pair, who in _PAIRS.items()
        for k in (1, 2, 3, 5, 10)
    ),
    *(
        (f"{pair}_MedR", "1", "down", f"Median rank of {who} is looked for, by TMR-SOMA.", f"{pair} median rank")
        for pair, who in _PAIRS.items()
    ),
    *(
        (f"FID_{name}", "1", "down", f"Frechet distance of {both}, by TMR-SOMA.", f"FID {name}")
        for name, both in _SETS.items()
    ),
)  # fmt: skip

METRICS = tuple(
    Metric(f"heldout/{name}", unit, better, meaning, label, short=True)  # type: ignore[arg-type]
    for name, unit, better, meaning, label in _ROWS
)
